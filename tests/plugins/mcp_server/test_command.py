"""The command itself: its options, what it needs, and whose stdout it is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from codex_framework import ConfigError
from codex_framework.cli.main import main
from codex_framework.toolkit.installing import install_command
from codex_plugin_mcp_server.command import mcp_server
from codex_plugin_mcp_server.options import Address, Options
from codex_plugin_mcp_server.serving import serving


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the options that a command line means."""
    found: list[Options] = []
    monkeypatch.setattr("codex_plugin_mcp_server.command._check_installed", lambda: None)
    monkeypatch.setattr("codex_plugin_mcp_server.serving.serve", lambda given, plugin: found.append(given) or 0)

    def read(*argv: str) -> Options:
        result = CliRunner().invoke(mcp_server, argv, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return found[-1]

    return read


def test_the_options(sdk, options, monkeypatch) -> None:
    monkeypatch.setenv("OWN_TOKEN", "x" * 32)
    assert options() == Options()
    assert options("--expose-tools").tools == ("*",)
    assert options("--expose-tools", "shell, mcp__*,").tools == ("shell", "mcp__*")
    alone = options("--tools-only")
    assert (alone.tools, alone.agent) == (("*",), False)
    assert options("-c", "model=o3", "-c", "a.b=[1]").config == {"model": "o3", "a.b": [1]}
    assert options("--http", ":80").address == Address("127.0.0.1", 80)
    assert options("--http", "[::1]:0").address == Address("::1", 0)
    far = options("--http", "0.0.0.0:80", "--bearer-token-env-var", "OWN_TOKEN")
    assert far.token == "x" * 32
    assert "x" * 32 not in repr(far)
    assert options("--http", "0.0.0.0:80", "--allow-unauthenticated").token is None


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (("--http", "0.0.0.0:80"), "can be reached from other machines"),
        (("--http", "[::]:80"), "can be reached from other machines"),
        (("--http", "box.example:80"), "can be reached from other machines"),
        (("--http", "127.0.0.1"), "is no address"),
        (("--http", "127.0.0.1:70000"), "is no address"),
        (("--http", "::1:80"), "is no address"),
        (("--allow-unauthenticated",), "is for HTTP"),
        (("--allow-host", "x"), "is for HTTP"),
        (("--bearer-token-env-var", "OWN_TOKEN"), "is for HTTP"),
        (("--http", ":80", "--bearer-token-env-var", "NO_TOKEN"), "NO_TOKEN is not set"),
        (("--http", ":80", "--bearer-token-env-var", "SHORT"), "contains no usable token"),
        (("-c", "model"), "is no setting"),
    ],
)
def test_wrong_options(sdk, options, monkeypatch, argv, fact) -> None:
    monkeypatch.setenv("SHORT", "abc")
    with pytest.raises(ConfigError, match=fact) as raised:
        options(*argv)
    assert raised.value.hint


def test_without_the_sdk_one_line_says_what_to_install(home, tmp_path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m\n"
        "real = m.version\n"
        "def version(name):\n"
        "    if name == 'mcp':\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
    )
    env = {**home.env, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(home.argv(), capture_output=True, text=True, env=env, cwd=home.work, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert install_command("codex-framework[mcp]") in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_nothing_that_plugins_print_gets_into_the_protocol(home, process, play, tmp_path) -> None:
    plugin = home.work / "loud.py"
    plugin.write_text(
        "import os, subprocess, sys\n"
        "from codex_framework import hookimpl, tool\n"
        "print('at import')\n"
        "@tool\n"
        "def loud() -> str:\n"
        "    'Print.'\n"
        "    print('in a call')\n"
        "    os.write(1, b'raw\\n')\n"
        "    subprocess.run(['echo', 'child'])\n"
        "    return repr(sys.stdin.read()) + '\\udc80'\n"
        "@hookimpl\n"
        "def codex_tools():\n"
        "    print('in a hook')\n"
        "    return [loud]\n"
    )
    home.serve()
    home.plugins.append(plugin)

    async def story() -> str:
        async with process("--expose-tools", "loud") as (client, running):
            result = await client.result(await client.call("loud"))
            assert result["content"] == [{"type": "text", "text": "''\ufffd"}]
            again = await client.result(await client.call("loud"))  # the connection has survived
            assert again == result
            running.stdin.close()
            return (await running.stderr.read()).decode()

    err = play(story())
    for text in ("in a call", "raw", "child"):
        assert text in err


def test_the_threads_have_the_profile_that_stands_before_the_command(sdk, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    (tmp_path / "prof.config.toml").write_text('model = "of-the-profile"\n')
    kernels: list[Any] = []

    async def transport(service: Any) -> None:
        kernels.append(service._conversations._kernel.settings().model)

    async def serve(options: Options, plugin: Any) -> int:
        return await serving(options, dict(os.environ), transport, plugin)

    monkeypatch.setattr(
        "codex_plugin_mcp_server.serving.serve", lambda options, plugin: asyncio.run(serve(options, plugin))
    )
    assert main(("-p", "prof", "mcp-server")) == 0
    assert main(("mcp-server",)) == 0
    assert kernels[0] == "of-the-profile" != kernels[1]


def test_offering_the_command_imports_nothing_of_the_sdk() -> None:
    code = (
        "import sys, codex_plugin_mcp_server as plugin\n"
        "(command,) = plugin.codex_commands(None)\n"
        "print(command.name, [name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types', 'pydantic', 'uvicorn')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "mcp-server []\n"
