"""Rows ``offered``, ``needs_approval``, ``due``, ``applies`` and those of interceptors, compactors and reviewers."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from codex_framework import (
    Approval,
    ApprovalReviewer,
    Compaction,
    Compactor,
    Decision,
    Interceptor,
    Message,
    OutputText,
    ReviewDecision,
    Status,
    ToolApprovalRequestEvent,
    ToolContext,
    ToolOutput,
    UserInput,
    tool,
)
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    ErrorEvent,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.testing import answer, call, say
from tests.kernel.failures.careless import ignore_cancellation, place, play


@tool
def here() -> str:
    """Be here."""
    return "here"


HELLO = say("Hello.")


def told(thread_with, *replies, answers=(), turns=1, **more):
    """What a turn (or several) gives: the last result, the warnings, the thread."""

    async def story():
        async with thread_with(*answers, **more) as thread:
            for _ in range(turns):
                result = await thread.turn("Hi!", *(replies or (HELLO,)))
            return result, list(thread.warnings), thread

    return play(story, 20)


async def fail(self, *_):
    raise RuntimeError("no idea")


async def exit_(self, *_):
    sys.exit(3)


async def nothing(self, *_):
    return None


def fail_at_once(self, *_):
    raise RuntimeError("no idea")


async def late(self, *_):
    await asyncio.sleep(3600)


async def late_and_deaf(self, *_):
    await ignore_cancellation()


def interceptor(name="guard", order=100, **members):
    return type("Guard", (Interceptor,), {"name": name, "order": order, **members})()


GUARD = "interceptor 'guard' of plugin 'careless'"


# ``offered``, ``needs_approval``, ``due``, ``applies``: slow ones are told by name


def slow(*_):
    time.sleep(0.07)


def slow_parts():
    from codex_framework import Component, ThreadComponent

    class Part(ThreadComponent):
        def tools(self, turn):
            slow()
            return []

    class Whole(Component):
        name = "whole"

        def for_thread(self, thread):
            return Part()

    return [Whole()]


class Slow(Compactor):
    name = "slow"

    def due(self, status, turn):
        slow()

    async def compact(self, turn, reason):
        return Compaction(items=[], message="")


def tool_with(**members):
    made = tool(name="there")(lambda: "there")
    for name, value in members.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("offers", "who"),
    [
        (lambda: {"components": slow_parts()}, "component 'whole' of plugin 'careless': tools()"),
        (
            lambda: {"tools": [tool_with(offered=lambda facts: slow() is None)]},
            "tool 'there' of plugin 'careless': offered()",
        ),
        (lambda: {"tools": [tool_with(needs_approval=slow)]}, "tool 'there' of plugin 'careless': needs_approval()"),
        (lambda: {"compactors": [Slow()]}, "compactor 'slow' of plugin 'careless': due()"),
        (
            lambda: {"interceptors": [interceptor(applies=lambda self, turn: slow() is None)]},
            f"{GUARD}: applies()",
        ),
    ],
)
def test_a_plain_call_that_takes_long_is_told_once_by_name(thread_with, offers, who):
    _, warnings, _ = told(thread_with, call("there"), HELLO, turns=2, **offers())
    (warning,) = (text for text in warnings if " took " in text)
    assert warning.startswith(f"{who} took ")
    assert f" ms ({__file__}, line " in warning
    assert warning.endswith("Do slow work once, in an async method, and keep its result.")


def test_quick_ones_are_not_told(thread_with):
    _, warnings, _ = told(thread_with, call("here"), HELLO, tools=[here], compactors=[interceptor_free()])
    assert [text for text in warnings if " took " in text] == []


def interceptor_free():
    class Quick(Slow):
        def due(self, status, turn):
            return None

    return Quick()


@pytest.mark.parametrize(
    ("members", "fact"),
    [
        ({"offered": lambda facts: 1 / 0}, "offered() failed: ZeroDivisionError: division by zero ("),
        ({"spec_for": lambda facts: "there"}, "spec_for() failed: it returned str, not the spec of a tool ("),
        ({"spec_for": lambda facts: here.spec}, "spec_for() failed: it returned the spec of a tool 'here' ("),
    ],
)
def test_a_tool_that_cannot_say_what_it_is_is_not_offered(thread_with, members, fact):
    _, warnings, thread = told(thread_with, tools=[tool_with(**members), here])
    (warning,) = (text for text in warnings if "'there'" in text)
    assert warning.startswith(f"tool 'there' of plugin 'careless': {fact}")
    assert __file__ in warning
    assert [spec.name for spec in thread.requests[0].tools] == ["here"]


@pytest.mark.parametrize(
    ("ask", "fact"),
    [
        (lambda call, facts: 1 / 0, "ZeroDivisionError: division by zero ("),
        (lambda call, facts: True, "it returned bool instead of Approval ("),
    ],
)
def test_a_tool_that_cannot_say_whether_it_needs_an_approval_is_asked_about(thread_with, ask, fact):
    yes = answer(ToolApprovalRequestEvent, ReviewDecision(Decision.APPROVED))
    _, warnings, thread = told(
        thread_with,
        call("there"),
        HELLO,
        answers=[yes],
        tools=[tool_with(needs_approval=ask)],
        approval_policy=ApprovalPolicy.ON_REQUEST,
    )
    assert [request.type for request in thread.seen] == ["tool_approval_request"]
    assert thread.outputs == ["there"]
    (warning,) = (text for text in warnings if "needs_approval" in text)
    assert warning.startswith(f"tool 'there' of plugin 'careless': needs_approval() failed: {fact}")
    assert __file__ in warning


def test_an_always_that_cannot_be_saved_does_not_prevent_the_call(thread_with):
    yes = answer(ToolApprovalRequestEvent, ReviewDecision(Decision.APPROVED_ALWAYS))
    wanted = tool_with(
        needs_approval=lambda call, facts: Approval(question="May I?", always=True), allow_always=lambda *_: fail(None)
    )
    _, warnings, thread = told(
        thread_with,
        call("there"),
        HELLO,
        answers=[yes],
        tools=[wanted],
        approval_policy=ApprovalPolicy.ON_REQUEST,
    )
    assert thread.outputs == ["there"]
    (warning,) = (text for text in warnings if "allow_always" in text)
    assert "allow_always() failed: RuntimeError: no idea (" in warning


@pytest.mark.parametrize(
    ("due", "fact"),
    [
        (fail_at_once, "due() failed: RuntimeError: no idea ("),
        (lambda self, status, turn: True, "due() failed: it returned bool instead of str ("),
    ],
)
def test_a_compactor_that_cannot_say_whether_it_is_due_is_not(thread_with, due, fact):
    made = type("Odd", (Slow,), {"name": "odd", "due": due})()
    result, warnings, _ = told(thread_with, compactors=[made])
    assert result.final_message == "Hello."
    (warning,) = (text for text in warnings if "'odd'" in text)
    assert warning.startswith(f"compactor 'odd' of plugin 'careless': {fact}")
    assert __file__ in warning


def test_an_interceptor_that_cannot_say_whether_it_applies_fails_the_turn(thread_with):
    result, _, thread = told(thread_with, interceptors=[interceptor(applies=fail_at_once)])
    assert (result.status, len(thread.requests)) == (Status.FAILED, 0)
    assert result.error.startswith(f"{GUARD}: applies() failed: RuntimeError: no idea (")
    assert __file__ in result.error
    assert result.error.endswith('. Fix the plugin, or disable it with `[framework] plugins.disabled = ["careless"]`.')


# ``input``, ``request``, ``before_tool``, ``after_tool``, ``after_item``: in order, and closed when they fail


@pytest.mark.parametrize(
    ("method", "fact"),
    [
        (fail, "input() failed: RuntimeError: no idea ("),
        (exit_, "input() failed: SystemExit: 3 ("),
        (nothing, "input() failed: it returned None instead of UserInput ("),
        (
            lambda self, *_: odd_input(items=("hi",)),
            "input() failed: it returned a UserInput that is wrong: its `items` has 'hi' at index 0",
        ),
        (
            lambda self, *_: odd_input(items=(), context="note"),
            "input() failed: it returned a UserInput that is wrong: its `context` is 'note', not Sequence[str] (",
        ),
    ],
)
def test_an_input_that_cannot_be_looked_at_is_refused_and_its_sender_is_told(thread_with, method, fact):
    result, _, thread = told(thread_with, interceptors=[interceptor(input=method)])
    (error,) = (event for event in result.events if isinstance(event, ErrorEvent))
    assert error.message.startswith(f"{GUARD}: {fact}")
    assert __file__ in error.message
    assert "Hi!" not in str(thread.history)
    assert len(thread.requests) == 0


async def odd_input(**fields):
    return UserInput(**fields)


@pytest.mark.parametrize(
    ("method", "fact"), [(fail, "RuntimeError: no idea ("), (nothing, "it returned None instead of ModelRequest (")]
)
def test_a_request_that_cannot_be_looked_at_is_not_sent(thread_with, method, fact):
    result, _, thread = told(thread_with, interceptors=[interceptor(request=method)])
    assert (result.status, len(thread.requests)) == (Status.FAILED, 0)
    assert result.error.startswith(f"{GUARD}: request() failed: {fact}")
    assert __file__ in result.error


@pytest.mark.parametrize(
    ("method", "fact"), [(fail, "RuntimeError: no idea ("), (nothing, "it returned None instead of Message (")]
)
def test_an_item_that_cannot_be_looked_at_is_shown_to_nobody(thread_with, method, fact):
    result, _, thread = told(thread_with, say("secret"), interceptors=[interceptor(after_item=method)])
    assert result.status is Status.FAILED
    assert result.error.startswith(f"{GUARD}: after_item() failed: {fact}")
    assert "secret" not in str(thread.events)
    assert "secret" not in str(thread.history)


@pytest.mark.parametrize("step", ["before_tool", "after_tool"])
@pytest.mark.parametrize(
    ("method", "fact"),
    [(fail, "RuntimeError: no idea"), (exit_, "SystemExit: 3"), (nothing, "it returned None instead of Tool")],
)
def test_a_call_that_cannot_be_looked_at_gives_an_error_and_names_the_interceptor(thread_with, step, method, fact):
    ran = []

    @tool
    def count() -> str:
        """Count."""
        ran.append(True)
        return "secret"

    guard = interceptor(**{step: method})
    _, warnings, thread = told(thread_with, call("count"), HELLO, tools=[count], interceptors=[guard])
    (output,) = thread.outputs
    assert output.startswith(f"interceptor 'guard' failed: {fact}")
    assert ran == ([] if step == "before_tool" else [True])
    (warning,) = (text for text in warnings if text.startswith(GUARD))
    assert warning.startswith(f"{GUARD}: {step}() failed: {fact}")
    assert __file__ in warning


def test_what_comes_before_goes_by_order_and_what_comes_after_in_reverse(thread_with):
    log = []

    def logging(name, order):
        def method(step):
            async def logged(self, *arguments):
                log.append(f"{step} {name}")
                return arguments[-2]

            return logged

        steps = ("input", "request", "after_item", "before_tool", "after_tool")
        return interceptor(name, order, **{step: method(step) for step in steps})

    told(thread_with, call("here"), tools=[here], interceptors=[logging("late", 9), logging("early", 1)])
    assert log[:2] == ["input early", "input late"]
    assert log[2:4] == ["request early", "request late"]
    assert log[4:8] == ["before_tool early", "before_tool late", "after_tool late", "after_tool early"]


def test_redact_that_fails_leaves_nothing_of_the_text(thread_with):
    guard = interceptor(redacts=True, redact=fail_at_once)
    _, _, thread = told(thread_with, call("here"), HELLO, tools=[here], interceptors=[guard])
    (output,) = thread.outputs
    assert output.startswith(f"[withheld: {GUARD} failed: RuntimeError: no idea]")


def test_nothing_of_a_call_leaves_it_unredacted(thread_with):
    @tool
    def spill(word: str) -> ToolOutput:
        """Spill."""
        return ToolOutput(word, details={word: [word, {"deep": [word]}, (word,)], "number": 3})

    guard = interceptor(redacts=True, redact=lambda self, text, turn: text.replace("s3cret", "***"))
    _, _, thread = told(thread_with, call("spill", word="s3cret"), HELLO, tools=[spill], interceptors=[guard])
    (end,) = (event for event in thread.events if isinstance(event, ToolCallEndEvent))
    assert end.details == {"***": ["***", {"deep": ["***"]}, ("***",)], "number": 3}
    assert thread.outputs == ["***"]
    assert "s3cret" not in repr([event for event in thread.events if isinstance(event, ToolCallBeginEvent)])


def test_what_a_tool_emits_is_redacted_and_nothing_is_streamed(thread_with):
    @tool
    def spill(context: ToolContext) -> str:
        """Spill."""
        context.progress("s3cret of a delta")
        context.emit(WarningEvent("the key is s3cret"))
        context.emit(AgentMessageContentDeltaEvent(context.thread_id, context.turn_id, "i", "s3cret of a delta"))
        return "done"

    guard = interceptor(redacts=True, redact=lambda self, text, turn: text.replace("s3cret", "***"))
    _, warnings, thread = told(thread_with, call("spill"), HELLO, tools=[spill], interceptors=[guard])
    assert "the key is ***" in warnings
    assert "of a delta" not in repr(thread.events)


def test_the_warning_of_a_tool_that_raises_is_redacted(thread_with):
    @tool
    def spill() -> str:
        """Spill."""
        raise RuntimeError("the key s3cret was refused")

    guard = interceptor(redacts=True, redact=lambda self, text, turn: text.replace("s3cret", "***"))
    _, warnings, thread = told(thread_with, call("spill"), HELLO, tools=[spill], interceptors=[guard])
    assert any("the key *** was refused" in warning for warning in warnings)
    assert "s3cret" not in repr([warnings, thread.outputs])


@pytest.mark.parametrize(
    ("alone", "order"),
    [
        (lambda *_: True, ["1 begins", "1 ends", "2 begins", "2 ends"]),
        (fail_at_once, ["1 begins", "1 ends", "2 begins", "2 ends"]),
        (lambda *_: False, ["1 begins", "2 begins", "1 ends", "2 ends"]),
    ],
    ids=["yes", "fails", "no"],
)
def test_a_call_runs_alone_if_an_interceptor_says_so_or_cannot_say(thread_with, alone, order):
    log = []

    @tool(parallel_safe=True)
    async def slowly(number: int) -> str:
        """Work."""
        log.append(f"{number} begins")
        await asyncio.sleep(0.05)
        log.append(f"{number} ends")
        return "done"

    guard = interceptor(alone=alone)
    two = call("slowly", number=1) + call("slowly", number=2)
    result, warnings, _ = told(thread_with, two, HELLO, tools=[slowly], interceptors=[guard])
    assert result.final_message == "Hello."
    assert log == order
    failed = any(text.startswith(f"{GUARD}: alone() failed: RuntimeError: no idea (") for text in warnings)
    assert failed is (alone is fail_at_once)


@pytest.mark.parametrize(
    ("method", "fact"),
    [(fail, "RuntimeError: no idea ("), (lambda self, *_: number(), "it returned int instead of str (")],
)
def test_a_stop_that_fails_is_told_and_the_turn_ends(thread_with, method, fact):
    asked = []

    async def stop(self, outcome, turn):
        asked.append(outcome.last_agent_message)

    guards = [interceptor(stop=method), interceptor("next", 200, stop=stop)]
    result, warnings, _ = told(thread_with, interceptors=guards)
    assert (result.status, asked) == (Status.COMPLETED, ["Hello."])
    (warning,) = (text for text in warnings if text.startswith(GUARD))
    assert warning.startswith(f"{GUARD}: stop() failed: {fact}")


async def number():
    return 3


def test_stop_makes_a_turn_go_on_at_most_25_times(thread_with):
    async def stop(self, outcome, turn):
        return "Go on."

    _, _, thread = told(thread_with, *[HELLO] * 40, interceptors=[interceptor(stop=stop)])
    assert len(thread.requests) == 26


def test_a_late_stop_changes_nothing_after_an_interrupt(thread_with):
    async def stop(self, outcome, turn):
        await ignore_cancellation()
        return "Go on."

    async def story():
        async with thread_with(interceptors=[interceptor(stop=stop)]) as thread:
            thread.start("Hi!", HELLO)
            await asyncio.sleep(0.1)
            await thread.client.interrupt()
            outcome = await thread.client.settled()
            await asyncio.sleep(1.6)
            return outcome.status, len(thread.requests)

    assert play(story) == (Status.INTERRUPTED, 1)


# ``before_compact``, ``compact``, ``after_compact``


class Due(Compactor):
    name = "due"

    def due(self, status, turn):
        return "full"

    async def compact(self, turn, reason):
        return Compaction(items=[user_message("short")], message="short")


def compacting(**members):
    return type("Odd", (Due,), members)()


@pytest.mark.parametrize("method", [fail, exit_])
def test_a_compaction_that_is_prevented_is_told_and_the_turn_goes_on(thread_with, method):
    result, _, thread = told(thread_with, compactors=[Due()], interceptors=[interceptor(before_compact=method)])
    assert result.final_message == "Hello."
    assert "short" not in str(thread.history)
    texts = [event.message for event in result.events if isinstance(event, WarningEvent)]
    assert any(f"could not be compacted: {GUARD}: before_compact() failed: " in text for text in texts)


def test_after_compact_that_fails_is_told_and_the_compaction_stays(thread_with):
    result, warnings, thread = told(thread_with, compactors=[Due()], interceptors=[interceptor(after_compact=fail)])
    assert result.final_message == "Hello."
    assert "short" in str(thread.history)
    assert any(text.startswith(f"{GUARD}: after_compact() failed: RuntimeError: no idea (") for text in warnings)


async def compaction(**fields):
    return Compaction(**fields)


@pytest.mark.parametrize(
    ("compact", "fact"),
    [
        (fail, "RuntimeError: no idea ("),
        (exit_, "SystemExit: 3 ("),
        (nothing, "it returned None instead of Compaction ("),
        (
            lambda self, *_: compaction(items="short", message=""),
            "its compaction's `items` is str, not a list of items (",
        ),
        (
            lambda self, *_: compaction(items=["short"], message=""),
            "its compaction's `items` has str in it, which is not a conversation item",
        ),
        (
            lambda self, *_: compaction(items=[], message=None),
            "its compaction's `message` returned None instead of str (",
        ),
        (lambda self, *_: str(self), "<lambda> is not async ("),
    ],
)
def test_a_compactor_that_fails_is_told_and_the_history_stays(thread_with, compact, fact):
    result, _, thread = told(thread_with, compactors=[compacting(compact=compact)])
    assert result.final_message == "Hello."
    assert "Hi!" in str(thread.history)
    errors = [event.message for event in result.events if "could not be compacted" in str(event)]
    (error,) = set(errors)
    assert error.startswith(
        f"the conversation could not be compacted: compactor 'due' of plugin 'careless': compact() failed: {fact}"
    )
    assert __file__ in error
    assert error.endswith("Choose another with `[framework] compactor`.")


def test_a_late_compactor_changes_nothing_after_an_interrupt(thread_with):
    async def compact(self, turn, reason):
        await ignore_cancellation()
        return Compaction(items=[], message="too late")

    async def story():
        async with thread_with(compactors=[compacting(compact=compact)]) as thread:
            thread.start("Hi!", HELLO)
            await asyncio.sleep(0.1)
            await thread.client.interrupt()
            outcome = await thread.client.settled()
            await asyncio.sleep(1.6)
            return outcome.status, "Hi!" in str(thread.history), len(thread.requests)

    assert play(story) == (Status.INTERRUPTED, True, 0)


# Reviewers


def reviewer(name="judge", order=100, review=fail):
    return type("Judge", (ApprovalReviewer,), {"name": name, "order": order, "review": review})()


@pytest.mark.parametrize(
    ("review", "fact"),
    [
        (fail, "failed: RuntimeError: no idea ("),
        (exit_, "failed: SystemExit: 3 ("),
        (lambda self, *_: number(), "failed: it returned int instead of ReviewDecision ("),
        (late, "did not end within 0.3 s ("),
        (late_and_deaf, "did not end within 0.3 s ("),
    ],
)
def test_a_reviewer_that_fails_or_hangs_denies(thread_with, review, fact):
    wanted = tool_with(needs_approval=lambda call, facts: Approval(question="May I?"))

    async def story():
        async with thread_with(
            answer(ToolApprovalRequestEvent, ReviewDecision(Decision.APPROVED)),
            reviewers=[reviewer(review=review)],
            tools=[wanted],
            approval_policy=ApprovalPolicy.ON_REQUEST,
        ) as thread:
            await thread.turn("Hi!", call("there"), HELLO)
            await asyncio.sleep(1.5 if review is late_and_deaf else 0)
            return thread.outputs, list(thread.warnings)

    outputs, warnings = play(story)
    assert outputs[0] in (
        "rejected: the approval reviewer 'judge' failed",
        "rejected: the approval reviewer 'judge' did not answer in time",
    )
    (warning,) = (text for text in warnings if "'judge'" in text)
    assert warning.startswith(f"approval reviewer 'judge' of plugin 'careless': review() {fact}")
    assert __file__ in warning
    assert "). The request is denied. " in warning


def test_an_interrupt_ends_a_review(thread_with):
    wanted = tool_with(needs_approval=lambda call, facts: Approval(question="May I?"))

    async def story():
        async with thread_with(
            reviewers=[reviewer(review=late)], tools=[wanted], approval_policy=ApprovalPolicy.ON_REQUEST
        ) as thread:
            thread.start("Hi!", call("there"), HELLO)
            await asyncio.sleep(0.1)
            await thread.client.interrupt()
            return (await thread.client.settled()).status

    assert play(story, 5) is Status.INTERRUPTED


def test_reviewers_are_asked_in_order_and_the_first_answer_counts(thread_with):
    asked = []

    def answering(name, decision):
        async def review(self, request, turn):
            asked.append(name)
            return decision

        return review

    reviewers = [
        reviewer("third", 3, answering("third", ReviewDecision(Decision.DENIED))),
        reviewer("first", 1, answering("first", None)),
        reviewer("second", 2, answering("second", ReviewDecision(Decision.APPROVED))),
    ]
    wanted = tool_with(needs_approval=lambda call, facts: Approval(question="May I?"))
    _, _, thread = told(
        thread_with,
        call("there"),
        HELLO,
        reviewers=reviewers,
        tools=[wanted],
        approval_policy=ApprovalPolicy.ON_REQUEST,
    )
    assert (asked, thread.outputs) == (["first", "second"], ["there"])


@pytest.mark.parametrize(
    ("result", "fact"),
    [
        (None, "it returned None, not text or a ToolOutput"),
        (ToolOutput(3), "it returned int, not text or a ToolOutput"),  # type: ignore[arg-type]  # on purpose
        (ToolOutput(["text"]), "it returned list, not text or a ToolOutput"),  # type: ignore[arg-type]  # on purpose
        (ToolOutput((OutputText("fine"), "odd")), "it returned tuple, not text or a ToolOutput"),  # type: ignore[arg-type]
        (Message("user", ()), "it returned Message, not text or a ToolOutput"),
    ],
)
def test_a_tool_that_returns_something_else_is_told_to_model_and_author(thread_with, result, fact):
    class Odd:
        spec = tool_with().spec

        async def run(self, call, context):
            return result

    _, warnings, thread = told(thread_with, call("there"), HELLO, tools=[Odd()])
    assert thread.outputs == [f"there failed: {fact}"]
    assert f"tool 'there' of plugin 'careless': {fact}{place(Odd.run)}. Return a string or a ToolOutput." in warnings
