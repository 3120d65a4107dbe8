"""Threads: turns from input to end, with real tools, real processes and a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    CommandRequest,
    CommandVerdict,
    Decision,
    FatalToolError,
    Fragment,
    FunctionSpec,
    ReviewDecision,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRefused,
    Verdict,
)
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    ExecApprovalRequestEvent,
    ExecCommandEndEvent,
    SessionConfiguredEvent,
    ShutdownCompleteEvent,
    StreamErrorEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnDiffEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import Message, is_output, message_text
from codex_framework.contract.protocol.ops import (
    ExecApproval,
    Interrupt,
    Shutdown,
    TextInput,
    ThreadSettings,
    ThreadSettingsOverrides,
    UserInputOp,
)
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing.replies import call, say
from codex_framework.testing.scripted import Fault, Reply
from codex_framework.threads.turn.machine import INTERRUPT_MARKER

ANY = {"type": "object", "properties": {}}


class FakeTool:
    """A tool whose work is a function of the test."""

    def __init__(self, name: str, work: Any, *, parallel: bool = False) -> None:
        self.spec = FunctionSpec(name, f"Does {name}.", ANY)
        self._work = work
        if parallel:
            self.parallel_safe = True

    async def run(self, tool_call: ToolCall, context: ToolContext) -> ToolOutput | str:
        result: ToolOutput | str = await self._work(tool_call, context)
        return result


def outputs(thread: Any) -> list[Any]:
    return [item.output for item in thread.history.items if is_output(item)]


def texts(thread: Any) -> list[str]:
    return [message_text(item) for item in thread.history.items if isinstance(item, Message)]


def shell(argv: tuple[str, ...], **options: Any) -> FakeTool:
    async def work(_: ToolCall, context: ToolContext) -> str:
        return (await context.run(CommandRequest(argv=argv, **options))).output

    return FakeTool("sh", work)


def test_a_turn_runs_a_tool_and_ends_with_the_models_word(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([call("sh"), say("done")], tools=[shell(("echo", "hi"))]) as thread:
            result = await thread.run("go")
            assert result.status is Status.COMPLETED
            assert result.final_message == "done"
            assert outputs(thread) == ["hi\n"]
            assert result.usage.total_tokens == 240

    asyncio.run(main())


def test_calls_overlap_only_where_all_are_parallel_safe_and_outputs_keep_call_order(make_thread: Any) -> None:
    running: set[str] = set()
    seen: list[tuple[str, frozenset[str]]] = []

    async def work(tool_call: ToolCall, _: ToolContext) -> str:
        running.add(tool_call.call_id)
        seen.append((tool_call.name, frozenset(running)))
        # The first call is the slowest, so an order by completion would show.
        await asyncio.sleep(0.05 if tool_call.call_id == "a" else 0.01)
        running.discard(tool_call.call_id)
        return tool_call.call_id

    async def main() -> None:
        tools = [FakeTool("par", work, parallel=True), FakeTool("solo", work)]
        reply = (
            call("par", call_id="a") + call("par", call_id="b") + call("solo", call_id="c") + call("par", call_id="d")
        )
        async with make_thread([reply, say("done")], tools=tools) as thread:
            await thread.run("go")
            assert outputs(thread) == ["a", "b", "c", "d"]

    asyncio.run(main())
    assert ("par", frozenset({"a", "b"})) in seen, "parallel calls overlap"
    assert [together for name, together in seen if name == "solo"] == [frozenset({"c"})], "an exclusive call is alone"
    assert seen[-1] == ("par", frozenset({"d"})), "and later ones wait for it"


def test_a_call_starts_while_the_response_is_still_streaming(make_thread: Any) -> None:
    started = asyncio.Event()

    async def work(_: ToolCall, __: ToolContext) -> str:
        started.set()
        return "ok"

    async def main() -> None:
        slow = (call("t") + say("some words that come slowly")).evolve(deltas=10, delta_delay_s=0.02)
        async with make_thread([slow, say("done")], tools=[FakeTool("t", work)]) as thread:
            order: list[str] = []
            async for event in thread.stream("go"):
                if started.is_set() and "tool ran" not in order:
                    order.append("tool ran")
                if event.type == "agent_message" and "message" not in order:
                    order.append("message")
            assert order[:2] == ["tool ran", "message"]

    asyncio.run(main())


def test_what_a_tool_raises_goes_to_the_model_and_a_fatal_error_ends_the_turn(make_thread: Any) -> None:
    async def work(tool_call: ToolCall, _: ToolContext) -> str:
        match tool_call.call_id:
            case "error":
                raise ToolError("that did not work")
            case "refused":
                raise ToolRefused("not allowed")
            case "bug":
                raise ZeroDivisionError("oops")
        raise FatalToolError("the disk is gone")

    async def main() -> None:
        replies = [*(call("t", call_id=kind) for kind in ("error", "refused", "bug", "fatal")), say("never said")]
        async with make_thread(replies, tools=[FakeTool("t", work)]) as thread:
            result = await thread.run("go")
            assert outputs(thread) == [
                "that did not work",
                "not allowed",
                "t failed: ZeroDivisionError: oops",
                "the disk is gone",
            ]
            assert (result.status, result.error) == (Status.FAILED, "the disk is gone")

    asyncio.run(main())


def test_an_unknown_tool_is_the_models_news(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([call("nope"), say("done")]) as thread:
            result = await thread.run("go")
            assert outputs(thread) == ["unsupported call: nope"]
            assert result.status is Status.COMPLETED

    asyncio.run(main())


def test_a_broken_response_is_asked_for_again_and_nothing_runs_twice(make_thread: Any) -> None:
    ran: list[str] = []

    async def work(tool_call: ToolCall, _: ToolContext) -> str:
        ran.append(tool_call.call_id)
        return "effect"

    async def main() -> None:
        broken = call("t").evolve(fault=Fault(no_completed=True))
        async with make_thread([broken, say("done")], tools=[FakeTool("t", work)]) as thread:
            result = await thread.run("go")
            notices = [event for event in result.events if isinstance(event, StreamErrorEvent)]
            assert [notice.message for notice in notices] == ["Reconnecting... 1/5"]
            assert len(ran) == 1
            second = thread.model.requests[1].prompt.items
            assert [item.type for item in second] == ["message", "function_call", "function_call_output"]
            assert result.status is Status.COMPLETED

    asyncio.run(main())


def test_a_failure_that_cannot_be_mended_ends_the_turn_and_the_next_one_works(make_thread: Any) -> None:
    async def main() -> None:
        refused = Reply().evolve(fault=Fault(status=400, body={"error": {"message": "bad"}}))
        async with make_thread([refused, say("well")]) as thread:
            first = await thread.run("go")
            assert first.status is Status.FAILED
            assert any(isinstance(event, ErrorEvent) for event in first.events)
            assert isinstance(first.events[-1], TurnCompleteEvent)
            assert (await thread.run("again")).final_message == "well"

    asyncio.run(main())


@pytest.mark.parametrize("config", [(), ("agents.interrupt_message=false",)])
def test_an_interrupt_kills_the_command_and_leaves_a_marker_if_wanted(
    make_thread: Any, tmp_path: Path, config: tuple[str, ...]
) -> None:
    pid_file = tmp_path / "pid"

    async def main() -> None:
        tool = shell(("sh", "-c", f"echo $$ > {pid_file}; sleep 60 & wait"))
        async with make_thread([call("sh"), say("never")], tools=[tool], config=config) as thread:
            turn = asyncio.ensure_future(thread.run("go"))
            while not (pid_file.exists() and pid_file.read_text().strip()):
                await asyncio.sleep(0.005)
            await thread.interrupt()
            result = await turn
            assert result.status is Status.INTERRUPTED
            assert isinstance(result.events[-1], TurnAbortedEvent)
            assert outputs(thread)[0].endswith("aborted by user") or "aborted by user after" in outputs(thread)[0]
            assert (texts(thread)[-1] == INTERRUPT_MARKER) is (not config)
            assert not _alive(int(pid_file.read_text()))

    asyncio.run(main())


def _alive(group: int) -> bool:
    """Whether any process of the group still runs (one that only waits to be reaped does not)."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def test_steered_input_is_in_the_next_sample(make_thread: Any) -> None:
    async def main() -> None:
        async def work(_: ToolCall, __: ToolContext) -> str:
            await thread.submit(UserInputOp((TextInput("also this"),)))
            return "ok"

        async with make_thread([call("t"), say("done")], tools=[FakeTool("t", work)]) as thread:
            await thread.run("go")
            second = thread.model.requests[1].prompt.items
            assert [item.type for item in second] == ["message", "function_call", "function_call_output", "message"]
            assert message_text(second[-1]) == "also this"

    asyncio.run(main())


def test_an_approval_can_be_answered_from_within_its_own_delivery(make_thread: Any) -> None:
    async def main() -> None:
        tool = shell(("echo", "approved"))
        settings = {"approval_policy": ApprovalPolicy.UNTRUSTED}
        async with make_thread([call("sh"), say("done")], tools=[tool], settings=settings) as thread:
            async for event in thread.stream("go"):
                if isinstance(event, ExecApprovalRequestEvent):
                    await thread.submit(ExecApproval(event.call_id, ReviewDecision(Decision.APPROVED)))
            assert outputs(thread) == ["approved\n"]

    asyncio.run(main())


def test_a_denied_command_does_not_run_and_the_turn_goes_on(make_thread: Any, tmp_path: Path) -> None:
    async def main() -> None:
        tool = shell(("touch", str(tmp_path / "made")))
        settings = {"approval_policy": ApprovalPolicy.UNTRUSTED}
        async with make_thread([call("sh"), say("done")], tools=[tool], settings=settings) as thread:
            ends = []
            async for event in thread.stream("go"):
                if isinstance(event, ExecApprovalRequestEvent):
                    await thread.submit(ExecApproval(event.call_id, ReviewDecision(Decision.DENIED)))
                if isinstance(event, ExecCommandEndEvent):
                    ends.append(event.status)
            assert outputs(thread) == ["rejected by user"]
            assert ends == ["declined"]

    asyncio.run(main())
    assert not (tmp_path / "made").exists()


def test_abort_as_an_answer_ends_the_turn(make_thread: Any) -> None:
    async def main() -> None:
        settings = {"approval_policy": ApprovalPolicy.UNTRUSTED}
        async with make_thread([call("sh"), say("no")], tools=[shell(("true",))], settings=settings) as thread:
            last = None
            async for event in thread.stream("go"):
                last = event
                if isinstance(event, ExecApprovalRequestEvent):
                    await thread.submit(ExecApproval(event.call_id, ReviewDecision(Decision.ABORT)))
            assert isinstance(last, TurnAbortedEvent)

    asyncio.run(main())


def test_an_approval_for_the_session_is_asked_once(make_thread: Any) -> None:
    async def main() -> None:
        settings = {"approval_policy": ApprovalPolicy.UNTRUSTED}
        replies = [call("sh"), call("sh"), say("done")]
        async with make_thread(replies, tools=[shell(("echo", "x"))], settings=settings) as thread:
            asked = 0
            async for event in thread.stream("go"):
                if isinstance(event, ExecApprovalRequestEvent):
                    asked += 1
                    await thread.submit(ExecApproval(event.call_id, ReviewDecision(Decision.APPROVED_FOR_SESSION)))
            assert asked == 1
            assert outputs(thread) == ["x\n", "x\n"]

    asyncio.run(main())


def test_escalation_is_refused_where_nobody_may_be_asked(make_thread: Any) -> None:
    async def main() -> None:
        tool = shell(("true",), escalate="require_escalated")
        async with make_thread([call("sh"), say("done")], tools=[tool]) as thread:
            await thread.run("go")
            refusal = (
                "approval policy is Never; reject command — you cannot ask for escalated permissions"
                " if the approval policy is Never"
            )
            assert outputs(thread) == [refusal]

    asyncio.run(main())


class Judge:
    def __init__(self, name: str, verdict: CommandVerdict | Exception) -> None:
        self.name = name
        self._verdict = verdict

    def judge(self, *_: Any) -> CommandVerdict:
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict


def test_command_policies_decide_and_a_broken_one_forbids(make_thread: Any) -> None:
    async def ran(*policies: Judge) -> Any:
        async with make_thread([call("sh"), say("done")], tools=[shell(("echo", "ran"))], policies=policies) as thread:
            await thread.run("go")
            return outputs(thread)[0]

    allow = Judge("a", CommandVerdict(verdict=Verdict.ALLOW))
    ask = Judge("b", CommandVerdict(verdict=Verdict.ASK, reason="hm"))
    forbid = Judge("c", CommandVerdict(verdict=Verdict.FORBID, reason="never that"))
    assert asyncio.run(ran(allow)) == "ran\n"
    assert asyncio.run(ran(allow, ask)) == "approval required by policy, but AskForApproval is set to Never"
    assert asyncio.run(ran(forbid, ask)) == "never that"
    assert asyncio.run(ran(Judge("judge", RuntimeError("broken")))) == (
        "rejected: command policy 'judge' failed: RuntimeError: broken"
    )


class Reviewer:
    def __init__(self, name: str, answer: ReviewDecision | Exception | None) -> None:
        self.name = name
        self._answer = answer

    async def review(self, _: Any, facts: Any) -> ReviewDecision | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_the_first_reviewer_with_an_answer_decides_and_a_broken_one_denies(make_thread: Any) -> None:
    async def ran(*reviewers: Reviewer) -> Any:
        settings = {"approval_policy": ApprovalPolicy.UNTRUSTED}
        tools = [shell(("echo", "ran"))]
        async with make_thread(
            [call("sh"), say("done")], tools=tools, settings=settings, reviewers=reviewers
        ) as thread:
            await thread.run("go")
            return outputs(thread)[0]

    yes, no = ReviewDecision(Decision.APPROVED), ReviewDecision(Decision.DENIED)
    assert asyncio.run(ran(Reviewer("a", None), Reviewer("b", yes), Reviewer("c", no))) == "ran\n"
    late = ReviewDecision(Decision.TIMED_OUT)
    told = ReviewDecision(Decision.DENIED, message="not on a Friday")
    assert asyncio.run(ran(Reviewer("a", no), Reviewer("b", yes))) == "rejected by the approval reviewer 'a'"
    assert asyncio.run(ran(Reviewer("a", told), Reviewer("b", yes))) == "not on a Friday"
    failed = "rejected: the approval reviewer 'a' failed"
    assert asyncio.run(ran(Reviewer("a", ValueError("x")), Reviewer("b", yes))) == failed
    in_time = "rejected: the approval reviewer 'a' did not answer in time"
    assert asyncio.run(ran(Reviewer("a", late), Reviewer("b", yes))) == in_time
    nobody = "rejected: this needs an approval, and no user can be asked for it"
    assert asyncio.run(ran(Reviewer("a", None))) == nobody


class Rewriter:
    name = "rewriter"
    order = 0

    async def request(self, request: Any) -> Any:
        return request.evolve(instructions="rewritten")

    async def before_tool(self, tool_call: ToolCall) -> ToolCall:
        return tool_call.evolve(name="real")

    async def after_tool(self, tool_call: ToolCall, output: ToolOutput) -> ToolOutput:
        return output.evolve(content=f"{output.content}, by {tool_call.name}")


def test_interceptors_change_requests_calls_and_outputs(make_thread: Any) -> None:
    async def work(tool_call: ToolCall, _: ToolContext) -> str:
        return "worked"

    async def main() -> None:
        tools = [FakeTool("real", work)]
        async with make_thread([call("alias"), say("done")], tools=tools, interceptors=[Rewriter()]) as thread:
            await thread.run("go")
            assert outputs(thread) == ["worked, by real"]
            assert thread.model.requests[0].instructions == "rewritten"

    asyncio.run(main())


class Loner:
    name = "loner"
    order = 0

    def alone(self, tool_call: ToolCall) -> bool:
        return tool_call.call_id == "b"

    async def request(self, request: Any) -> Any:
        return request

    async def before_tool(self, tool_call: ToolCall) -> ToolCall:
        return tool_call

    async def after_tool(self, tool_call: ToolCall, output: ToolOutput) -> ToolOutput:
        return output


def test_an_interceptor_can_have_a_parallel_call_run_alone(make_thread: Any) -> None:
    running: set[str] = set()
    together: dict[str, int] = {}

    async def work(tool_call: ToolCall, _: ToolContext) -> str:
        running.add(tool_call.call_id)
        await asyncio.sleep(0.01)
        together[tool_call.call_id] = len(running)
        await asyncio.sleep(0.01)
        running.discard(tool_call.call_id)
        return tool_call.call_id

    async def main() -> None:
        reply = (
            call("par", call_id="a") + call("par", call_id="b") + call("par", call_id="c") + call("par", call_id="d")
        )
        tools = [FakeTool("par", work, parallel=True)]
        async with make_thread([reply, say("done")], tools=tools, interceptors=[Loner()]) as thread:
            await thread.run("go")
            assert outputs(thread) == ["a", "b", "c", "d"]

    asyncio.run(main())
    assert together == {"a": 1, "b": 1, "c": 2, "d": 2}


class Mood:
    name = "mood"
    text = "<mood>calm</mood>"

    def fragments(self, _: Any) -> list[Fragment]:
        return [Fragment(role="developer", text=self.text, start="<mood>", end="</mood>")]


def test_context_is_sent_once_and_again_when_it_changes(make_thread: Any) -> None:
    async def main() -> None:
        mood = Mood()
        async with make_thread([say("1"), say("2"), say("3")], context=[mood]) as thread:
            await thread.run("one")
            await thread.run("two")
            mood.text = "<mood>tense</mood>"
            await thread.run("three")
            moods = [text for text in texts(thread) if text.startswith("<mood>")]
            assert moods == ["<mood>calm</mood>", "<mood>tense</mood>"]
            assert texts(thread)[:2] == ["<mood>calm</mood>", "one"]

    asyncio.run(main())


class Moody:
    name = "moody"

    def fragments(self, _: Any) -> list[Fragment]:
        raise OSError("no mood today")


def test_a_broken_context_source_is_named_and_the_turn_goes_on(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("fine")], context=[Moody()]) as thread:
            result = await thread.run("go")
            warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
            assert any(
                text.startswith(
                    "context source 'moody' of plugin 'Offer': fragments() failed: OSError: no mood today ("
                )
                for text in warnings
            )
            assert result.final_message == "fine"

    asyncio.run(main())


def test_events_begin_with_session_configured_and_end_with_shutdown_complete(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("hi")]) as thread:
            events = thread.events()
            await thread.run("go")
            await thread.submit(Shutdown())
            heard = [event.msg async for event in events]
            assert isinstance(heard[0], SessionConfiguredEvent)
            assert isinstance(heard[-1], ShutdownCompleteEvent)

    asyncio.run(main())


def test_settings_change_from_the_next_turn_on(make_thread: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with make_thread([call("sh"), say("done")], tools=[shell(("pwd",))]) as thread:
            await thread.submit(ThreadSettings(ThreadSettingsOverrides(cwd=str(tmp_path), model="another")))
            await thread.run("go")
            assert outputs(thread) == [f"{tmp_path}\n"]
            assert thread.model.requests[0].model.slug == "another"

    asyncio.run(main())


def test_an_interrupt_of_nothing_does_nothing(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("hi")]) as thread:
            await thread.submit(Interrupt())
            assert (await thread.run("go")).final_message == "hi"

    asyncio.run(main())


def test_file_changes_of_a_turn_are_one_diff(make_thread: Any, tmp_path: Path) -> None:
    async def work(_: ToolCall, context: ToolContext) -> str:
        await context.write_text("a.txt", "new\n")
        context.note_file_change(str(context.resolve("a.txt")), "old\n", "new\n")
        return "written"

    async def main() -> None:
        async with make_thread([call("t"), say("done")], tools=[FakeTool("t", work)]) as thread:
            result = await thread.run("go")
            diffs = [event.unified_diff for event in result.events if isinstance(event, TurnDiffEvent)]
            assert diffs == ["diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n"]

    asyncio.run(main())


def test_long_output_is_shortened_once_for_the_model(make_thread: Any) -> None:
    async def work(_: ToolCall, __: ToolContext) -> str:
        return "x" * 100_000

    async def main() -> None:
        async with make_thread([call("t"), say("done")], tools=[FakeTool("t", work)]) as thread:
            await thread.run("go")
            output = outputs(thread)[0]
            assert len(output) < 60_000
            assert "truncated…" in output

    asyncio.run(main())


def test_output_may_be_a_fifth_longer_than_the_models_limit_and_a_tool_can_keep_its_own_whole(make_thread: Any) -> None:
    """The slack is Codex's: a tool that has shortened its output itself, under a heading, keeps it."""
    limit = 10_000  # bytes, for a model that is not known

    async def output_of(length: int, *, truncate: bool = True) -> str:
        async def work(_: ToolCall, __: ToolContext) -> ToolOutput:
            return ToolOutput("x" * length, truncate=truncate)

        async with make_thread([call("t"), say("done")], tools=[FakeTool("t", work)]) as thread:
            await thread.run("go")
            return str(outputs(thread)[0])

    most = limit * 6 // 5
    assert asyncio.run(output_of(most)) == "x" * most
    assert "truncated…" in asyncio.run(output_of(most + 1))
    assert asyncio.run(output_of(limit * 3, truncate=False)) == "x" * limit * 3


class Shaky:
    name = "shaky"

    def observe(self, *_: Any) -> None:
        raise RuntimeError("cannot look")


def test_a_failing_observer_is_named_muted_and_harmless(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("one"), say("two")], observers=[Shaky()]) as thread:
            events = thread.events()
            await thread.run("go")
            await asyncio.sleep(0.1)
            assert (await thread.run("again")).final_message == "two"
            await thread.submit(Shutdown())
            told = [event.msg.message async for event in events if isinstance(event.msg, WarningEvent)]
            assert next(text for text in told if "cannot look" in text).startswith(
                "observer 'shaky' of plugin 'Offer': observe() failed"
            )
            assert sum("muted for this thread" in text for text in told) == 1

    asyncio.run(main())
