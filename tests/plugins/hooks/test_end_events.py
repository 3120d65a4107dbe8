"""The hooks of ``Interrupt`` and ``SessionEnd``."""

from __future__ import annotations

import asyncio
import time

import pytest

from codex_framework import Agent, ConfigLayer, ToolContext, tool
from codex_framework.testing import call, fault, say
from codex_plugin_hooks.component import EndHooks
from codex_plugin_hooks.definitions import definitions
from codex_plugin_hooks.settings import Settings
from tests.plugins.hooks.conftest import TRUSTED, group, prints, specific, warned


async def interrupted(kernel):
    """Interrupt a turn at its first call. Return the thread and the events of the turn."""
    thread = await kernel.start_thread()
    events = []
    async with asyncio.timeout(60):
        async for event in thread.stream("hello"):
            events.append(event)
            if event.type == "exec_command_begin":
                await thread.interrupt()
    return thread, events


def completed(events):
    return [event.run for event in events if event.type == "hook_completed"]


SLEEP = [call("exec_command", cmd="sleep 60", login=False), say("Done.")]


def test_an_interrupt_has_its_hook_before_the_turn_ends(hooks, make_kernel):
    hooks.write({"Interrupt": [hooks.python()], "Stop": [hooks.python()]})

    async def main():
        async with make_kernel(SLEEP, config=[TRUSTED]) as kernel:
            return await interrupted(kernel)

    thread, events = asyncio.run(main())
    (read,) = hooks.inputs
    assert read == {
        "session_id": thread.id,
        "turn_id": read["turn_id"],
        "transcript_path": read["transcript_path"],
        "cwd": str(hooks.workspace),
        "hook_event_name": "Interrupt",
        "model": read["model"],
        "permission_mode": "bypassPermissions",
    }
    assert read["transcript_path"].endswith(f"{thread.id}.jsonl")
    kinds = [event.type for event in events]
    assert kinds.index("hook_completed") < kinds.index("turn_aborted")


@pytest.mark.parametrize(
    ("command", "status", "entries"),
    [
        (prints({"systemMessage": "hey"}), "completed", [("warning", "hey")]),
        ("echo text", "failed", [("error", "Interrupt hook returned non-JSON stdout")]),
        (
            prints({"continue": False}),
            "failed",
            [("error", "hook returned invalid interrupt hook JSON output: unknown field `continue`")],
        ),
        ("exit 2", "failed", [("error", "hook exited with code 2")]),
    ],
)
def test_the_hook_of_an_interrupt_can_only_tell_something(hooks, make_kernel, command, status, entries):
    hooks.write({"Interrupt": [command]})

    async def main():
        async with make_kernel(SLEEP, config=[TRUSTED]) as kernel:
            return await interrupted(kernel)

    (run,) = completed(asyncio.run(main())[1])
    assert run.status == status
    assert [(entry.kind, entry.text) for entry in run.entries] == entries


def test_the_hook_of_an_interrupt_does_not_wait_for_that_of_the_cancelled_request(hooks, make_kernel, tmp_path):
    told = tmp_path / "told"
    waits = f"until [ -e {told} ]; do sleep 0.01; done"
    hooks.write({"PostModelRequest": [waits], "Interrupt": [group(f"touch {told}", timeout=3)]})

    async def main():
        replies = [say("x" * 300, deltas=10) + fault(after=5, hang_s=60)]
        async with make_kernel(replies, config=[TRUSTED]) as kernel, asyncio.timeout(60):
            thread = await kernel.start_thread()
            events = []
            async for event in thread.stream("hello"):
                events.append(event)
                if event.type == "agent_message_content_delta":
                    await thread.interrupt()
            return events

    ended = [(run.event_name, run.status) for run in completed(asyncio.run(main()))]
    assert sorted(ended) == [("interrupt", "completed"), ("post_model_request", "completed")]


def test_a_turn_that_completes_or_fails_is_not_interrupted(hooks):
    hooks.write({"Interrupt": [hooks.python()]})
    hooks.turn()
    hooks.turn([])
    assert hooks.inputs == []


def test_a_session_ends_once_however_often_it_is_shut_down(hooks, make_kernel):
    hooks.write({"SessionEnd": [group(hooks.python(), matcher="other|x"), group(hooks.python(), matcher="logout")]})

    async def main():
        async with make_kernel([say("one"), say("two"), say("three")], config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("a")
            await thread.run("b")
            assert hooks.inputs == []
            await thread.shutdown()
            await thread.shutdown()
            assert len(hooks.inputs) == 1
            again = await kernel.resume_thread(thread.id)
            await again.run("c")
        return thread

    thread = asyncio.run(main())
    read, resumed = hooks.inputs
    assert read == {
        "session_id": thread.id,
        "transcript_path": read["transcript_path"],
        "cwd": str(hooks.workspace),
        "hook_event_name": "SessionEnd",
        "reason": "other",
    }
    assert read["transcript_path"].endswith(f"{thread.id}.jsonl")
    assert resumed == read


def test_a_part_that_is_closed_twice_ends_its_session_once(hooks, make_kernel):
    hooks.write({"SessionEnd": [hooks.python()]})

    async def main():
        async with make_kernel([say("one")], config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("a")
            part = thread.conversation.context("hooks").component(EndHooks)
            await part.aclose()
            await part.aclose()

    asyncio.run(main())
    assert hooks.seen == ["SessionEnd"]


def test_the_end_of_a_child_is_not_the_end_of_the_session(hooks, make_kernel):
    hooks.write({"SessionEnd": [hooks.python()], "PreModelRequest": [hooks.python()]})

    async def main():
        @tool
        async def outer(context: ToolContext) -> str:
            """Start a child."""
            child = await context.spawn(Agent(name="helper", instructions="Help."))
            return (await child.run("help")).final_message or ""

        replies = [call("outer"), say("inner done"), say("done")]
        async with make_kernel(replies, tools=[outer], config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("go")
            return thread.id

    thread_id = asyncio.run(main())
    assert hooks.seen == [*["PreModelRequest"] * 3, "SessionEnd"]
    assert {each["session_id"] for each in hooks.inputs} == {thread_id}
    assert [each["thread_id"] == thread_id for each in hooks.inputs[:3]] == [True, False, True]
    assert "agent_id" not in hooks.inputs[1]


@pytest.mark.parametrize("event", ["SessionEnd", "Interrupt"])
def test_the_time_limit_at_an_end_is_at_most_three_seconds(hooks, event):
    table = {event: [group("true"), group("true", timeout=2), group("true", timeout=20)]}
    found = definitions([layer(hooks, table)], Settings(bypass_trust=True), {})
    assert [each.timeout_s for each in found.handlers] == [1, 2, 3]
    assert found.warnings == (f"clamping {event} hook timeout to 3s in {hooks.home}/config.toml",)


def test_an_asynchronous_hook_is_waited_for_at_the_end_of_a_session(hooks):
    table = {event: [group("true", **{"async": True})] for event in ("SessionEnd", "Interrupt")}
    found = definitions([layer(hooks, table)], Settings(bypass_trust=True), {})
    assert [each.is_async for each in found.handlers] == [False, True]
    assert found.warnings == (f"running async SessionEnd hook synchronously in {hooks.home}/config.toml",)


def layer(hooks, table):
    return ConfigLayer(name="user", path=f"{hooks.home}/config.toml", folder=hooks.home, table={"hooks": table})


@pytest.mark.parametrize("command", ["echo text", prints({"continue": False}), prints(specific("SessionEnd"))])
def test_the_output_at_the_end_of_a_session_has_no_effect(hooks, command):
    hooks.write({"SessionEnd": [command]})
    turn = hooks.turn()
    assert (turn.warnings, warned(turn)) == ((), [])


def test_a_hook_that_fails_or_hangs_at_the_end_of_a_session_is_told_and_ends(hooks, make_kernel):
    hooks.write({"SessionEnd": ["sleep 300", "echo why >&2; exit 1"]})

    async def main():
        async with make_kernel([say("one")], config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("a")
            listener = thread.events()
            began = time.monotonic()
            await thread.shutdown()
            seconds = time.monotonic() - began
            return seconds, [event.msg.message async for event in listener if event.msg.type == "warning"]

    seconds, warnings = asyncio.run(main())
    assert seconds < 60
    assert [text.partition("failed: ")[2] for text in warnings] == [
        "hook timed out after 1s",
        "hook exited with code 1: why",
    ]
