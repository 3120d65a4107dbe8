"""The hooks of ``PreModelRequest`` and ``PostModelRequest``."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import ClientWrapper, Interceptor, ModelError, Status, hookimpl
from codex_framework.testing import call, fault, say
from tests.plugins.hooks.conftest import TRUSTED, group, prints, runs, warned

BOTH = ("PreModelRequest", "PostModelRequest")
ECHO = call("exec_command", cmd="echo a", login=False)


def both(hooks, **more):
    hooks.write({event: [group(hooks.python(), **more)] for event in BOTH})


def attempts(hooks):
    return [(each["hook_event_name"], each["attempt_number"], each.get("status")) for each in hooks.inputs]


def test_each_request_has_a_hook_before_and_after_it(hooks):
    both(hooks)
    turn = hooks.turn([ECHO, ECHO, say("Done.")])
    thread_id = turn.requests[0].thread_id
    assert [each["hook_event_name"] for each in hooks.inputs] == [*BOTH, *BOTH, *BOTH]
    before, after = hooks.inputs[:2]
    assert before == {
        "kind": "sampling",
        "request_id": before["request_id"],
        "attempt_number": 1,
        "session_id": thread_id,
        "thread_id": thread_id,
        "turn_id": before["turn_id"],
        "cwd": str(hooks.workspace),
        "transcript_path": before["transcript_path"],
        "model": before["model"],
        "hook_event_name": "PreModelRequest",
    }
    usage = {"input_tokens": 100, "cached_input_tokens": 10, "cache_write_input_tokens": 0, "output_tokens": 20}
    assert after == {
        **before,
        "hook_event_name": "PostModelRequest",
        "status": "completed",
        "error": None,
        "token_usage": {**usage, "reasoning_output_tokens": 5, "total_tokens": 120},
        "response_id": after["response_id"],
    }
    assert after["response_id"]
    assert len({each["request_id"] for each in hooks.inputs}) == 3
    assert runs(turn)[0].id.endswith(f"hooks.json:{before['request_id']}")


def test_attempts_at_a_request_are_counted(hooks):
    both(hooks)
    hooks.turn([say("x" * 300, deltas=10) + fault(after=5), say("Done.")])
    ends = [(BOTH[0], 1, None), (BOTH[1], 1, "failed"), (BOTH[0], 2, None), (BOTH[1], 2, "completed")]
    assert attempts(hooks) == ends
    assert len({each["request_id"] for each in hooks.inputs}) == 1
    failed = hooks.inputs[1]
    assert failed["error"].startswith("stream disconnected before completion")
    assert failed["token_usage"] is None
    assert failed["response_id"] is None


def test_a_response_without_an_end_has_failed(hooks):
    both(hooks)
    hooks.turn([say("Half.") + fault(no_completed=True), say("Done.")])
    assert attempts(hooks)[1] == (BOTH[1], 1, "failed")


def test_the_next_turn_begins_with_the_first_attempt(hooks, make_kernel):
    both(hooks)

    async def main():
        async with make_kernel(
            [fault(400, body={"error": {"message": "bad"}}), say("Done.")], config=[TRUSTED]
        ) as kernel:
            thread = await kernel.start_thread()
            assert (await thread.run("one")).status is Status.FAILED
            await thread.run("two")

    asyncio.run(main())
    assert [number for _, number, _ in attempts(hooks)] == [1, 1, 1, 1]
    assert len({each["request_id"] for each in hooks.inputs}) == 2


def test_the_request_of_a_compaction_is_of_another_kind(hooks, make_kernel):
    both(hooks)

    async def main():
        async with make_kernel([say("one"), say("SUMMARY"), say("two")], config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("a")
            await thread.submit(kernel.op("compact"))
            await thread.settled()
            await thread.run("b")

    asyncio.run(main())
    kinds = [each["kind"] for each in hooks.inputs]
    assert kinds == ["sampling"] * 2 + ["foreground_compaction"] * 2 + ["sampling"] * 2


class Breaking(Interceptor):
    """Fails one response, after its first event."""

    name = "breaking"

    def __init__(self, number, error, *, order=0):
        self.order = order
        self._left = number
        self._error = error

    def client(self, client, provider):
        breaking = self

        class Client(ClientWrapper):
            async def stream(self, request):
                breaking._left -= 1
                async with self.response(request) as events:
                    async for event in events:
                        yield event
                        if breaking._left == 0:
                            raise breaking._error

        return Client(client)


def run_with(interceptor, make_kernel, replies, prompts):
    class Plugin:
        @hookimpl
        def codex_interceptors(self):
            return [interceptor]

    async def main():
        async with make_kernel(replies, config=[TRUSTED], plugins=[Plugin()]) as kernel:
            thread = await kernel.start_thread()
            for prompt in prompts:
                await thread.run(prompt)

    asyncio.run(main())


def test_a_request_of_another_kind_is_no_further_attempt_at_the_one_that_failed(hooks, make_kernel):
    both(hooks)
    full = Breaking(2, ModelError("too long", info="context_window_exceeded"))
    run_with(full, make_kernel, [say("one"), say("lost"), say("SUMMARY"), say("two")], ["a", "b"])
    ends = [(each["kind"], each["attempt_number"], each["status"]) for each in hooks.inputs if "status" in each]
    assert ends == [
        ("sampling", 1, "completed"),
        ("sampling", 1, "failed"),
        ("foreground_compaction", 1, "completed"),
        ("sampling", 1, "completed"),
    ]
    assert len({each["request_id"] for each in hooks.inputs}) == 4


def test_an_attempt_that_is_given_up_is_cancelled_before_the_next_one(hooks, make_kernel):
    both(hooks)
    outside = Breaking(1, ModelError("too slow", retryable=True), order=2_000_000)
    run_with(outside, make_kernel, [say("one"), say("two")], ["hello"])
    ends = [(BOTH[0], 1, None), (BOTH[1], 1, "cancelled"), (BOTH[0], 2, None), (BOTH[1], 2, "completed")]
    assert attempts(hooks) == ends


@pytest.mark.parametrize("event", BOTH)
@pytest.mark.parametrize(
    "command",
    [
        "echo text",
        prints({"decision": "block", "reason": "no"}),
        prints({"continue": False, "stopReason": "no"}),
        prints({"hookSpecificOutput": {"additionalContext": "CONTEXT"}}),
        prints("{broken"),
    ],
)
def test_their_output_decides_nothing(hooks, event, command):
    hooks.write({event: [command]})
    turn = hooks.turn()
    assert turn.result.status is Status.COMPLETED
    assert [run.status for run in runs(turn)] == ["completed"]
    assert warned(turn) == []
    assert "CONTEXT" not in str(turn.requests)


def test_a_failure_is_told_and_stops_nothing(hooks):
    hooks.write({"PreModelRequest": ["echo why >&2; exit 2"], "PostModelRequest": [group("sleep 60", timeout=1)]})
    turn = hooks.turn()
    assert turn.result.status is Status.COMPLETED
    assert [run.status for run in runs(turn)] == ["failed", "failed"]
    assert [text.partition("failed: ")[2] for text in warned(turn)] == [
        "hook exited with code 2: why",
        "hook timed out after 1s",
    ]


def test_matchers_have_no_effect(hooks):
    both(hooks, matcher="nothing")
    hooks.turn()
    assert len(hooks.inputs) == 2


def test_a_cancelled_request_is_told_before_the_turn_ends(hooks, make_kernel):
    both(hooks)

    async def main():
        replies = [say("x" * 300, deltas=10) + fault(after=5, hang_s=60)]
        async with make_kernel(replies, config=[TRUSTED]) as kernel:
            thread = await kernel.start_thread()
            async with asyncio.timeout(60):
                async for event in thread.stream("hello"):
                    if event.type == "agent_message_content_delta":
                        await thread.interrupt()
        return [each.get("status") for each in hooks.inputs]

    assert asyncio.run(main()) == [None, "cancelled"]
    assert hooks.inputs[1]["token_usage"] is None


def test_a_request_that_an_interceptor_refuses_has_no_hook(hooks, make_kernel):
    both(hooks)

    class Refuses(Interceptor):
        name = "refuses"

        async def request(self, request, turn):
            raise RuntimeError("no")

    run_with(Refuses(), make_kernel, [say("one")], ["hello"])
    assert hooks.inputs == []
