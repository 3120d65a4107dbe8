"""``codex-framework mcp list|get|add|remove``: the words and JSON of Codex, secrets masked, and whose file is changed."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from codex_framework.config import load_config
from codex_framework.loader.context import LoadContext
from codex_plugin_mcp.cli import McpGroup

SERVERS = """\
[mcp_servers.foo]
command = "echo"
args = ["hi", "a b"]
cwd = "/tmp"
env_vars = ["LANG", { name = "X" }]
startup_timeout_ms = 1500
tool_timeout_sec = 3.25
enabled_tools = ["a"]
disabled_tools = ["b", "c"]
default_tools_approval_mode = "approve"
sandbox = ":workspace"
[mcp_servers.foo.env]
C = "hunter2"
A = "B"
[mcp_servers.foo.tools.a]
approval_mode = "prompt"

[mcp_servers.bar]
url = "https://user:hunter2@127.0.0.1:1/x?key=hunter2"
bearer_token_env_var = "TOK"
[mcp_servers.bar.http_headers]
B = "hunter2"

[mcp_servers.off]
command = "off"
enabled = false
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(SERVERS)
    return home


def configured(home: Path) -> Any:
    return tomllib.loads((home / "config.toml").read_text()).get("mcp_servers")


def test_the_tables_of_all_servers(mcp: Callable[..., Any]) -> None:
    ran = mcp("list")
    assert ran.out == (
        "Name  Command  Args    Env                                  Cwd   Status    Auth\n"
        "foo   echo     hi a b  A=*****, C=*****, LANG=*****, X=*****  /tmp  enabled   Unsupported\n"
        "off   off      -       -                                    -     disabled  Unsupported\n"
        "\n"
        "Name  Url                                  Bearer Token Env Var  Status   Auth\n"
        "bar   https://*****@127.0.0.1:1/x?key=*****  TOK                   enabled  Bearer token\n"
    ).replace("Env                                  ", "Env                                    ").replace(
        "-                                    -  ", "-                                      -  "
    ).replace("Url                                  ", "Url                                    ")
    assert (ran.status, ran.err) == (0, "")


def test_the_json_of_all_servers_has_codex_keys(mcp: Callable[..., Any]) -> None:
    bar, foo, off = mcp("list", "--json").json
    assert foo == {
        "name": "foo",
        "enabled": True,
        "disabled_reason": None,
        "transport": {
            "type": "stdio",
            "command": "echo",
            "args": ["hi", "a b"],
            "env": {"A": "*****", "C": "*****"},
            "env_vars": ["LANG", {"name": "X"}],
            "cwd": "/tmp",
        },
        "startup_timeout_sec": 1.5,
        "tool_timeout_sec": 3.25,
        "auth_status": "unsupported",
    }
    assert bar == {
        "name": "bar",
        "enabled": True,
        "disabled_reason": None,
        "transport": {
            "type": "streamable_http",
            "url": "https://*****@127.0.0.1:1/x?key=*****",
            "bearer_token_env_var": "TOK",
            "http_headers": {"B": "*****"},
            "env_http_headers": None,
            "http_headers_helper": None,
        },
        "startup_timeout_sec": None,
        "tool_timeout_sec": None,
        "auth_status": "bearer_token",
    }
    assert (off["enabled"], off["transport"]["env"], off["auth_status"]) == (False, None, "unsupported")


def test_one_server(mcp: Callable[..., Any]) -> None:
    assert (
        mcp("get", "foo").out
        == """\
foo
  enabled: true
  enabled_tools: a
  disabled_tools: b, c
  transport: stdio
  command: echo
  args: hi a b
  cwd: /tmp
  env: A=*****, C=*****, LANG=*****, X=*****
  startup_timeout_sec: 1.5
  tool_timeout_sec: 3.25
  default_tools_approval_mode: approve
  tools.a.approval_mode: prompt
  sandbox: :workspace
  remove: codex-framework mcp remove foo
"""
    )
    assert (
        mcp("get", "bar").out
        == """\
bar
  enabled: true
  transport: streamable_http
  url: https://*****@127.0.0.1:1/x?key=*****
  bearer_token_env_var: TOK
  http_headers: B=*****
  env_http_headers: -
  remove: codex-framework mcp remove bar
"""
    )
    assert mcp("get", "off").out.startswith("off (disabled)\n")
    found = mcp("get", "foo", "--json").json
    assert (found["enabled_tools"], found["disabled_tools"]) == (["a"], ["b", "c"])
    assert "auth_status" not in found


@pytest.mark.parametrize(
    "words", [("list",), ("list", "--json"), ("get", "foo"), ("get", "bar"), ("get", "bar", "--json")]
)
def test_no_secret_is_shown(mcp: Callable[..., Any], words: tuple[str, ...]) -> None:
    ran = mcp(*words)
    assert "hunter2" not in ran.out + ran.err
    assert ran.out


def test_without_servers(mcp: Callable[..., Any], home: Path) -> None:
    (home / "config.toml").write_text("")
    assert mcp("list").out.startswith("No MCP servers configured yet.")
    assert mcp("list", "--json").json == []


def test_a_name_that_no_server_has(mcp: Callable[..., Any]) -> None:
    for words in (("get", "fooo"), ("get", "fooo", "--json")):
        error = mcp(*words).error
        assert error is not None
        assert str(error) == "No MCP server named 'fooo' found."
        assert "Did you mean foo?" in error.hint


def test_a_wrong_server_is_named_beside_the_others(mcp: Callable[..., Any], home: Path) -> None:
    (home / "config.toml").write_text(SERVERS + '[mcp_servers.bad]\nurl = "nothing"\n')
    ran = mcp("list")
    assert ran.status == 1
    assert "foo " in ran.out
    assert "warning: `mcp_servers.bad.url` is not a URL of a server\n" in ran.err
    assert [entry["name"] for entry in mcp("list", "--json").json] == ["bar", "foo", "off"]
    error = mcp("get", "bad").error
    assert error is not None
    assert "mcp_servers.bad.url" in str(error)


def test_control_characters_are_escaped(mcp: Callable[..., Any], home: Path) -> None:
    (home / "config.toml").write_text('[mcp_servers.a]\ncommand = "x\\u001b[2J"\nargs = ["\\n\\u009b"]\n')
    for words in (("list",), ("get", "a")):
        assert not set(mcp(*words).out) & set("\x1b\x9b")


def test_a_program_is_added_with_codex_words(mcp: Callable[..., Any], home: Path) -> None:
    ran = mcp("add", "new", "--env", "A=b=c", "--env", "B=", "--", "true", "-x", "a b", "--env")
    assert (ran.status, ran.out, ran.err) == (0, "Added global MCP server 'new'.\n", "")
    assert configured(home)["new"] == {"command": "true", "args": ["-x", "a b", "--env"], "env": {"A": "b=c", "B": ""}}
    assert (home / "config.toml").read_text().startswith(SERVERS)


@pytest.mark.parametrize(
    "words",
    [
        ("--sandbox=read-only", "new", "true", "-y", "--url", "x"),
        ("new", "--sandbox", "read-only", "--", "true", "-y", "--url", "x"),
    ],
)
def test_words_after_the_program_are_its_arguments(mcp: Callable[..., Any], home: Path, words: tuple[str, ...]) -> None:
    assert mcp("add", *words).status == 0
    assert configured(home)["new"] == {"command": "true", "args": ["-y", "--url", "x"], "sandbox": "read-only"}


def test_a_server_over_http_is_added(mcp: Callable[..., Any], home: Path) -> None:
    ran = mcp("add", "we.ird/x:y@z", "--url", "https://127.0.0.1:1/x", "--bearer-token-env-var", "TOK")
    assert ran.out == "Added global MCP server 'we.ird/x:y@z'.\n"
    assert configured(home)["we.ird/x:y@z"] == {"url": "https://127.0.0.1:1/x", "bearer_token_env_var": "TOK"}
    mcp(
        "add",
        "o",
        "--url",
        "http://127.0.0.1:1/",
        "--oauth-client-id",
        "i",
        "--oauth-client-secret",
        "s",
        "--oauth-resource",
        "r",
    )
    assert configured(home)["o"] == {
        "url": "http://127.0.0.1:1/",
        "oauth": {"client_id": "i", "client_secret": "s"},
        "oauth_resource": "r",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("new",), "Either a command or --url is required"),
        (("new", "--url", "http://x", "--", "echo"), "--url cannot be used with a command"),
        (("new", "--env", "X", "--", "echo"), "KEY=VALUE"),
        (("new", "--env", "=X", "--", "echo"), "KEY=VALUE"),
        (("new", "--url", "http://x", "--env", "A=B"), "--env needs a command"),
        (("new", "--url", "http://x", "--sandbox", "read-only"), "--sandbox needs a command"),
        (("new", "--bearer-token-env-var", "T", "--", "echo"), "--bearer-token-env-var needs --url"),
        (("new", "--oauth-client-id", "T", "--", "echo"), "--oauth-client-id needs --url"),
    ],
)
def test_options_that_do_not_belong_together(
    mcp: Callable[..., Any], home: Path, words: tuple[str, ...], said: str
) -> None:
    ran = mcp("add", *words)
    assert ran.status == 2
    assert said in ran.err
    assert (home / "config.toml").read_text() == SERVERS


def test_a_server_that_could_not_be_used_is_not_added(mcp: Callable[..., Any], home: Path) -> None:
    for words in (("a b", "--", "x"), ("n", "--url", "x"), ("n", "--sandbox", "no", "--", "x"), ("n", "--", "")):
        assert mcp("add", *words).error is not None
    assert (home / "config.toml").read_text() == SERVERS


def test_what_should_be_known_of_a_new_server_is_said(mcp: Callable[..., Any]) -> None:
    assert "there is no program 'no-such-program'" in mcp("add", "new", "--", "no-such-program").err
    assert "replaces the earlier settings" in mcp("add", "new", "--", "true").err
    assert mcp("add", "new", "--", "true").err == ""


def test_a_server_is_removed(mcp: Callable[..., Any], home: Path) -> None:
    assert mcp("remove", "foo").out == "Removed global MCP server 'foo'.\n"
    assert set(configured(home)) == {"bar", "off"}
    ran = mcp("remove", "foo")
    assert (ran.status, ran.out) == (0, "No MCP server named 'foo' found.\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".git" / "objects").mkdir(parents=True)
    (project / ".codex").mkdir()
    (project / ".codex" / "config.toml").write_text('[mcp_servers.theirs]\ncommand = "evil"\n')
    return project


def test_a_project_that_is_not_trusted_has_no_servers(mcp: Callable[..., Any], project: Path) -> None:
    assert "theirs" not in mcp("list", cwd=project).out
    assert mcp("get", "theirs", cwd=project).error is not None


def test_servers_of_a_trusted_project_are_shown_and_not_changed(
    mcp: Callable[..., Any], home: Path, project: Path
) -> None:
    text = f'{SERVERS}[projects."{project}"]\ntrust_level = "trusted"\n'
    (home / "config.toml").write_text(text)
    assert "theirs" in mcp("list", cwd=project).out
    error = mcp("remove", "theirs", cwd=project).error
    assert error is not None
    assert error.slug == "mcp-elsewhere"
    assert str(project / ".codex" / "config.toml") in str(error)
    assert (home / "config.toml").read_text() == text
    assert "config.toml defines a server of this name, too" in mcp("add", "theirs", "--", "true", cwd=project).err


def test_names_of_servers_are_completed(mcp: Callable[..., Any], home: Path, tmp_path: Path) -> None:
    environ = {"CODEX_HOME": str(home), "HOME": str(tmp_path)}
    plugin = LoadContext("mcp", load_config(cwd=tmp_path, environ=environ), environ)
    group = McpGroup(plugin)
    asked = {"_MCP_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    for command, incomplete, found in (("get", "", "bar foo off"), ("remove", "f", "foo")):
        words = {"COMP_WORDS": f"mcp {command} {incomplete}"}
        result = CliRunner(env=asked | words).invoke(group, [], prog_name="mcp", complete_var="_MCP_COMPLETE")
        assert [line.split(",")[1] for line in result.output.splitlines()] == found.split()


def test_a_narrow_terminal_gets_paragraphs(home: Path, tmp_path: Path) -> None:
    outer, inner = pty.openpty()
    command = [Path(sys.executable).with_name("codex-framework"), "mcp", "list"]
    env = {**os.environ, "CODEX_HOME": str(home), "COLUMNS": "40"}
    subprocess.run(command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=inner, timeout=60, check=True)
    os.close(inner)
    shown = os.read(outer, 10_000).decode().replace("\r\n", "\n")
    os.close(outer)
    assert shown.startswith("foo\n  Command: echo\n  Args: hi a b\n  Env: A=*****, C=*****, LANG=*****,\n    X=*****\n")
