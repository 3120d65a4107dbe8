"""Pipes and folders in place of the files of ``$CODEX_HOME``: no command waits for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from codex_framework.testing.replies import call, say

_OAUTH = '[mcp_servers.x]\nurl = "http://127.0.0.1:9/mcp"'


@pytest.mark.parametrize(
    ("name", "more", "argv", "said"),
    [
        (".env", "", ["exec", "hi"], "Error: {path} cannot be read: {why}"),
        ("auth.json", "", ["login", "status"], "Error: {path} cannot be read: {why}"),
        (".credentials.json", _OAUTH, ["mcp", "list"], "warning: {path} cannot be read: {why}"),
        (".credentials.json", _OAUTH, ["mcp", "logout", "x"], "Error: {path} cannot be read: {why}"),
        ("hooks.json", "", ["exec", "hi"], "Error: {path} cannot be read: {why}"),
        (
            "words.md",
            'model_instructions_file = "words.md"',
            ["exec", "hi"],
            "cannot read instructions from {path}: ",
        ),
        ("rules/default.rules", "", ["execpolicy", "allow", "git", "push"], "{path} cannot be written: {why}"),
        ("plugin.py", "", ["--plugin", "{path}", "exec", "hi"], "{path} "),
    ],
)
@pytest.mark.parametrize(("kind", "why"), [("pipe", "it is not a regular file"), ("folder", "Is a directory")])
def test_no_command_waits_for_a_pipe_in_place_of_a_file(
    cli: Any, name: str, more: str, argv: Sequence[str], said: str, kind: str, why: str
) -> None:
    cli.serve(say("ok"))
    cli.configure(base_url=cli.servers[0].url, more=more)
    path = cli.home / name
    path.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    ran = cli.run(*(word.format(path=path) for word in argv), timeout=20)
    assert said.format(path=path, why=why) in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_login_is_not_lost_to_a_pipe_or_folder(cli: Any, kind: str) -> None:
    path = cli.home / "auth.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    ran = cli.run("login", "--with-api-key", stdin=b"sk-1", timeout=20)
    if kind == "pipe":
        assert ran.status == 0
        assert path.is_file(), "it has been replaced"
    else:
        assert ran.status == 1
        assert ran.error.splitlines()[-1] == f"Move the folder {path} away."


def test_the_variables_of_the_home_are_those_of_the_run(cli: Any) -> None:
    cli.serve(call("exec_command", cmd="echo [$ANSWER] [$TEST_KEY]"), say("ok"))
    (cli.home / ".env").write_text('TEST_KEY="sk-file"\nexport ANSWER=42 # as Codex sets them\nCODEX_HOME=/elsewhere\n')
    assert cli.exec("hi").status == 0
    (server,) = cli.servers
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer sk-file"] * 2
    assert "[42] []" in server.requests[1].body.decode(), "commands get the variables, except keys"


def test_a_line_of_the_variables_that_is_wrong_is_named_and_not_shown(cli: Any) -> None:
    cli.serve(say("ok"))
    (cli.home / ".env").write_text("A=1\nsk-secret\n")
    ran = cli.exec("hi")
    assert (ran.status, "sk-secret" in ran.err) == (1, False)
    assert ran.err.splitlines()[0] == f"Error: {cli.home}/.env:2: this line is not NAME=value"
    assert cli.run("--help").status == 0
