"""What tools ask to be allowed: who is asked, what an answer covers, and what happens where the tool itself fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from codex_framework import (
    Approval,
    ApprovalReviewer,
    Component,
    Decision,
    FunctionSpec,
    Interceptor,
    ReviewDecision,
    ThreadComponent,
    ThreadContext,
    Tool,
    ToolApprovalRequestEvent,
    ToolCall,
    ToolContext,
    ToolError,
    TurnContext,
    TurnFacts,
    freeform_tool,
    tool,
)
from codex_framework.contract.protocol.events import ToolCallBeginEvent, ToolCallEndEvent, WarningEvent
from codex_framework.contract.protocol.items import is_output
from codex_framework.testing import Offer
from codex_framework.testing.replies import call, custom_call, say

ON_REQUEST = ('approval_policy="on-request"',)


DEPLOY = Approval(question="Deploy?", key="deploy")


class Deploy(Tool):
    """A tool of the kind that has to be asked about."""

    spec = FunctionSpec("deploy", "Deploy.", {"type": "object", "properties": {"to": {"type": "string"}}})

    def __init__(self, approval: Any = DEPLOY, *, saving: Any = None) -> None:
        self.approval = approval
        self.saving = saving
        self.ran: list[str] = []
        self.saved: list[str] = []

    def needs_approval(self, call: ToolCall, turn: TurnFacts) -> Approval | None:
        assert isinstance(turn, TurnFacts)
        if isinstance(self.approval, Exception):
            raise self.approval
        return self.approval  # type: ignore[no-any-return]

    async def allow_always(self, call: ToolCall, turn: TurnContext) -> None:
        self.saved.append(f"{call.arguments} in {turn.facts.turn_id == turn.thread.turn.turn_id}")  # type: ignore[union-attr]
        if self.saving is not None:
            raise self.saving

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        self.ran.append(call.arguments)
        return "deployed"


class Asked:
    """A person who answers approvals in order, the last answer over and over."""

    def __init__(self, *decisions: Decision | ReviewDecision) -> None:
        self.decisions = [ReviewDecision(one) if isinstance(one, Decision) else one for one in decisions]
        self.requests: list[ToolApprovalRequestEvent] = []

    async def __call__(self, request: Any) -> ReviewDecision:
        assert isinstance(request, ToolApprovalRequestEvent)
        self.requests.append(request)
        return self.decisions[min(len(self.requests), len(self.decisions)) - 1]


class Ran:
    def __init__(self, outputs: list[Any], warnings: list[str]) -> None:
        self.outputs = outputs
        self.warnings = warnings


def run(
    make_thread: Any,
    tools: Sequence[Any],
    person: Asked | None,
    replies: Sequence[Any] = (call("deploy", to="prod"), say("done")),
    config: Sequence[str] = ON_REQUEST,
    **offers: Any,
) -> Ran:
    async def driven() -> Ran:
        async with make_thread(replies, tools=tools, config=config, **offers) as thread:
            result = await thread.run("go", on_request=person)
            outputs = [item.output for item in thread.history.items if is_output(item)]
            warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
            return Ran(outputs, [text for text in warnings if "Model metadata" not in text])

    return asyncio.run(driven())


def test_a_call_that_needs_no_approval_runs_unasked(make_thread: Any) -> None:
    person = Asked(Decision.DENIED)
    assert run(make_thread, [Deploy(None)], person).outputs == ["deployed"]
    assert person.requests == []


def test_a_person_is_asked_what_the_tool_says_and_may_allow_it(make_thread: Any) -> None:
    person = Asked(Decision.APPROVED)
    deploy = Deploy(Approval(question="Deploy to prod?", details={"to": "prod"}))
    assert run(make_thread, [deploy], person).outputs == ["deployed"]
    (request,) = person.requests
    assert (request.tool, request.approval.question, request.arguments) == (
        "deploy",
        "Deploy to prod?",
        '{"to": "prod"}',
    )
    assert request.details == {"tool": "deploy", "arguments": '{"to": "prod"}', "to": "prod"}


def test_the_details_of_a_tool_cannot_stand_in_the_place_of_the_call(make_thread: Any) -> None:
    person = Asked(Decision.DENIED)
    run(make_thread, [Deploy(Approval(question="?", details={"tool": "look", "arguments": "{}"}))], person)
    (request,) = person.requests
    assert request.details == {"tool": "deploy", "arguments": '{"to": "prod"}'}


@pytest.mark.parametrize("decision", [Decision.DENIED, Decision.TIMED_OUT])
def test_a_refused_call_does_not_run(make_thread: Any, decision: Decision) -> None:
    deploy = Deploy()
    ran = run(make_thread, [deploy], Asked(ReviewDecision(decision, message="not on a Friday")))
    assert (ran.outputs, deploy.ran) == (["not on a Friday"], [])


@pytest.mark.parametrize(("message", "told"), [("stop at once", ["stop at once"]), (None, [])])
def test_an_answer_that_ends_the_turn_says_why_if_it_does(
    make_thread: Any, message: str | None, told: list[str]
) -> None:
    deploy = Deploy()
    ran = run(make_thread, [deploy], Asked(ReviewDecision(Decision.ABORT, message=message)))
    assert (ran.warnings, deploy.ran) == (told, [])


def test_without_anybody_to_ask_a_call_is_refused(make_thread: Any) -> None:
    deploy = Deploy()
    nobody = "rejected: this needs an approval, and no user can be asked for it"
    assert run(make_thread, [deploy], None).outputs == [nobody]
    assert deploy.ran == []


@pytest.mark.parametrize(
    "config",
    [
        'approval_policy="never"',
        "approval_policy={granular={sandbox_approval=false, rules=true, mcp_elicitations=true}}",
    ],
)
def test_where_the_approval_policy_lets_nobody_be_asked_a_call_is_refused(make_thread: Any, config: str) -> None:
    deploy, person = Deploy(), Asked(Decision.APPROVED)
    assert run(make_thread, [deploy], person, config=(config,)).outputs == [
        "deploy needs an approval, but the approval policy does not allow asking"
    ]
    assert (deploy.ran, person.requests) == ([], [])


def test_an_answer_for_the_session_covers_calls_with_the_same_key(make_thread: Any) -> None:
    replies = [call("deploy", to="a"), call("deploy", to="b"), say("done")]
    person = Asked(Decision.APPROVED_FOR_SESSION)
    assert run(make_thread, [Deploy()], person, replies).outputs == ["deployed", "deployed"]
    assert len(person.requests) == 1


@pytest.mark.parametrize(("key", "decision"), [(None, Decision.APPROVED_FOR_SESSION), ("deploy", Decision.APPROVED)])
def test_other_answers_cover_one_call(make_thread: Any, key: str | None, decision: Decision) -> None:
    replies = [call("deploy", to="a"), call("deploy", to="a"), say("done")]
    person = Asked(decision)
    run(make_thread, [Deploy(Approval(question="?", key=key))], person, replies)
    assert len(person.requests) == 2


def test_an_answer_for_the_session_does_not_cover_another_tool_with_the_same_key(make_thread: Any) -> None:
    class Other(Deploy):
        spec = Deploy.spec.evolve(name="other")

    person = Asked(Decision.APPROVED_FOR_SESSION)
    run(make_thread, [Deploy(), Other()], person, [call("deploy", to="a"), call("other", to="a"), say("done")])
    assert [request.tool for request in person.requests] == ["deploy", "other"]


def test_an_answer_for_the_session_does_not_cover_a_tool_of_this_name_of_another_plugin(make_kernel: Any) -> None:
    """Tools come and go with the parts of a thread."""
    tools: dict[str, list[Tool]] = {"one": [Deploy()], "two": []}

    class Part(ThreadComponent):
        def __init__(self, own: str) -> None:
            self._own = own

        def tools(self, turn: TurnFacts) -> Sequence[Tool]:
            return tools[self._own]

    class Giving(Component):
        def __init__(self, name: str) -> None:
            self.name = name  # type: ignore[misc]

        def for_thread(self, thread: ThreadContext) -> ThreadComponent:
            return Part(self.name)

    person = Asked(Decision.APPROVED_FOR_SESSION)
    plugins = [Offer(name=name, components=[Giving(name)]) for name in tools]

    async def main() -> None:
        replies = [reply for _ in range(3) for reply in (call("deploy"), say("done"))]
        async with make_kernel(replies, plugins=plugins, config=ON_REQUEST, entry_points=()) as kernel:
            thread = await kernel.start_thread()
            await thread.run("go", on_request=person)
            await thread.run("go", on_request=person)
            assert len(person.requests) == 1
            tools["one"], tools["two"] = [], [Deploy()]
            await thread.run("go", on_request=person)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert len(person.requests) == 2


def test_always_is_saved_by_the_tool_if_it_offered_that(make_thread: Any) -> None:
    offered, not_offered = Deploy(Approval(question="?", always=True)), Deploy(Approval(question="?"))
    for deploy in (offered, not_offered):
        assert run(make_thread, [deploy], Asked(Decision.APPROVED_ALWAYS)).outputs == ["deployed"]
    assert offered.saved == ['{"to": "prod"} in True']
    assert not_offered.saved == []


def test_an_answer_that_cannot_be_saved_is_told_and_the_call_runs(make_thread: Any) -> None:
    deploy = Deploy(Approval(question="?", always=True), saving=OSError("disk full"))
    ran = run(make_thread, [deploy], Asked(Decision.APPROVED_ALWAYS))
    assert ran.outputs == ["deployed"]
    (warning,) = ran.warnings
    assert "deploy" in warning
    assert "OSError: disk full" in warning
    assert f"{__file__}, line " in warning


def test_always_of_a_tool_that_saves_nothing_is_an_approval(make_thread: Any) -> None:
    class Plain:
        spec = Deploy.spec

        def needs_approval(self, call: ToolCall, turn: TurnFacts) -> Approval:
            return Approval(question="?", always=True)

        async def run(self, call: ToolCall, context: ToolContext) -> str:
            return "deployed"

    ran = run(make_thread, [Plain()], Asked(Decision.APPROVED_ALWAYS))
    assert (ran.outputs, ran.warnings) == (["deployed"], [])


@pytest.mark.parametrize("broken", [ValueError("no idea"), "yes", True])
@pytest.mark.parametrize(
    ("decision", "output"), [(Decision.APPROVED, "deployed"), (Decision.DENIED, "rejected by user")]
)
def test_a_tool_that_cannot_say_whether_it_needs_an_approval_is_asked_about(
    make_thread: Any, broken: Any, decision: Decision, output: str
) -> None:
    deploy, person = Deploy(broken), Asked(decision)
    ran = run(make_thread, [deploy], person)
    assert ran.outputs == [output]
    assert person.requests[0].approval == Approval(
        question="May deploy be called? (It failed to tell whether it needs an approval.)"
    )
    (warning,) = ran.warnings
    assert "deploy" in warning
    assert "needs_approval()" in warning


def test_a_tool_that_says_a_call_cannot_be_made_is_believed_and_nobody_is_asked(make_thread: Any) -> None:
    deploy, person = Deploy(ToolError("there is no such place")), Asked(Decision.APPROVED)
    ran = run(make_thread, [deploy], person)
    assert (ran.outputs, person.requests, deploy.ran, ran.warnings) == (["there is no such place"], [], [], [])


def test_reviewers_answer_before_people(make_thread: Any) -> None:
    class Reviewer(ApprovalReviewer):
        name = "no"

        async def review(self, request: Any, turn: TurnContext) -> ReviewDecision:
            return ReviewDecision(Decision.DENIED, message=f"no {request.details['to']} today")

    deploy, person = Deploy(Approval(question="?", details={"to": "prod"})), Asked(Decision.APPROVED)
    assert run(make_thread, [deploy], person, reviewers=[Reviewer()]).outputs == ["no prod today"]
    assert (person.requests, deploy.ran) == ([], [])


def test_a_reviewer_may_end_the_turn_without_a_word(make_thread: Any) -> None:
    class Reviewer(ApprovalReviewer):
        name = "end"

        async def review(self, request: Any, turn: TurnContext) -> ReviewDecision:
            return ReviewDecision(Decision.ABORT)

    deploy = Deploy()
    assert run(make_thread, [deploy], Asked(Decision.APPROVED), reviewers=[Reviewer()]).warnings == []
    assert deploy.ran == []


def test_approval_is_asked_for_the_call_as_interceptors_have_left_it(make_thread: Any) -> None:
    class ToStaging(Interceptor):
        name = "to-staging"

        async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
            return turn.with_arguments(call, {"to": "staging"})

    places = []

    def decide(call: ToolCall, turn: TurnFacts) -> Approval:
        places.append(call.arguments)
        return Approval(question="?")

    @tool(needs_approval=decide)
    def deploy(to: str) -> str:
        """Deploy."""
        return to

    person = Asked(Decision.APPROVED)
    assert run(make_thread, [deploy], person, interceptors=[ToStaging()]).outputs == ["staging"]
    assert (places, person.requests[0].arguments) == (['{"to": "staging"}'], '{"to": "staging"}')


def test_a_decorated_function_may_need_an_approval_for_each_call(make_thread: Any) -> None:
    @tool(needs_approval=True)
    def deploy(to: str) -> str:
        """Deploy."""
        return f"deployed to {to}"

    person = Asked(Decision.APPROVED_FOR_SESSION)
    replies = [call("deploy", to="a"), call("deploy", to="b"), say("done")]
    assert run(make_thread, [deploy], person, replies).outputs == ["deployed to a", "deployed to b"]
    assert [request.approval for request in person.requests] == [
        Approval(question="Allow the tool deploy to run?", key="deploy")
    ]


def test_a_decorated_function_decides_by_a_function(make_thread: Any) -> None:
    def decide(call: ToolCall, turn: TurnFacts) -> Approval | None:
        return Approval(question="To prod?") if "prod" in call.arguments else None

    @tool(needs_approval=decide)
    def deploy(to: str) -> str:
        """Deploy."""
        return f"deployed to {to}"

    person = Asked(Decision.DENIED)
    replies = [call("deploy", to="staging"), call("deploy", to="prod"), say("done")]
    assert run(make_thread, [deploy], person, replies).outputs == ["deployed to staging", "rejected by user"]


def test_nobody_is_asked_about_arguments_that_are_invalid(make_thread: Any) -> None:
    @tool(needs_approval=True)
    def deploy(to: str) -> str:
        """Deploy."""
        raise AssertionError

    person = Asked(Decision.APPROVED)
    (output,) = run(make_thread, [deploy], person, [call("deploy", too="prod"), say("done")]).outputs
    assert "unknown field `too`, expected `to`" in output
    assert person.requests == []


def test_a_freeform_function_may_need_an_approval(make_thread: Any) -> None:
    @freeform_tool(grammar="start: /.+/", needs_approval=True)
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    person = Asked(Decision.APPROVED, Decision.DENIED)
    replies = [custom_call("shout", "hi"), custom_call("shout", "ho"), say("done")]
    assert run(make_thread, [shout], person, replies).outputs == ["HI", "rejected by user"]


def _events(make_thread: Any, tool: Tool, *decisions: Decision) -> tuple[list[Any], list[str]]:
    async def driven() -> tuple[list[Any], list[str]]:
        replies = (call("deploy", to="prod"), say("done"))
        async with make_thread(replies, tools=[tool], config=ON_REQUEST) as thread:
            result = await thread.run("go", on_request=Asked(*decisions))
            return result.events, [event.message for event in result.events if isinstance(event, WarningEvent)]

    return asyncio.run(driven())


def test_clients_see_a_refused_call_from_its_begin_to_its_end(make_thread: Any) -> None:
    events, _ = _events(make_thread, Deploy(), Decision.DENIED)
    (begin,) = (event for event in events if isinstance(event, ToolCallBeginEvent))
    (end,) = (event for event in events if isinstance(event, ToolCallEndEvent))
    assert (begin.tool, begin.arguments) == ("deploy", '{"to": "prod"}')
    assert (end.call_id, end.success, end.output) == (begin.call_id, False, "rejected by user")


class Telling(Deploy):
    """A tool that tells clients itself about its calls."""

    tells_clients = True

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__()
        self.fault = fault
        self.told: list[Any] = []

    def refused(self, call: ToolCall, context: ToolContext, why: str) -> None:
        self.told.append((call.arguments, context.call_id == call.call_id, why))
        if self.fault is not None:
            raise self.fault


@pytest.mark.parametrize("decision", [Decision.DENIED, Decision.APPROVED])
def test_a_tool_that_tells_clients_itself_learns_of_a_refused_call_only(make_thread: Any, decision: Decision) -> None:
    telling = Telling()
    events, _ = _events(make_thread, telling, decision)
    refused = [('{"to": "prod"}', True, "rejected by user")]
    assert telling.told == (refused if decision is Decision.DENIED else [])
    assert not [event for event in events if isinstance(event, (ToolCallBeginEvent, ToolCallEndEvent))]


def test_a_tool_that_cannot_tell_of_a_refused_call_is_named(make_thread: Any) -> None:
    telling = Telling(ValueError("no words"))
    _, warnings = _events(make_thread, telling, Decision.DENIED)
    assert any("refused" in text and "no words" in text and "Clients do not see the call." in text for text in warnings)
    assert telling.ran == []
