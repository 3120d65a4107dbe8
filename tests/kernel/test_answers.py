"""Answers in JSON: each form is read, and what does not fit is told with its field."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from codex_framework import Request, ReviewDecision, ThreadError, ToolApprovalRequestEvent, Value
from codex_framework.contract.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
)
from codex_framework.contract.protocol.events.requests import Approval
from codex_framework.contract.protocol.policies import Decision
from codex_framework.toolkit.answers import read_answer
from codex_plugin_dynamic_tools.calls import DynamicToolAnswer, DynamicToolCallRequest, TextContent
from codex_plugin_mcp.questions import Elicitation, ElicitationAnswer, ElicitationRequest
from codex_plugin_request_user_input.questions import Answer, RequestUserInputEvent, UserInputResponse


class Size(Value):
    width: int
    height: int = 1


class HowLarge(Request[Size], kw_only=True):
    type: ClassVar[str] = "how_large"
    answer_type = Size


class HowMany(Request[int], kw_only=True):
    type: ClassVar[str] = "how_many"
    answer_type = int


COMMAND = ExecApprovalRequestEvent(call_id="c", turn_id="t", command=("ls",), cwd="/", started_at_ms=1)
PATCH = ApplyPatchApprovalRequestEvent(call_id="c", turn_id="t", started_at_ms=1, changes={})
TOOL = ToolApprovalRequestEvent(call_id="c", turn_id="t", tool="deploy", approval=Approval(question="Deploy?"))
PERMISSIONS = RequestPermissionsEvent(call_id="c", turn_id="t", started_at_ms=1, cwd="/", permissions={})
FORM = ElicitationRequest(server_name="s", id="1", request=Elicitation(mode="form", message="Who?"))
QUESTION = RequestUserInputEvent(call_id="c", turn_id="t", questions=())
CALL = DynamicToolCallRequest(call_id="c", turn_id="t", started_at_ms=1, tool="add", arguments={})
AMENDMENT = {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["git", "status"]}}
RULE = {"host": "example.com", "action": "deny"}


@pytest.mark.parametrize("request_", [COMMAND, PATCH, TOOL])
@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        ({"decision": "approved"}, ReviewDecision(Decision.APPROVED)),
        ({"decision": "approved_for_session"}, ReviewDecision(Decision.APPROVED_FOR_SESSION)),
        ({"decision": "denied", "message": "Not today."}, ReviewDecision(Decision.DENIED, message="Not today.")),
        ({"decision": AMENDMENT}, ReviewDecision(Decision.APPROVED, execpolicy_amendment=("git", "status"))),
        (
            {"decision": {"network_policy_amendment": {"network_policy_amendment": RULE}}},
            ReviewDecision(Decision.DENIED, network_amendment=RULE),
        ),
    ],
)
def test_an_approval_is_a_decision_and_a_message(request_: Any, raw: object, answer: object) -> None:
    assert read_answer(request_, raw) == answer


@pytest.mark.parametrize("scope", ["turn", "session"])
def test_permissions_are_granted_for_a_turn_or_a_session(scope: str) -> None:
    answer = read_answer(PERMISSIONS, {"permissions": {"network": {"enabled": True}}, "scope": scope})
    assert answer.granted is not None
    assert answer.granted.network
    assert answer.decision is (Decision.APPROVED_FOR_SESSION if scope == "session" else Decision.APPROVED)
    assert read_answer(PERMISSIONS, {"permissions": {}, "scope": scope}) == ReviewDecision(Decision.DENIED)


@pytest.mark.parametrize(
    ("request_", "raw", "answer"),
    [
        (
            FORM,
            {"decision": "accept", "content": {"name": "Ada"}},
            ElicitationAnswer("accept", content={"name": "Ada"}),
        ),
        (QUESTION, {"answers": {"q": {"answers": ["yes"]}}}, UserInputResponse({"q": Answer(("yes",))})),
        (
            CALL,
            {"content_items": [{"type": "inputText", "text": "3"}], "success": True},
            DynamicToolAnswer((TextContent("3"),), success=True),
        ),
        (HowLarge(), {"width": 3}, Size(3)),
        (HowMany(), 3, 3),
    ],
)
def test_other_requests_are_answered_with_the_fields_of_their_answer(
    request_: Any, raw: object, answer: object
) -> None:
    assert read_answer(request_, raw) == answer


@pytest.mark.parametrize(
    ("request_", "raw", "fact"),
    [
        (COMMAND, None, "expected an object, got NoneType) @ answer"),
        (COMMAND, "approved", "expected an object, got str) @ answer"),
        (COMMAND, {}, "required field missing @ answer.decision"),
        (COMMAND, {"decision": "yes"}, "unknown decision 'yes', expected one of approved, approved_for_session,"),
        (COMMAND, {"decision": 1}, "@ answer.decision"),
        (COMMAND, {"decision": "denied", "message": 1}, "@ answer.message"),
        (COMMAND, {"decision": "approved", "decison": "denied"}, "unknown field @ answer.decison"),
        (COMMAND, {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": "ls"}}}, "decision"),
        (COMMAND, {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": []}}}, "decision"),
        (COMMAND, {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": [1]}}}, "decision"),
        (COMMAND, {"decision": {"network_policy_amendment": {"network_policy_amendment": {}}}}, "answer.decision"),
        (
            COMMAND,
            {"decision": {"network_policy_amendment": {"network_policy_amendment": {**RULE, "action": "maybe"}}}},
            "answer.decision",
        ),
        (PERMISSIONS, {"permissions": {}, "scope": "for ever"}, "the scope is 'for ever'"),
        (PERMISSIONS, {"permissions": {"network": {"enabled": 1}}}, "network.enabled must be true or false"),
        (PERMISSIONS, {"decision": "approved"}, "unknown field @ answer.decision"),
        (FORM, {"decision": "maybe"}, "expected one of accept, decline, cancel, got 'maybe' @ answer.decision"),
        (QUESTION, {"answers": {"q": {"answers": "yes"}}}, "@ answer.answers['q']"),
        (CALL, {"content_items": [{"type": "video"}]}, "unknown variant 'video'"),
        (HowLarge(), {"width": "3"}, "expected int @ answer.width"),
        (HowLarge(), {"width": 3, "depth": 1}, "unknown field @ answer.depth"),
        (HowMany(), True, "@ answer"),
    ],
)
def test_what_does_not_fit_is_told_with_its_field(request_: Any, raw: object, fact: str) -> None:
    with pytest.raises(ThreadError) as caught:
        read_answer(request_, raw)
    assert fact in str(caught.value)
    assert caught.value.slug == "bad-request"
