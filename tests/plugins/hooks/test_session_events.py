"""The events of sessions, prompts, compactions and the end of turns."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from codex_framework import Agent, Status, ToolContext, tool
from codex_framework.contract.protocol.events import ItemStartedEvent
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import message_text
from codex_framework.testing import call, say
from tests.plugins.hooks.conftest import TRUSTED, entries, group, messages, prints, runs, specific, warned


def test_a_session_starts_once_with_its_source(hooks, make_kernel):
    hooks.write({"SessionStart": [hooks.says(specific("SessionStart", additionalContext="Be kind."))]})

    async def main():
        async with make_kernel([say("one"), say("two"), say("three")], config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("a")
            await thread.run("b")
            await thread.shutdown()
            again = await kernel.resume_thread(thread.id)
            await again.run("c")
            return thread.id, [item.content[0].text for item in again.history.items if item.type == "message"]

    thread_id, texts = asyncio.run(main())
    first, second = hooks.inputs
    assert first == {
        "session_id": thread_id,
        "transcript_path": first["transcript_path"],
        "cwd": str(hooks.workspace),
        "hook_event_name": "SessionStart",
        "model": first["model"],
        "permission_mode": "bypassPermissions",
        "source": "startup",
    }
    assert second == {**first, "source": "resume"}
    assert [text for text in texts if text in ("Be kind.", "a", "b", "c")] == ["Be kind.", "a", "b", "Be kind.", "c"]


def test_plain_output_is_context_before_and_after_the_prompt(hooks):
    hooks.write({"SessionStart": [" echo before "], "UserPromptSubmit": ["echo after", "echo 'and more'"]})
    turn = hooks.turn()
    told = [("developer", "before"), ("user", "hello"), ("developer", "after"), ("developer", "and more")]
    assert messages(turn)[-5:-1] == told
    assert [run.scope for run in runs(turn)] == ["thread", "turn", "turn"]


def test_a_session_that_a_hook_stops_asks_no_model(hooks):
    answer = {"continue": False, "stopReason": "closed", **specific("SessionStart", additionalContext="later")}
    hooks.write({"SessionStart": [prints(answer)]})
    turn = hooks.turn()
    assert turn.requests == ()
    assert turn.result.status is Status.COMPLETED
    assert entries(turn) == [("context", "later"), ("stop", "closed")]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            prints(
                {"decision": "block", "reason": "no keys", **specific("UserPromptSubmit", additionalContext="kept")}
            ),
            "no keys",
        ),
        ("echo no keys >&2; exit 2", "no keys"),
        (prints({"continue": False, "stopReason": "no keys"}), "no keys"),
        (prints({"continue": False}), "UserPromptSubmit hook stopped execution"),
    ],
)
def test_a_prompt_that_a_hook_refuses_is_not_recorded(hooks, command, reason):
    hooks.write({"UserPromptSubmit": [command]})
    turn = hooks.turn(prompt="my secret")
    assert turn.requests == ()
    assert reason in str([event for event in turn.result.events if event.type in ("error", "warning")]) + str(
        turn.error
    )
    assert "my secret" not in str(turn.history)
    assert (("developer", "kept") in messages(turn)) == ("kept" in command)


def test_the_hook_reads_the_prompt(hooks):
    hooks.write({"UserPromptSubmit": [hooks.python()]})
    hooks.turn(prompt="Grüße 🙂")
    (given,) = hooks.inputs
    assert given["prompt"] == "Grüße 🙂"
    assert "turn_id" in given


def test_a_stop_hook_continues_the_turn_until_it_agrees(hooks):
    code = "print('{}' if data['stop_hook_active'] else json.dumps({'decision': 'block', 'reason': 'Run <tests> & \"lint\".'}))"
    hooks.write({"Stop": [hooks.python(code), "grep -q '\"stop_hook_active\": true' || { echo more >&2; exit 2; }"]})
    turn = hooks.turn([say("one"), say("two")])
    assert [each["stop_hook_active"] for each in hooks.inputs] == [False, True]
    assert [each["last_assistant_message"] for each in hooks.inputs] == ["one", "two"]
    path = hooks.home / "hooks.json"
    prompts = (
        f'<hook_prompt hook_run_id="stop:0:{path}">Run &lt;tests&gt; &amp; "lint".</hook_prompt>\n'
        f'<hook_prompt hook_run_id="stop:1:{path}">more</hook_prompt>'
    )
    assert prompts in [item.content[0].text for item in turn.history if item.type == "message" and item.role == "user"]
    assert turn.final_message == "two"
    assert [run.status for run in runs(turn)] == ["blocked", "blocked", "completed", "completed"]


def test_a_stop_outweighs_a_continuation(hooks):
    hooks.write(
        {"Stop": [prints({"decision": "block", "reason": "go on"}), prints({"continue": False, "stopReason": "no"})]}
    )
    turn = hooks.turn([say("one"), say("two")])
    assert turn.final_message == "one"
    assert turn.result.status is Status.COMPLETED


def compacted(hooks, make_kernel, *, then="next"):
    async def main():
        replies = [say("one"), say("a summary"), say("two")]
        async with make_kernel(replies, config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("a")
            await thread.submit(kernel.op("compact"))
            await thread.settled()
            await thread.run(then)
            return thread, kernel.model.requests

    return asyncio.run(main())


def test_a_compaction_has_hooks_before_and_after_and_starts_the_session_again(hooks, make_kernel):
    matched = [group(hooks.python(), matcher="manual"), group(hooks.python(), matcher="auto")]
    hooks.write({"PreCompact": matched, "PostCompact": [hooks.python()], "SessionStart": [hooks.python()]})
    compacted(hooks, make_kernel)
    assert hooks.seen == ["SessionStart", "PreCompact", "PostCompact", "SessionStart"]
    before, after = hooks.inputs[1:3]
    assert before["trigger"] == "manual"
    assert before.keys() == {"session_id", "turn_id", "transcript_path", "cwd", "hook_event_name", "model", "trigger"}
    assert after == {**before, "hook_event_name": "PostCompact"}
    assert [each.get("source") for each in hooks.inputs] == ["startup", None, None, "compact"]


def test_a_hook_prevents_a_compaction(hooks, make_kernel):
    hooks.write({"PreCompact": [prints({"continue": False, "stopReason": "not now"})]})
    _, requests = compacted(hooks, make_kernel)
    assert len(requests) == 2
    assert "a" in [item.content[0].text for item in requests[-1].prompt.items if item.type == "message"]


@pytest.mark.parametrize("where", ["on request", "before a turn", "within a turn"])
def test_a_hook_that_prevents_a_compaction_interrupts_the_turn_as_in_codex(hooks, make_kernel, where):
    hooks.write({"PreCompact": [prints({"continue": False, "stopReason": "not now"})]})

    def full(reply):
        return reply.evolve(usage=TokenUsage(990, 0, 10, 0, 1000))

    async def main():
        replies = [full(call("exec_command", cmd="true")) if where == "within a turn" else full(say("a")), say("b")]
        limit = [] if where == "on request" else ["model_auto_compact_token_limit=900"]
        async with make_kernel(replies, config=[TRUSTED, *limit]) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            await thread.run("go")
            if where == "on request":
                await thread.submit(kernel.op("compact"))
                await thread.settled()
            elif where == "before a turn":
                await thread.run("on")
            outcome = await thread.settled()
            await thread.shutdown()
            asked = [item for request in kernel.model.requests for item in request.prompt.items]
            return outcome, [event.msg async for event in events], asked, list(thread.history.items)

    outcome, events, asked, history = asyncio.run(main())
    assert outcome.status is Status.INTERRUPTED
    (warning,) = [event.message for event in events if event.type == "warning" and "hook" in event.message]
    assert warning == "a hook prevented the compaction, and the turn is interrupted: not now"
    kinds = [event.type for event in events]
    assert (kinds.count("turn_aborted"), "error" in kinds, "context_compacted" in kinds) == (1, False, False)
    began = [event.item["type"] for event in events if isinstance(event, ItemStartedEvent)]
    assert "ContextCompaction" not in began
    said = [message_text(item) for item in history if item.type == "message"]
    assert ("on" in said) is (where == "before a turn"), "what the user said is kept"
    assert "on" not in [message_text(item) for item in asked if item.type == "message"]


def test_a_child_has_events_of_its_own(hooks, make_kernel):
    events = ("SessionStart", "SubagentStart", "UserPromptSubmit", "PreToolUse", "SubagentStop", "Stop")
    hooks.write({event: [hooks.python()] for event in events})

    async def main():
        @tool
        async def outer(context: ToolContext) -> str:
            """Start a child."""
            child = await context.spawn(Agent(name="helper", instructions="Help."))
            return (await child.run("help")).final_message or ""

        replies = [call("outer"), call("exec_command", cmd="true", login=False), say("inner done"), say("done")]
        async with make_kernel(replies, tools=[outer], config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            result = await thread.run("go")
            return thread.id, result.final_message

    thread_id, final = asyncio.run(main())
    assert final == "done"
    assert hooks.seen == [
        *("SessionStart", "UserPromptSubmit", "PreToolUse"),
        *("SubagentStart", "UserPromptSubmit", "PreToolUse", "SubagentStop"),
        "Stop",
    ]
    of_child = hooks.inputs[3:7]
    assert {each["session_id"] for each in hooks.inputs} == {thread_id}
    assert {each["agent_type"] for each in of_child} == {"helper"}
    (child_id,) = {each["agent_id"] for each in of_child}
    assert child_id != thread_id
    assert all("agent_id" not in each for each in (*hooks.inputs[:3], hooks.inputs[-1]))
    stop = of_child[-1]
    assert Path(stop["agent_transcript_path"]).name.endswith(f"{child_id}.jsonl")
    assert Path(stop["transcript_path"]).name.endswith(f"{thread_id}.jsonl")


def test_a_matcher_selects_agents(hooks, make_kernel):
    hooks.write({"SubagentStart": [group(hooks.python(), matcher="other"), group(hooks.python(), matcher="help.*")]})
    turn = hooks.turn()
    assert hooks.inputs == []
    assert runs(turn) == []


def test_long_context_is_shortened_and_kept_in_a_file(hooks):
    text = "word " * 3000
    hooks.write({"SessionStart": [f"printf '%s' '{text}'", group(prints("short " * 50), additionalContextLimit=20)]})
    turn = hooks.turn()
    long, short = (text for role, text in messages(turn) if role == "developer" and "truncated" in text)
    assert long.startswith("Warning: truncated output (original token count: 3750)\nTotal output lines: 1\n\nword word")
    assert len(long) < 10_300
    file = Path(long.rsplit("saved to: ", 1)[1])
    assert file.read_text() == text.strip()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.is_relative_to(hooks.home / "hook_outputs")
    assert short.count("short") < 50
    assert json.dumps(entries(turn)[0][1]).count("word") == 3000
    assert warned(turn) == []


def test_a_session_start_that_is_interrupted_runs_before_the_next_input(hooks, make_kernel, workspace):
    """Otherwise an interrupt would let the session start without the hook that decides about it."""
    import asyncio

    from codex_framework.contract.protocol.ops import Interrupt, TextInput, UserInputOp

    hooks.write({"SessionStart": [hooks.python("import os, time\nif not os.path.exists('again'): time.sleep(60)")]})

    async def main():
        async with make_kernel([say("Done.")], config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("one"),)))
            async with asyncio.timeout(30):
                while hooks.seen != ["SessionStart"]:
                    await asyncio.sleep(0.02)
            await thread.submit(Interrupt())
            await thread.settled()
            (workspace / "again").touch()
            return await thread.run("two")

    assert asyncio.run(main()).final_message == "Done."
    assert [(each["hook_event_name"], each["source"]) for each in hooks.inputs] == [("SessionStart", "startup")] * 2
