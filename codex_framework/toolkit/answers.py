"""Answers to requests in JSON, for clients whose users are elsewhere: in a browser, or behind a socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.profile import additional_from_wire
from codex_framework.contract.protocol.events import Request, RequestPermissionsEvent
from codex_framework.contract.protocol.ops import PermissionsResponse
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.protocol.variants import wire_fields
from codex_framework.contract.protocol.wire import WireError, read
from codex_framework.contract.value import Value

__all__ = ["ApprovalAnswer", "permissions_decision", "read_answer"]

A = TypeVar("A")


class ApprovalAnswer(Value):
    """The JSON form of an answer to a request for approval.

    Attributes:
        decision: The decision, as in the op ``exec_approval``.
        message: The text for the model after a refusal, or for the user after ``abort``.
    """

    decision: ReviewDecision
    message: str | None = None


def read_answer(request: Request[A], raw: object) -> A:
    """Read the answer to a request from plain JSON data.

    An approval has the form of :class:`ApprovalAnswer`, an answer to ``request_permissions`` the form of
    ``PermissionsResponse``. Any other request has the fields of its ``answer_type``.

    Raises:
        ThreadError: The data do not fit. The fact names the field.
    """
    form: Any = request.answer_type
    if isinstance(request, RequestPermissionsEvent):
        form = PermissionsResponse
    elif form is ReviewDecision:
        form = ApprovalAnswer
    names = [name for _, name in wire_fields(form)] if issubclass(form, Value) else []
    unknown = [str(name) for name in raw if name not in names] if names and isinstance(raw, Mapping) else []
    try:
        if unknown:
            raise WireError(f"unknown field @ answer.{unknown[0]}")
        answer: Any = read(form, raw, where="answer")
    except WireError as error:
        fact = f"the answer to {request.subject} cannot be read: {error}"
        hint = f"The fields of the answer are: {', '.join(names)}." if names else ""
        raise ThreadError(fact, slug="bad-request", hint=hint) from error
    if isinstance(answer, PermissionsResponse):
        answer = permissions_decision(answer)
    elif isinstance(answer, ApprovalAnswer):
        answer = answer.decision.evolve(message=answer.message)
    return cast("A", answer)


def permissions_decision(response: PermissionsResponse) -> ReviewDecision:
    """Return the decision that a response to ``request_permissions`` means.

    Raises:
        ThreadError: The response cannot be read.
    """
    try:
        granted = additional_from_wire(response.permissions)
    except ValueError as error:
        raise ThreadError(f"the granted permissions cannot be read: {error}", slug="bad-request") from error
    if response.scope not in ("turn", "session"):
        raise ThreadError(f"the scope is {response.scope!r}", slug="bad-request", hint="Answer with turn or session.")
    if not granted:
        return ReviewDecision(Decision.DENIED)
    kind = Decision.APPROVED_FOR_SESSION if response.scope == "session" else Decision.APPROVED
    return ReviewDecision(kind, granted=granted)
