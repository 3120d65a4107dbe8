"""Variables that the configuration names reach neither commands nor records, whatever they are called."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Kernel, ProviderInfo
from codex_framework.commands.process.environment import command_environment
from codex_framework.config import load_config
from codex_framework.config.credentials import Credentials, credentials
from codex_framework.config.schema import KEYS
from codex_framework.testing.replies import call, say
from codex_framework.testing.server import ResponsesServer
from codex_plugin_user_shell import RunUserShellCommand

KEY = "k3y-of-the-provider"

CONFIG = """
[model_providers.one]
env_key = "ONE"
experimental_bearer_token = "token-in-the-config"
env_http_headers = { x-team = "TEAM", x-user = "USER" }
http_headers = { Authorization = "Bearer literal", x-version = "2026-11-22-long" }

[mcp_servers.docs]
url = "https://docs.example"
bearer_token_env_var = "DOCS"
env_http_headers = { x-docs = "DOCS_TEAM" }

[mcp_servers.files]
command = "files"
env = { FILES_TOKEN = "files-token-value", MODE = "production-mode" }
env_vars = ["FILES", { name = "SHARE", source = "local" }]

[otel.exporter.otlp-http]
headers = { authorization = "Bearer of-telemetry", x-version = "2026-11-22-long" }

[framework.plugins.mine]
env_key = "MINE"
nested = { search_env_var = "SEARCH" }

[shell_environment_policy]
set = { CI_env_key = "CI" }
"""


def test_all_variables_that_the_configuration_names_are_found() -> None:
    provider = ProviderInfo(id="p", env_key="GIVEN", env_http_headers={"x": "HEADER"}, requires_openai_auth=True)
    found = credentials(tomllib.loads(CONFIG), [provider])
    assert found.names == {
        *("ONE", "TEAM", "USER", "DOCS", "DOCS_TEAM", "FILES", "FILES_TOKEN", "SHARE", "MINE", "SEARCH"),
        *("GIVEN", "HEADER", "OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"),
    }
    assert found.secrets == {"token-in-the-config", "Bearer literal", "files-token-value", "Bearer of-telemetry"}
    assert "token" not in repr(found)


def test_every_setting_that_names_a_variable_is_known() -> None:
    """A new key of the schema whose text says that it names a variable is found as well."""
    for name, key in KEYS.items():
        if "environment variable" not in key.meaning or key.type.startswith("bool") or "instructions" in name:
            continue
        if name.startswith(("shell_environment_policy", "framework.keep_variables")) or name == "mcp_servers.*.env":
            continue
        value: Any = {"str": "VARIABLE", "map[str]": {"x": "VARIABLE"}}.get(key.type, ["VARIABLE"])
        table: Any = value
        for part in reversed(name.replace("*", "any").split(".")):
            table = {part: table}
        assert credentials(table).names == {"VARIABLE"}, name


def test_they_are_dropped_with_their_copies_but_what_programs_need_stays() -> None:
    environ = {
        "ONE": KEY,
        "COPY": f"Bearer {KEY}",
        "URL": f"https://x/?key={KEY}",
        "OTHER": "mine",
        "DEBUG": "1",
        "USER": "me-and-my-name",
        "HOME": "/home/me-and-my-name",
        "SHORT": "1",
        "PATH": f"/bin:/{KEY}",
    }
    named = Credentials(["ONE", "USER", "SHORT", ""])
    expected = {name: environ[name] for name in ("OTHER", "DEBUG", "USER", "HOME", "PATH")}
    for policy in ({}, {"ignore_default_excludes": True}, {"ignore_default_excludes": False}):
        assert command_environment(policy, environ, keep=["*"], credentials=named) == expected
    assert command_environment({"include_only": ["ONE", "COPY"]}, environ, credentials=named) == {}
    assert command_environment({"set": {"ONE": "test"}}, environ, credentials=named)["ONE"] == "test"


@pytest.mark.parametrize("sandbox", ["danger-full-access", "read-only"])
def test_the_key_reaches_neither_commands_nor_records(tmp_path: Path, sandbox: str) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / "auth.json").write_text(f'{{"OPENAI_API_KEY": "{KEY}"}}')
    (home / ".env").write_text(f"FROM_DOTENV={KEY}\n")
    replies = [
        call("exec_command", cmd='env; echo "$LLM"', login=False),
        call("read_file", file_path="/proc/self/environ"),
        call("read_file", file_path=str(home / "auth.json")),
        call("read_file", file_path=str(home / ".env")),
        say("done"),
    ]
    with ResponsesServer(replies) as server:
        provider = (
            f'model_providers.p={{name="p",base_url="{server.url}",env_key="LLM",env_http_headers={{x-team="TEAM"}}}}'
        )
        environ = {
            "CODEX_HOME": str(home),
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "LLM": KEY,
            "TEAM": f"team-{KEY}",
        }
        environ |= {"COPY": KEY, "PLAIN": "plain"}
        overrides = (
            provider,
            'model_provider="p"',
            'model="m"',
            f'sandbox_mode="{sandbox}"',
            'approval_policy="never"',
        )
        overrides = (
            *overrides,
            "shell_environment_policy.ignore_default_excludes=true",
            "framework.plugins.read_file.offer=true",
        )
        config = load_config(cwd=work, environ=environ, overrides=overrides)

        async def turn() -> None:
            async with await Kernel.create(config, environ=environ) as kernel:
                thread = await kernel.start_thread()
                await thread.run("go")
                await thread.submit(RunUserShellCommand("env"))
                while not any("user_shell_command" in line for line in records(home)):
                    await asyncio.sleep(0.02)

        asyncio.run(asyncio.wait_for(turn(), 60))
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        told = [str(request.body) for request in server.requests]
    everything = "\n".join([*told, *records(home)])
    assert "PLAIN=plain" in everything
    assert KEY not in everything
    assert everything.count("tools cannot access the credentials of this program") >= 2
    assert "files under /proc and /sys" in everything


def records(home: Path) -> list[str]:
    return [path.read_text() for path in home.rglob("*") if path.is_file() and path.suffix in (".jsonl", ".log")]
