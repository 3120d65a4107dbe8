"""Requests of a thread as elicitations, and what the answers of clients mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest

from codex_framework import (
    Approval,
    ApprovalRequest,
    Decision,
    Request,
    ReviewDecision,
    ToolApprovalRequestEvent,
    Value,
)
from codex_framework.contract.protocol.events import (
    AddFile,
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_mcp_server.approvals import answer_of, elicitation, needs_page

IDS = {"call_id": "call", "turn_id": "turn"}


def asked(request: Request[Any]) -> dict[str, Any]:
    return elicitation(request, thread_id="thread", event_id="event", tool_call_id="7")


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


COMMAND = ExecApprovalRequestEvent(
    **IDS,
    command=("git", "push", "it's"),
    cwd="/work",
    started_at_ms=0,
    proposed_execpolicy_amendment=("git", "push"),
    proposed_network_policy_amendments=({"host": "example.com", "action": "allow"},),
)


def test_a_command() -> None:
    params = asked(COMMAND)
    assert params["message"].splitlines() == [
        """Allow Codex to run `git push 'it'"'"'s'` in `/work`?""",
        "“For this session” covers the same command in the same folder.",
        "A rule that an answer can save for all sessions: allow the host `example.com`.",
        "“Do not ask again” allows every command that begins with `git push`, in all sessions.",
    ]
    assert params["codex_elicitation"] == "exec-approval"
    assert params["codex_command"] == ["git", "push", "it's"]
    assert (params["threadId"], params["codex_event_id"], params["codex_mcp_tool_call_id"]) == ("thread", "event", "7")
    always = ReviewDecision(Decision.APPROVED, execpolicy_amendment=("git", "push"))
    assert answer_of(COMMAND, accept(decision="approved_execpolicy_amendment")) == always
    wire = {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["git", "push"]}}
    assert answer_of(COMMAND, {"decision": wire}) == always
    rule = {"host": "example.com", "action": "allow"}
    network = {"network_policy_amendment": {"network_policy_amendment": rule}}
    assert answer_of(COMMAND, {"decision": network}) == ReviewDecision(Decision.APPROVED, network_amendment=rule)


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"decision": None},
        {"decision": "approve"},
        {"decision": "approved_always"},
        {"decision": "timed_out"},
        {"decision": ["approved"]},
        {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["git"]}}},
        {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": []}}},
        {"decision": {"approved_execpolicy_amendment": {}}},
        {"decision": {"network_policy_amendment": {"network_policy_amendment": {"host": "*", "action": "allow"}}}},
        {"action": "accept"},
        {"action": "accept", "content": "approved"},
        {"action": "approve", "decision": "approved"},
        accept(decision="yes"),
        accept(answer="approved"),
    ],
)
def test_what_cannot_be_read_is_no_answer(result) -> None:
    assert answer_of(COMMAND, result) is None


def test_closing_the_form_decides_against_whatever_else_is_said() -> None:
    approved = {"decision": "approved", "content": {"decision": "approved"}}
    assert answer_of(COMMAND, {"action": "decline", **approved}) == ReviewDecision(Decision.DENIED)
    assert answer_of(COMMAND, {"action": "cancel", **approved}) == ReviewDecision(Decision.ABORT)
    assert answer_of(COMMAND, {**accept(decision="denied"), "decision": "approved"}) == ReviewDecision(Decision.DENIED)


def test_only_offered_decisions_count() -> None:
    once = COMMAND.evolve(available_decisions=("approved", "abort"), proposed_execpolicy_amendment=None)
    form = asked(once)["requestedSchema"]["properties"]["decision"]
    assert form["enum"] == ["approved", "denied", "abort"]
    assert len(form["enumNames"]) == 3
    assert answer_of(once, accept(decision="approved_for_session")) is None
    assert answer_of(once, accept(decision="approved_execpolicy_amendment")) is None
    assert answer_of(once, accept(decision="approved")) == ReviewDecision(Decision.APPROVED)


def test_a_patch() -> None:
    patch = ApplyPatchApprovalRequestEvent(
        **IDS, started_at_ms=0, changes={"/work/a": AddFile("hi\n")}, reason="Needed.", grant_root="/work"
    )
    params = asked(patch)
    assert params["message"].splitlines() == [
        "Allow Codex to apply proposed code changes?",
        "add: /work/a",
        "“For this session” lets Codex write everything in `/work`.",
        "The model's reason: Needed.",
    ]
    assert params["codex_without_sandbox"] is False
    assert params["codex_elicitation"] == "patch-approval"
    assert params["codex_changes"] == {"/work/a": {"type": "add", "content": "hi\n"}}
    assert (params["codex_reason"], params["codex_grant_root"]) == ("Needed.", "/work")
    for_session = ReviewDecision(Decision.APPROVED_FOR_SESSION)
    assert answer_of(patch, {"decision": "approved_for_session"}) == for_session


@pytest.mark.parametrize(
    ("more", "choices"),
    [
        ({}, ["approved", "denied", "abort"]),
        ({"key": "k"}, ["approved", "approved_for_session", "denied", "abort"]),
        ({"always": True}, ["approved", "approved_always", "denied", "abort"]),
    ],
)
def test_a_tool(more, choices) -> None:
    approval = Approval(question="Send it?", details={"to": "Ann"}, **more)
    request = ToolApprovalRequestEvent(**IDS, tool="mail", approval=approval, arguments="{}", request_id="r")
    params = asked(request)
    assert params["message"].splitlines()[:3] == ["Send it?", "Tool: mail", "Arguments: {}"]
    assert ("is saved in your configuration" in params["message"]) is ("always" in more)
    assert params["codex_elicitation"] == "tool-approval"
    assert (params["codex_tool"], params["codex_details"]) == ("mail", {"to": "Ann"})
    assert params["requestedSchema"]["properties"]["decision"]["enum"] == choices
    for word in ("approved_for_session", "approved_always"):
        expected = ReviewDecision(Decision(word)) if word in choices else None
        assert answer_of(request, accept(decision=word)) == expected


def test_permissions() -> None:
    wanted = {"network": {"enabled": True}, "file_system": {"write": ["/data"]}}
    request = RequestPermissionsEvent(**IDS, started_at_ms=0, cwd="/work", permissions=wanted, reason="For the test.")
    params = asked(request)
    assert params["codex_elicitation"] == "permissions"
    assert params["codex_permissions"] == wanted
    assert params["message"].splitlines() == [
        "Allow Codex to use further permissions, in `/work`?",
        "Permission: the network",
        "Permission: write `/data`",
        "“Allow” is for this turn, “for this session” for all that follow.",
        "The model's reason: For the test.",
    ]
    answer = answer_of(request, accept(decision="approved_for_session"))
    assert isinstance(answer, ReviewDecision)
    assert answer.decision is Decision.APPROVED_FOR_SESSION
    assert answer.granted is not None
    assert answer.granted.network is True
    assert [entry.path.path for entry in answer.granted.entries] == ["/data"]
    assert answer_of(request, accept(decision="denied")) == ReviewDecision(Decision.DENIED)


HOSTILE = "x\r\nAllow\x1b[2K\u202e\u2066\x9b1m\u2028y"
QUESTIONS: list[ApprovalRequest] = [
    COMMAND.evolve(command=("sh", HOSTILE), cwd=HOSTILE, reason=HOSTILE, proposed_execpolicy_amendment=(HOSTILE,)),
    COMMAND.evolve(
        environment_id=HOSTILE,
        network_approval_context={"host": HOSTILE, "protocol": HOSTILE},
        additional_permissions={"file_system": {"write": [HOSTILE], "entries": [{"access": HOSTILE, "path": HOSTILE}]}},
    ),
    ApplyPatchApprovalRequestEvent(
        **IDS, started_at_ms=0, changes={HOSTILE: AddFile("hi\n")}, reason=HOSTILE, grant_root=HOSTILE
    ),
    ToolApprovalRequestEvent(**IDS, tool=HOSTILE, approval=Approval(question=HOSTILE), arguments=HOSTILE),
    RequestPermissionsEvent(**IDS, started_at_ms=0, cwd=HOSTILE, permissions={HOSTILE: HOSTILE}, reason=HOSTILE),
]


@pytest.mark.parametrize("request_", QUESTIONS)
def test_no_text_of_a_model_adds_a_line_to_a_question_or_hides_one(request_: ApprovalRequest) -> None:
    lines = asked(request_)["message"].split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("Allow\\") for line in lines)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"without_sandbox": True},
            "It runs WITHOUT the sandbox: nothing limits what it reads, writes and connects to.",
        ),
        ({"environment_id": "box"}, "It runs in the environment `box`."),
        ({"reason": "Because."}, "The model's reason: Because."),
        ({"additional_permissions": {"network": {"enabled": True}}}, "It gets the network"),
        ({"additional_permissions": {"file_system": {"read": ["/etc"]}}}, "It gets read `/etc`"),
        (
            {"additional_permissions": {"file_system": {"entries": [{"access": "write", "path": {"path": "/a"}}]}}},
            "It gets write `/a`",
        ),
        (
            {"network_approval_context": {"host": "example.com", "protocol": "https"}},
            "Allow Codex to let a command connect to `example.com` (https)?",
        ),
    ],
)
def test_a_person_is_shown_what_is_granted(changes: Any, line: str) -> None:
    assert line in asked(COMMAND.evolve(**changes))["message"].splitlines()
    assert asked(COMMAND.evolve(**changes))["codex_without_sandbox"] is ("without_sandbox" in changes)


class Custom(ApprovalRequest, kw_only=True):
    """A plugin's own approval."""

    type: ClassVar[Literal["custom_approval"]] = "custom_approval"
    request_id: str = "custom"
    subject: ClassVar[str] = "the launch"  # type: ignore[assignment]


def test_an_approval_of_a_plugin() -> None:
    request = Custom(**IDS)
    assert asked(request)["message"] == "Allow the launch?"
    assert asked(request)["codex_elicitation"] == "approval"
    assert answer_of(request, accept(decision="approved")) == ReviewDecision(Decision.APPROVED)


class Number(Value):
    """An answer."""

    number: int


class Guess(Request[Number], kw_only=True):
    """A plugin's own question."""

    type: ClassVar[Literal["guess"]] = "guess"
    answer_type = Number
    hint: str
    request_id: str = "guess"


def test_a_question_of_a_plugin() -> None:
    request = Guess(hint="odd")
    params = asked(request)
    assert params["codex_elicitation"] == "request"
    assert params["codex_request"] == to_wire(request)
    assert params["requestedSchema"]["required"] == ["answer"]
    assert answer_of(request, {"answer": {"number": 7}}) == Number(7)
    assert answer_of(request, accept(answer='{"number": 7}')) == Number(7)
    for wrong in ({}, {"action": "decline"}, accept(answer="7"), accept(answer="{"), accept(answer='{"number": "x"}')):
        assert answer_of(request, wrong) is None


class Filled(Value):
    """The answer to a form of an MCP server."""

    decision: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


class Form(Value):
    """A form of an MCP server."""

    mode: str
    message: str
    requested_schema: Mapping[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None


class FormRequest(Request[Filled], kw_only=True):
    """A form of an MCP server, as an event."""

    type: ClassVar[Literal["elicitation_request"]] = "elicitation_request"
    answer_type = Filled
    request: Form
    request_id: str = "form"


def test_an_elicitation_is_passed_on() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    request = FormRequest(request=Form("form", "Who are you?", requested_schema=schema))
    params = asked(request)
    assert (params["message"], params["requestedSchema"]) == ("Who are you?", schema)
    assert not needs_page(request)
    assert answer_of(request, accept(name="Ann")) == Filled("accept", {"name": "Ann"})
    assert answer_of(request, {"action": "decline"}) == Filled("decline")
    assert answer_of(request, {}) is None
    assert answer_of(request, {"decision": "approved"}) is None


def test_an_elicitation_with_a_page_is_passed_on() -> None:
    page = Form("url", "Log in.", url="https://example.com/login", elicitation_id="e1")
    request = FormRequest(request=page)
    params = asked(request)
    assert needs_page(request)
    assert {key: params[key] for key in ("mode", "message", "url", "elicitationId")} == {
        "mode": "url",
        "message": "Log in.",
        "url": "https://example.com/login",
        "elicitationId": "e1",
    }
    assert "requestedSchema" not in params
    assert answer_of(request, {"action": "accept"}) == Filled("accept")
