"""Requests: events that wait for an answer of a client.

Approvals, elicitations, questions and calls of client tools are all requests. They differ only in their fields.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.value import Value, field

__all__ = [
    "Approval",
    "ApprovalRequest",
    "Closed",
    "Request",
    "RequestResolvedEvent",
    "ToolApprovalRequestEvent",
]

A = TypeVar("A")

OFF_WIRE: Mapping[str, Any] = {"wire": False}
"""Metadata of a field that is not part of the JSON form."""


class Request(EventMsg, Generic[A]):
    """An event that waits for an answer of type ``A``.

    Derive from it for a plugin's own question: name the class of the answer in ``answer_type``, and return the answer for
    unattended threads in :meth:`unattended`.

    Attributes:
        answer_type: The class of the answer. An answer of another class is refused.
        timeout_s: Seconds after which :meth:`unattended` answers. By default, there is no limit.
        request_id: The id that an answer names. Unique among the open requests of a thread. If it is empty or in use, the kernel
            replaces it before clients see the request.
    """

    answer_type: ClassVar[type[Any]] = Value
    timeout_s: ClassVar[float | None] = None
    request_id: str = field(default="", kw_only=True)

    def unattended(self) -> A:
        """Return the answer to use if no user can be asked or the time limit has passed."""
        raise NotImplementedError

    def time_limit_s(self) -> float | None:
        """Return ``timeout_s``. Override it for a class whose requests have individual limits."""
        return self.timeout_s

    def with_id(self, request_id: str) -> Self:
        """Return the request under another id."""
        return self.evolve(request_id=request_id)

    @property
    def subject(self) -> str:
        """The subject of the request, in a few words for the user."""
        return f"the request {self.type}"


class Closed(enum.StrEnum):
    """Why a request is no longer open."""

    ANSWERED = "answered"
    """A client answered."""
    REVIEWED = "reviewed"
    """An approval reviewer answered."""
    UNATTENDED = "unattended"
    """No client could answer."""
    TIMED_OUT = "timed_out"
    """The time was over."""
    ABORTED = "aborted"
    """The turn or thread of the request has ended."""


class RequestResolvedEvent(EventMsg):
    """A request that clients have seen is no longer open. Each client receives this once."""

    type: ClassVar[Literal["request_resolved"]] = "request_resolved"
    request_id: str
    how: Closed


class Approval(Value, kw_only=True):
    """The approval that a tool requires for a call.

    Attributes:
        question: The question for the user, in a sentence.
        details: Facts that interfaces may show (plain JSON data).
        key: The key under which an answer "for this session" is remembered. None if no such answer is offered.
        always: Whether the user can allow it permanently. The tool then saves the answer (``Tool.allow_always``).
    """

    question: str
    details: Mapping[str, Any] = field(factory=dict)
    key: str | None = None
    always: bool = False


class ApprovalRequest(Request[ReviewDecision]):
    """The base of all requests for approval. Reviewers are asked before the user.

    Attributes:
        call_id: The call that needs the approval.
        turn_id: The turn of the call.
    """

    answer_type = ReviewDecision

    call_id: str = field(kw_only=True)
    turn_id: str = field(kw_only=True)

    def unattended(self) -> ReviewDecision:
        """Return a denial that says why."""
        return ReviewDecision(
            Decision.DENIED, message="rejected: this needs an approval, and no user can be asked for it"
        )

    @property
    def details(self) -> Mapping[str, Any]:
        """The facts of the request as plain JSON data, for reviewers and interfaces."""
        return {}


class ToolApprovalRequestEvent(ApprovalRequest, kw_only=True):
    """A request to approve a tool call, made if ``Tool.needs_approval`` requires it.

    Attributes:
        tool: The name of the tool.
        arguments: The arguments of the call as text.
    """

    type: ClassVar[Literal["tool_approval_request"]] = "tool_approval_request"
    tool: str
    approval: Approval
    arguments: str = ""

    @property
    def subject(self) -> str:
        """The tool."""
        return f"a call of the tool {self.tool}"

    @property
    def details(self) -> Mapping[str, Any]:
        """The tool, its arguments and the details of its approval. The details cannot replace the former."""
        return {**self.approval.details, "tool": self.tool, "arguments": self.arguments}
