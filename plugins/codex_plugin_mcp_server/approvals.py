"""Requests of a thread as elicitations, and the answers of clients as answers to requests.

A client answers as Codex's clients do, ``{"decision": "approved"}``, or as the protocol says, ``{"action": "accept", "content":
{"decision": "approved"}}``. Any other answer denies the request.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from codex_framework import ApprovalRequest, CodexError, Decision, Request, ReviewDecision, ToolApprovalRequestEvent
from codex_framework.contract.permissions.profile import additional_from_wire
from codex_framework.contract.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
)
from codex_framework.contract.protocol.wire import read, to_wire
from codex_framework.toolkit.approval_questions import ALLOW_PREFIX, answer_labels, approval_question

__all__ = ["MALFORMED", "answer_of", "elicitation", "needs_page"]

MALFORMED = "rejected: the client's answer to the approval request could not be read"


def elicitation(request: Request[Any], *, thread_id: str, event_id: str, tool_call_id: str) -> dict[str, Any]:
    """Return the parameters of an elicitation: a message, a form, and the facts of the request in ``codex_`` fields."""
    kind, facts = _describe_request(request)
    return {
        "message": _question(request),
        **(_page(request) or {"requestedSchema": _form(request)}),
        "threadId": thread_id,
        "codex_elicitation": kind,
        "codex_mcp_tool_call_id": tool_call_id,
        "codex_event_id": event_id,
        "codex_call_id": getattr(request, "call_id", request.request_id),
        **{f"codex_{name}": to_wire(value) for name, value in facts.items() if value is not None},
    }


def _question(request: Request[Any]) -> str:
    if isinstance(request, ApprovalRequest):
        return approval_question(request)
    own = _own_form(request)
    return f"Answer {request.subject}." if own is None else own[0]


def _describe_request(request: Request[Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a request, and its facts."""
    facts: Mapping[str, Any]
    match request:
        case ExecApprovalRequestEvent():
            return "exec-approval", {
                "command": request.command,
                "cwd": request.cwd,
                "parsed_cmd": request.parsed_cmd,
                "reason": request.reason,
                "without_sandbox": request.without_sandbox,
                "environment_id": request.environment_id,
                "network_approval_context": request.network_approval_context,
                "additional_permissions": request.additional_permissions,
                "proposed_execpolicy_amendment": request.proposed_execpolicy_amendment,
                "proposed_network_policy_amendments": request.proposed_network_policy_amendments,
            }
        case ApplyPatchApprovalRequestEvent():
            return "patch-approval", {
                "changes": request.changes,
                "reason": request.reason,
                "without_sandbox": request.without_sandbox,
                "environment_id": request.environment_id,
                "grant_root": request.grant_root,
            }
        case ToolApprovalRequestEvent():
            facts = {"tool": request.tool, "arguments": request.arguments, "details": request.approval.details}
            return "tool-approval", facts
        case RequestPermissionsEvent():
            facts = {"permissions": request.permissions, "reason": request.reason, "cwd": request.cwd}
            return "permissions", facts
        case ApprovalRequest():
            return "approval", {"details": request.details}
        case _:
            return "request", {"request": request}


def needs_page(request: Request[Any]) -> bool:
    """Return whether a request asks the user to open a page."""
    return not isinstance(request, ApprovalRequest) and bool(_page(request))


def _page(request: Request[Any]) -> Mapping[str, Any]:
    """Return the fields of an elicitation with a page besides the message. Empty for any other request."""
    facts = to_wire(request).get("request")
    if isinstance(request, ApprovalRequest) or not isinstance(facts, Mapping) or facts.get("mode") != "url":
        return {}
    return {"mode": "url", "url": facts.get("url"), "elicitationId": facts.get("elicitation_id") or request.request_id}


def _own_form(request: Request[Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the message and the form of a request that is an elicitation itself, or None. The form is empty if it has a page.

    Such a request has ``message`` and ``requested_schema``, either as fields or in an object ``request``.
    """
    wire = to_wire(request)
    for facts in (wire, wire.get("request")):
        if isinstance(facts, Mapping):
            message, form = facts.get("message"), facts.get("requested_schema", facts.get("requestedSchema"))
            if isinstance(message, str) and (isinstance(form, Mapping) or facts.get("mode") == "url"):
                return message, form or {}
    return None


def _form(request: Request[Any]) -> Mapping[str, Any]:
    """Return the form: a choice, or a text field for the JSON of a plugin's own kind of answer."""
    if not isinstance(request, ApprovalRequest):
        own = _own_form(request)
        if own is not None:
            return own[1]
        field: dict[str, Any] = {"type": "string", "title": "Answer", "description": "The answer as JSON."}
        return {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
    labels = answer_labels(request)
    field = {"type": "string", "title": "Decision", "enum": list(labels), "enumNames": list(labels.values())}
    return {"type": "object", "properties": {"decision": field}, "required": ["decision"]}


def answer_of(request: Request[Any], result: Mapping[str, Any]) -> object | None:
    """Return the answer to a request that a client's result means, or None if it cannot be read."""
    if not isinstance(request, ApprovalRequest):
        return _own_answer(request, result)
    word = _chosen(result, "decision")
    if isinstance(word, str) and word in answer_labels(request):
        return _grant_decision(request, word)
    try:
        decision = read(ReviewDecision, word)
    except CodexError:
        return None
    return decision if _was_proposed(request, decision) else None


def _chosen(result: Mapping[str, Any], name: str) -> object:
    """Return the value of a result's field. A form that was declined or cancelled is a decision in itself."""
    match result.get("action"):
        case "decline":
            return "denied"
        case "cancel":
            return "abort"
        case "accept" | None:
            content = result.get("content")
            return content[name] if isinstance(content, Mapping) and name in content else result.get(name)
        case _:
            return None


def _grant_decision(request: ApprovalRequest, word: str) -> ReviewDecision:
    if isinstance(request, ExecApprovalRequestEvent) and word == ALLOW_PREFIX:
        return ReviewDecision(Decision.APPROVED, execpolicy_amendment=request.proposed_execpolicy_amendment)
    decision = ReviewDecision(Decision(word))
    if isinstance(request, RequestPermissionsEvent) and decision.approved:
        return decision.evolve(granted=additional_from_wire(request.permissions))
    return decision


def _was_proposed(request: ApprovalRequest, decision: ReviewDecision) -> bool:
    """Return whether the request proposed the amendment of a decision."""
    if not isinstance(request, ExecApprovalRequestEvent):
        return False
    if decision.execpolicy_amendment is not None:
        return decision.execpolicy_amendment == request.proposed_execpolicy_amendment
    proposed = request.proposed_network_policy_amendments or ()
    return decision.network_amendment is not None and dict(decision.network_amendment) in map(dict, proposed)


def _own_answer(request: Request[Any], result: Mapping[str, Any]) -> object | None:
    """Return the answer to a plugin's own kind of request.

    If the request is an elicitation, the answer is the client's: ``action`` (or ``decision``) and ``content``. Otherwise the
    client has sent the answer as JSON, or as text with JSON.
    """
    import json

    if _own_form(request) is not None:
        action, content = result.get("action"), result.get("content")
        if action not in ("accept", "decline", "cancel"):
            return None
        return _readable(request, {"action": action, "content": content}, {"decision": action, "content": content})
    answer = _chosen(result, "answer")
    try:
        return _readable(request, json.loads(answer) if isinstance(answer, str) else answer)
    except (ValueError, RecursionError):
        return None


def _readable(request: Request[Any], *answers: object) -> object | None:
    """Return the first of some answers that is one of the request's class."""
    for answer in answers:
        with contextlib.suppress(CodexError, TypeError, RecursionError):
            found: object = read(request.answer_type, answer)
            return found
    return None
