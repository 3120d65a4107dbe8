"""``PreToolUse`` and ``PostToolUse`` in real turns."""

from __future__ import annotations

import json
import time

import pytest

from codex_framework import ToolContext, tool
from codex_framework.testing import call, custom_call, say
from tests.plugins.hooks.conftest import entries, group, messages, prints, runs, specific, warned


def script(text: str) -> list:
    return [call("exec_command", cmd=text, login=False), say("Done.")]


ALLOW = {"permissionDecision": "allow"}


def test_a_hook_refuses_a_command(hooks, workspace):
    hooks.write({"PreToolUse": ["echo no touching >&2; exit 2"]})
    turn = hooks.turn(script("touch made"))
    assert turn.outputs == ("Command blocked by PreToolUse hook: no touching. Command: touch made",)
    assert not (workspace / "made").exists()
    assert [run.status for run in runs(turn)] == ["blocked"]
    assert turn.final_message == "Done."


@pytest.mark.parametrize(
    "answer",
    [
        specific("PreToolUse", permissionDecision="deny", permissionDecisionReason=" nope "),
        {"decision": "block", "reason": "nope"},
    ],
)
def test_a_hook_refuses_a_call_with_an_answer(hooks, workspace, answer):
    hooks.write({"PreToolUse": [hooks.says(answer)]})
    turn = hooks.turn([call("view_image", path="x.png"), say("Done.")])
    assert turn.outputs == ("Tool call blocked by PreToolUse hook: nope. Tool: view_image",)
    (given,) = hooks.inputs
    assert (given["tool_name"], given["tool_input"]) == ("view_image", {"path": "x.png"})


@pytest.mark.parametrize("number", ["NaN", "1e999"])
def test_a_hook_reads_numbers_that_are_not_json_as_text(hooks, number):
    hooks.write({"PreToolUse": [hooks.says({"decision": "block", "reason": "nope"})]})
    arguments = f'{{"path": {number}}}'
    hooks.turn([call("view_image", arguments), say("Done.")])
    (given,) = hooks.inputs
    assert given["tool_input"] == {"input": arguments}


def test_hooks_read_the_call_and_its_output(hooks, workspace):
    hooks.write({"PreToolUse": [hooks.says({})], "PostToolUse": [hooks.says({})]})
    turn = hooks.turn(script("echo one; echo two >&2; exit 3"))
    before, after = hooks.inputs
    thread = before["session_id"]
    assert before == {
        "session_id": thread,
        "turn_id": before["turn_id"],
        "transcript_path": before["transcript_path"],
        "cwd": str(workspace),
        "hook_event_name": "PreToolUse",
        "model": before["model"],
        "permission_mode": "bypassPermissions",
        "tool_name": "Bash",
        "tool_input": {"command": "echo one; echo two >&2; exit 3"},
        "tool_use_id": "call_1_1",
    }
    assert before["transcript_path"].endswith(f"{thread}.jsonl")
    assert sorted(after.pop("tool_response").split()) == ["one", "two"]
    assert after == {**before, "hook_event_name": "PostToolUse"}
    assert turn.outputs[0].startswith("Chunk ID")


def test_events_for_clients_tell_of_each_run(hooks):
    command = prints(specific("PreToolUse", additionalContext="careful"))
    hooks.write(
        {"PreToolUse": [group(command, statusMessage="Checking", matcher="Bash"), group("true", matcher="^Ed")]}
    )
    turn = hooks.turn(script("true"))
    started, completed = (event for event in turn.result.events if event.type.startswith("hook_"))
    assert (started.type, completed.type) == ("hook_started", "hook_completed")
    run = completed.run
    assert started.run == run.evolve(status="running", completed_at=None, duration_ms=None, entries=())
    path = str(hooks.home / "hooks.json")
    assert run.id == f"pre-tool-use:0:{path}:call_1_1"
    assert (run.event_name, run.scope, run.source, run.source_path) == ("pre_tool_use", "turn", "user", path)
    assert (run.status, run.status_message, run.display_order) == ("completed", "Checking", 0)
    assert run.started_at <= run.completed_at <= time.time()
    assert entries(turn) == [("context", "careful")]
    assert ("developer", "careful") in messages(turn)


def test_a_hook_changes_the_command(hooks):
    changed = specific("PreToolUse", **ALLOW, updatedInput={"command": "echo changed", "timeout": 5})
    hooks.write({"PreToolUse": [prints(changed)]})
    turn = hooks.turn(script("echo original"))
    assert turn.outputs[0].endswith("Output:\nchanged\n")


@pytest.mark.parametrize(
    ("name", "arguments", "changed"),
    [
        ("shell_command", {"command": "echo a"}, {"command": "echo b"}),
        ("shell", {"command": ["bash", "-lc", "echo a"]}, {"command": "echo b"}),
        ("shell", {"command": ["echo", "a b"]}, {"command": "echo 'b c'"}),
    ],
)
def test_the_older_command_tools_are_bash_too(hooks, name, arguments, changed):
    hooks.write(
        {
            "PreToolUse": [group(hooks.says(specific("PreToolUse", **ALLOW, updatedInput=changed)), matcher="Bash")],
            "PostToolUse": [hooks.python()],
        }
    )

    @tool
    async def outer(context: ToolContext) -> str:  # because the model is not offered these tools
        """Call another tool."""
        return str((await context.call_tool(name, arguments)).content)

    turn = hooks.turn([call("outer"), say("Done.")], tools=[outer])
    inner = [each for each in hooks.inputs if each["tool_name"] == "Bash"]
    expected = "echo 'a b'" if "a b" in str(arguments) else "echo a"
    assert inner[0]["tool_input"] == {"command": expected}
    assert inner[-1]["tool_response"] == ("b c\n" if "c" in changed["command"][5:] else "b\n")
    assert turn.final_message == "Done."


def test_a_hook_changes_a_patch(hooks, workspace):
    patch = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch"
    changed = specific("PreToolUse", **ALLOW, updatedInput={"command": patch.format("b.txt")})
    hooks.write({"PreToolUse": [group(hooks.says(changed), matcher="Write|Edit")]})
    hooks.turn([custom_call("apply_patch", patch.format("a.txt")), say("Done.")], config=['model="gpt-5-codex"'])
    (given,) = hooks.inputs
    assert (given["tool_name"], given["tool_input"]) == ("apply_patch", {"command": patch.format("a.txt")})
    assert [file.name for file in workspace.iterdir()] == ["b.txt"]


@pytest.mark.parametrize("changed", [{"cmd": "echo x"}, {"command": 5}, "echo x", ["echo"]])
def test_arguments_that_do_not_fit_refuse_the_call(hooks, changed):
    hooks.write({"PreToolUse": [prints(specific("PreToolUse", **ALLOW, updatedInput=changed))]})
    turn = hooks.turn(script("echo original"))
    assert "original" not in turn.outputs[0]
    assert "command" in turn.outputs[0] or "not an object" in turn.outputs[0]


def test_of_several_changes_the_last_hook_to_end_counts(hooks):
    """The first of the two waits until the second has ended and its end has been noticed: until then its process exists."""

    def to(text):
        return prints(specific("PreToolUse", **ALLOW, updatedInput={"command": f"echo {text}"}))

    pid = hooks.home / "pid"
    wait = f"until [ -s {pid} ]; do sleep 0.01; done; while kill -0 $(cat {pid}) 2>/dev/null; do sleep 0.01; done; sleep 0.1; "
    hooks.write({"PreToolUse": [wait + to("slow"), f"echo $$ > {pid}; {to('fast')}"]})
    turn = hooks.turn(script("echo original"))
    assert turn.outputs[0].endswith("Output:\nslow\n")


def test_a_refusal_outweighs_a_change_and_the_first_reason_counts(hooks):
    change = prints(specific("PreToolUse", **ALLOW, updatedInput={"command": "echo changed"}))
    hooks.write({"PreToolUse": [change, "sleep 0.2; echo first >&2; exit 2", "echo second >&2; exit 2"]})
    turn = hooks.turn(script("echo original"))
    assert turn.outputs == ("Command blocked by PreToolUse hook: first. Command: echo original",)
    assert [run.display_order for run in runs(turn)] == [0, 1, 2]


def test_hooks_run_concurrently_and_tell_in_order(hooks):
    meet = f"touch {hooks.home}/%s; for i in $(seq 200); do [ -e {hooks.home}/%s ] && echo %s >&2 && exit 2; sleep 0.02; done; exit 1"
    hooks.write({"PostToolUse": [meet % ("a", "b", "one"), meet % ("b", "a", "two")]})
    turn = hooks.turn(script("echo x"))
    assert turn.outputs == ("one\n\ntwo",)
    assert entries(turn) == [("feedback", "one"), ("feedback", "two")]


def test_feedback_replaces_the_output_and_context_is_added(hooks):
    answer = {
        "decision": "block",
        "reason": "Run the tests.",
        **specific("PostToolUse", additionalContext="They are slow."),
    }
    hooks.write({"PostToolUse": [prints(answer)]})
    turn = hooks.turn(script("echo x"))
    assert turn.outputs == ("Run the tests.",)
    assert ("developer", "They are slow.") in messages(turn)


def test_a_stop_after_a_call_replaces_the_output_and_the_turn_goes_on(hooks):
    hooks.write({"PostToolUse": [prints({"continue": False, "stopReason": "enough"})]})
    turn = hooks.turn(script("echo x"))
    assert turn.outputs == ("enough",)
    assert [run.status for run in runs(turn)] == ["stopped"]
    assert turn.final_message == "Done."


def test_a_call_that_fails_has_no_hook_after_it(hooks):
    hooks.write({"PostToolUse": [hooks.python()]})
    hooks.turn([call("view_image", path="missing.png"), say("Done.")])
    assert hooks.inputs == []


def test_a_command_in_a_session_is_finished_when_it_ends(hooks):
    hooks.write({"PostToolUse": [hooks.python()]})

    def wait(request):
        output = request.prompt.items[-1].output
        session = int(output.split("session ID ")[1].split()[0])
        return call("write_stdin", session_id=session, yield_time_ms=5000)

    start = call("exec_command", cmd="sleep 0.5; echo late", login=False, yield_time_ms=250)
    hooks.turn([start, wait, say("Done.")])
    (given,) = hooks.inputs
    assert (given["tool_name"], given["tool_input"]) == ("Bash", {"command": "sleep 0.5; echo late"})
    assert (given["tool_use_id"], given["tool_response"]) == ("call_1_1", "late\n")


def test_a_tool_of_a_plugin_has_its_name_and_arguments(hooks):
    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    changed = specific("PreToolUse", **ALLOW, updatedInput={"a": 1, "b": 10})
    hooks.write({"PreToolUse": [group(hooks.says(changed), matcher="add")], "PostToolUse": [hooks.python()]})
    turn = hooks.turn([call("add", a=1, b=2), say("Done.")], tools=[add])
    before, after = hooks.inputs
    assert before["tool_input"] == {"a": 1, "b": 2}
    assert (after["tool_input"], after["tool_response"]) == ({"a": 1, "b": 10}, "11")
    assert turn.outputs == ("11",)


def test_a_hook_for_other_tools_does_not_run(hooks):
    hooks.write({"PreToolUse": [group("exit 2", matcher="Edit|Write"), group("exit 2", matcher="^mcp__.*")]})
    turn = hooks.turn(script("echo x"))
    assert turn.outputs[0].endswith("x\n")
    assert runs(turn) == []


def test_a_failed_hook_is_told_and_the_call_is_made(hooks):
    hooks.write({"PreToolUse": ["echo bad >&2; exit 1"]})
    turn = hooks.turn(script("echo x"))
    assert turn.outputs[0].endswith("x\n")
    assert entries(turn) == [("error", "hook exited with code 1: bad")]
    (line,) = warned(turn)
    assert (
        line == f"PreToolUse hook 'echo bad >&2; exit 1' ({hooks.home}/hooks.json) failed: hook exited with code 1: bad"
    )


def test_a_message_for_the_user_is_a_warning(hooks):
    hooks.write({"PreToolUse": [prints({"systemMessage": "Mind the gap."})]})
    turn = hooks.turn(script("echo x"))
    assert warned(turn) == ["Mind the gap."]
    assert entries(turn) == [("warning", "Mind the gap.")]


def test_an_asynchronous_hook_holds_nothing_up(hooks, workspace):
    context = json.dumps(specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="late"))
    code = f"""
import pathlib, time
for _ in range(500):
    if pathlib.Path({str(workspace / "made")!r}).exists():
        break
    time.sleep(0.01)
pathlib.Path({str(workspace / "seen")!r}).touch()
print({context!r})
"""
    hooks.write({"PreToolUse": [group(hooks.python(code), **{"async": True})]})
    turn = hooks.turn(
        script("touch made; for i in $(seq 300); do [ -e seen ] && break; sleep 0.01; done; sleep 0.2; ls")
    )
    assert "seen" in turn.outputs[0]
    assert runs(turn) == []
    assert any("an asynchronous hook cannot decide anything" in text for text in warned(turn))
