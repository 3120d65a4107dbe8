"""What must come to an end: turns that hooks continue, hooks for which nothing waits, and answers that come too late."""

from __future__ import annotations

import asyncio
from pathlib import Path

from codex_framework.testing import call, say
from tests.plugins.hooks.conftest import TRUSTED, group, prints, specific, warned


def test_a_stop_hook_that_never_lets_go_cannot_hold_a_turn_for_ever(hooks):
    hooks.write({"Stop": [hooks.says({"decision": "block", "reason": "more"})]})
    turn = hooks.turn([say(f"Answer {number}.") for number in range(40)])
    assert turn.final_message == "Answer 25."
    assert [each["stop_hook_active"] for each in hooks.inputs] == [False, *[True] * (len(hooks.inputs) - 1)]
    assert len(hooks.inputs) in (25, 26)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_hook_for_which_nothing_waits_ends_with_the_kernel(hooks, workspace):
    hooks.write({"PreToolUse": [group("echo $$ > pid; sleep 300", **{"async": True})]})
    look = (
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s pid ] && break; sleep 0.2; done; echo x"
    )
    turn = hooks.turn([call("exec_command", cmd=look, login=False, yield_time_ms=20_000), say("Done.")])
    assert turn.final_message == "Done."
    assert not running(int((workspace / "pid").read_text()))


def test_an_answer_of_the_user_cannot_overtake_a_hook_that_denies(hooks, make_kernel, workspace):
    """The user is asked only when the hooks have decided nothing, so no answer can come before theirs."""
    deny = prints(specific("PermissionRequest", decision={"behavior": "deny", "message": "late but firm"}))
    hooks.write({"PermissionRequest": [f"touch asked; sleep 0.5; {deny}"]})
    settings = ['approval_policy="untrusted"', 'sandbox_mode="danger-full-access"', TRUSTED]
    answered: list[object] = []

    async def main():
        from codex_framework.contract.protocol.ops import ExecApproval, TextInput, UserInputOp
        from codex_framework.contract.protocol.policies import Decision, ReviewDecision

        replies = [call("exec_command", cmd="touch made", login=False, call_id="one"), say("Done.")]
        async with make_kernel(replies, config=settings) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("go"),)))
            async with asyncio.timeout(30):
                while not (workspace / "asked").exists():
                    await asyncio.sleep(0.02)
            answered.append(thread.answer("one", ReviewDecision(Decision.APPROVED)))
            await thread.submit(ExecApproval("one", ReviewDecision(Decision.APPROVED)))
            await thread.settled()
            return [item.output for item in thread.history.items if item.type.endswith("_output")]

    (output,) = asyncio.run(main())
    assert "late but firm" in output
    assert not (workspace / "made").exists()
    assert answered == [False]


def test_a_hook_that_removes_its_own_script_has_failed_the_next_time(hooks):
    script = hooks.home / "once.sh"
    script.write_text('#!/bin/sh\nrm "$0"; echo no >&2; exit 2\n')
    script.chmod(0o755)
    hooks.write({"PreToolUse": [str(script)]})
    echo = call("exec_command", cmd="echo x", login=False)
    turn = hooks.turn([echo, echo, say("Done.")])
    assert "blocked by PreToolUse hook: no" in turn.outputs[0]
    assert turn.outputs[1].endswith("x\n")
    (line,) = warned(turn)
    assert "failed: hook exited with code 127" in line


def test_an_interrupt_kills_the_hook_that_a_turn_waits_for(hooks, make_kernel, workspace):
    from codex_framework.contract.protocol.ops import Interrupt, TextInput, UserInputOp

    hooks.write({"PreToolUse": ["echo $$ > pid; sleep 300; touch late"]})

    async def main():
        replies = [call("exec_command", cmd="touch made", login=False), say("Done.")]
        async with make_kernel(replies, config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("go"),)))
            async with asyncio.timeout(30):
                while not ((workspace / "pid").exists() and (workspace / "pid").read_text()):
                    await asyncio.sleep(0.02)
                await thread.submit(Interrupt())
                await thread.settled()
                while running(int((workspace / "pid").read_text())):  # it ends while the kernel goes on
                    await asyncio.sleep(0.02)

    asyncio.run(main())
    assert not (workspace / "made").exists()


def test_calls_are_forgotten_when_they_have_ended_and_when_there_are_too_many():
    from codex_framework import ToolCall
    from codex_plugin_hooks.calls import MadeCalls

    made = MadeCalls()
    for number in range(1_001):
        made.add(ToolCall(f"call{number}", "shell", "{}"))
    made.forget("call5")
    made.forget("unknown")
    assert [made.get(f"call{number}") is None for number in (0, 1, 5, 1_000)] == [True, False, True, False]
