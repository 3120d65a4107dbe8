"""Hooks that flood, leave programs behind, or are defined with values that no process can have."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from codex_framework import ConfigError
from codex_framework.testing import call, say
from tests.plugins.hooks.conftest import entries, group, messages, prints, runs, specific, warned

ECHO = [call("exec_command", cmd="echo x", login=False), say("Done.")]
FLOOD = "head -c 3000000 /dev/zero | tr '\\0' a"
NO = {"decision": "block", "reason": "no"}


def sent(turn) -> str:
    """Return what the model has read last."""
    return json.dumps([str(item) for item in turn.requests[-1].prompt.items])


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "Stop"])
def test_a_flood_as_a_reason_is_shortened_for_the_model_and_kept_in_a_file(hooks, event):
    flood = f"grep -q '\"stop_hook_active\": true' && exit 0; {FLOOD} >&2; exit 2"
    hooks.write({event: [flood]})
    turn = hooks.turn([*ECHO, say("Done.")] if event == "Stop" else ECHO)
    assert runs(turn)[0].status == "blocked"
    assert "Warning: truncated output (original token count: 262144)" in sent(turn)
    assert sent(turn).count("a") < 20_000
    (file,) = (hooks.home / "hook_outputs").rglob("*.txt")
    assert file.stat().st_size == 1 << 20
    assert str(file) in sent(turn)


def test_a_flood_as_a_prompts_refusal_is_shortened_for_the_user(hooks):
    hooks.write({"UserPromptSubmit": [f"{FLOOD} >&2; exit 2"]})
    turn = hooks.turn()
    assert turn.requests == ()
    texts = [event.message for event in turn.result.events if event.type in ("error", "warning")]
    assert any("Warning: truncated output" in text for text in texts)
    assert max(map(len, texts)) < 20_000


def test_a_flood_on_stderr_does_not_lose_the_answer(hooks):
    hooks.write({"PreToolUse": [f"{FLOOD} >&2; {prints(NO)}"]})
    assert hooks.turn(ECHO).outputs == ("Command blocked by PreToolUse hook: no. Command: echo x",)


def test_an_answer_with_a_gap_changes_nothing(hooks):
    start, end = json.dumps(
        specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "echo |"})
    ).split("|")
    hooks.write({"PreToolUse": [f"printf %s '{start}'; {FLOOD}; printf %s '{end}'"]})
    turn = hooks.turn(ECHO)
    assert turn.outputs[0].endswith("x\n")
    assert "there is more than 1 MiB" in entries(turn)[0][1]


def test_output_that_is_no_text_is_replaced(hooks):
    hooks.write({"SessionStart": ["printf 'a\\377b'"], "PreToolUse": ["head -c 999 /dev/urandom | tr -d '{['"]})
    turn = hooks.turn(ECHO)
    assert ("developer", "a\ufffdb") in messages(turn)
    assert turn.outputs[0].endswith("x\n")
    assert warned(turn) == []


@pytest.mark.thorough
def test_a_program_that_a_hook_leaves_behind_does_not_hold_its_decision_up(hooks, workspace):
    hooks.write({"PreToolUse": ["sleep 60 & echo $! > pid; echo no >&2; exit 2"]})
    turn = hooks.turn(ECHO)
    try:
        assert turn.outputs == ("Command blocked by PreToolUse hook: no. Command: echo x",)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((workspace / "pid").read_text()), signal.SIGKILL)


@pytest.mark.thorough
def test_an_endless_flood_of_a_program_left_behind_is_killed_when_the_time_is_over(hooks, workspace):
    hooks.write({"PreToolUse": [group("yes & echo $! > pid", timeout=1)]})
    turn = hooks.turn(ECHO)
    assert turn.outputs[0].endswith("x\n")
    assert entries(turn) == [("error", "hook timed out after 1s")]
    assert not alive(int((workspace / "pid").read_text()))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_long_command_is_shortened_in_a_warning(hooks):
    hooks.write({"PreToolUse": ["exit 1 # " + "x" * 9000]})
    (line,) = warned(hooks.turn(ECHO))
    assert len(line) < 500


@pytest.mark.parametrize(
    ("handler", "fact"),
    [
        ({"command": "echo \0"}, "has a command with a character that no command can contain"),
        ({"command": "echo \ud800"}, "has a command with a character that no command can contain"),
        ({"timeout": 10**400}, "has the timeout that is too large"),
        ({"timeout": -1}, "has the timeout -1"),
        ({"timeout": True}, "has the timeout True"),
        ({"timeout": "5" * 500}, "has the timeout '5555"),
        ({"additionalContextLimit": 1.5}, r"has the additionalContextLimit 1\.5"),
        ({"command": ["echo"]}, "has no command"),
        ({"statusMessage": 5}, "has a `statusMessage` that is not text"),
    ],
)
def test_a_definition_that_no_process_can_have_is_an_error(hooks, handler, fact):
    hooks.write(
        {"PermissionRequest": [group("true")], "Stop": [{"hooks": [{"type": "command", "command": "true", **handler}]}]}
    )
    with pytest.raises(ConfigError, match=rf"hooks\.Stop\[0\]\.hooks\[0\] {fact}") as caught:
        hooks.turn()
    assert caught.value.hint
    assert len(str(caught.value)) < 400


def test_null_is_as_if_a_field_was_not_there(hooks):
    hooks.write({"PreToolUse": [group("echo no >&2; exit 2", matcher=None, timeout=None, statusMessage=None)]})
    assert "blocked" in hooks.turn(ECHO).outputs[0]


def test_a_hook_whose_time_is_over_is_killed_before_the_turn_goes_on(hooks):
    hooks.write({"PreToolUse": [group("sleep 60 & echo $! > pid; wait", timeout=1)]})
    look = "p=/proc/$(cat pid)/status; if [ -e $p ] && ! grep -q 'State:.Z' $p; then echo alive; else echo gone; fi"
    assert hooks.turn([call("exec_command", cmd=look, login=False), say("Done.")]).outputs[0].endswith("gone\n")
