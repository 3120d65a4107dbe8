"""``codex-framework hooks``: list, trust, test, disable and enable."""

from __future__ import annotations

import json
import tomllib

import pytest
from click.testing import CliRunner

from codex_framework import CodexError
from codex_framework.config import load_config
from codex_framework.loader.context import LoadContext
from codex_framework.testing import say
from codex_plugin_hooks.cli import hooks as hooks_command
from tests.plugins.hooks.conftest import group, prints, specific


@pytest.fixture
def cli(hooks, monkeypatch):
    monkeypatch.chdir(hooks.workspace)
    monkeypatch.setenv("CODEX_HOME", str(hooks.home))

    def run(*words, answer=None, code=0):
        environ = {"CODEX_HOME": str(hooks.home), "PATH": "/usr/bin:/bin", "HOME": str(hooks.home)}
        context = LoadContext("hooks", load_config(cwd=hooks.workspace, environ=environ), environ)
        result = CliRunner().invoke(hooks_command, words, input=answer, obj=context)
        if isinstance(result.exception, CodexError):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    return run


def test_hooks_are_listed_trusted_and_run(hooks, cli, run_turn):
    hooks.write({"PreToolUse": [group("exit 0", matcher="Bash", timeout=5)], "Stop": [hooks.python()]})
    first, second = json.loads(cli("list", "--json", code=1))["hooks"]
    assert (first["eventName"], first["matcher"], first["timeoutSec"], first["trustStatus"]) == (
        "preToolUse",
        "Bash",
        5,
        "untrusted",
    )
    assert "not trusted; does not run" in cli("list", code=1)
    cli("trust", "1", answer="n\n", code=1)
    assert not (hooks.home / "config.toml").exists()
    assert "Trusted 1 hook." in cli("trust", "2", answer="y\n")
    state = tomllib.loads((hooks.home / "config.toml").read_text())["hooks"]["state"]
    assert state == {second["key"]: {"trusted_hash": second["currentHash"]}}
    assert json.loads(cli("trust", "--yes", "--json")) == {"trusted": [first["key"]]}
    assert "Nothing to trust." in cli("trust")
    assert [each["trustStatus"] for each in json.loads(cli("list", "--json"))["hooks"]] == ["trusted", "trusted"]
    run_turn("hello", [say("Done.")])
    assert hooks.seen == ["Stop"]
    cli("disable", "2")
    assert "switched off" in cli("list")
    run_turn("hello", [say("Done.")])
    assert hooks.seen == ["Stop"]
    cli("enable", second["key"])
    run_turn("hello", [say("Done.")])
    assert hooks.seen == ["Stop", "Stop"]


def test_a_hook_is_tried_on_a_sample(hooks, cli):
    refuse = "grep -q secret && { echo no secrets >&2; exit 2; } || true"
    context = prints(specific("PreToolUse", additionalContext="ctx"))
    hooks.write({"PreToolUse": [group(refuse, matcher="Bash"), context, group("exit 2", matcher="other")]})
    untrusted = cli("test", "PreToolUse")
    assert untrusted.count("not run (not trusted)") == 2
    cli("trust", "--yes")
    text = cli("test", "PreToolUse", "--input", '{"command": "cat secret"}')
    assert "feedback: no secrets" in text
    assert "Decision: refuse the call (no secrets) and 1 text(s) of context" in text
    found = json.loads(cli("test", "PreToolUse", "--json"))
    assert [run["status"] for run in found["runs"]] == ["completed", "completed"]
    assert found["decision"] == {"action": "continue", "context": ["ctx"]}
    assert "No hook of Stop matches" in cli("test", "Stop")
    cli("test", "PreToolUse", "--input", "{", code=2)
    cli("test", "Nothing", code=2)


@pytest.mark.parametrize(
    "event", ["PermissionRequest", "PostToolUse", "PreCompact", "SessionStart", "SubagentStop", "UserPromptSubmit"]
)
def test_every_event_has_a_sample(hooks, cli, event):
    hooks.write({event: [hooks.python()]})
    cli("test", event, "--untrusted")
    assert hooks.seen == [event]


def test_a_hook_that_does_not_exist_is_an_error(hooks, cli):
    with pytest.raises(CodexError, match="there is no hook '3'"):
        cli("trust", "3")
    assert "No hooks are configured." in cli("list")
