"""Requests: events that wait for an answer from outside.

Approvals, elicitations, questions and the calls of tools that a client brings are all requests. They differ in their fields only.
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

    Derive from it for a question of a plugin's own: name the class of the answer in ``answer_type`` and say in :meth:`unattended`
    what holds where nobody can be asked.

    Attributes:
        answer_type: The class of the answer. An answer of another class is refused.
        timeout_s: Seconds after which :meth:`unattended` answers. None means no limit.
        request_id: What an answer names. Unique among the open requests of a thread; where it is empty or taken, the kernel
            gives the request another one before anybody sees it.
    """

    answer_type: ClassVar[type[Any]] = Value
    timeout_s: ClassVar[float | None] = None
    request_id: str = field(default="", kw_only=True)

    def unattended(self) -> A:
        """Return the answer for when nobody can be asked, and for when the time is over."""
        raise NotImplementedError

    def time_limit_s(self) -> float | None:
        """Return ``timeout_s``. Override it if the requests of a class have limits of their own."""
        return self.timeout_s

    def with_id(self, request_id: str) -> Self:
        """Return the request under another id."""
        return self.evolve(request_id=request_id)

    @property
    def subject(self) -> str:
        """What the request is about, in a few words for a person."""
        return f"the request {self.type}"


class Closed(enum.StrEnum):
    """Why a request is no longer open."""

    ANSWERED = "answered"
    """A client answered."""
    REVIEWED = "reviewed"
    """An approval reviewer answered."""
    UNATTENDED = "unattended"
    """Nobody was there to answer."""
    TIMED_OUT = "timed_out"
    """The time was over."""
    ABORTED = "aborted"
    """The turn or the thread that asked has ended."""


class RequestResolvedEvent(EventMsg):
    """A request that clients have seen is no longer open. Each client is told once."""

    type: ClassVar[Literal["request_resolved"]] = "request_resolved"
    request_id: str
    how: Closed


class Approval(Value, kw_only=True):
    """What a tool asks to be allowed.

    Attributes:
        question: The question for a person, in a sentence.
        details: Facts that interfaces may show (plain JSON data).
        key: What an answer "for this session" is remembered under. None means that no such answer is offered.
        always: Whether a person may allow it for good; the tool then saves the answer (``Tool.allow_always``).
    """

    question: str
    details: Mapping[str, Any] = field(factory=dict)
    key: str | None = None
    always: bool = False


class ApprovalRequest(Request[ReviewDecision]):
    """May this be done? The base of all approvals; reviewers are asked about every one of them before a person is.

    Attributes:
        call_id: The call on whose behalf it is asked.
        turn_id: The turn of the call.
    """

    answer_type = ReviewDecision

    call_id: str = field(kw_only=True)
    turn_id: str = field(kw_only=True)

    def unattended(self) -> ReviewDecision:
        """Return a denial."""
        return ReviewDecision(Decision.DENIED)

    @property
    def details(self) -> Mapping[str, Any]:
        """The facts of the request as plain JSON data, for reviewers and interfaces."""
        return {}


class ToolApprovalRequestEvent(ApprovalRequest, kw_only=True):
    """May this call of a tool be made? Raised where ``Tool.needs_approval`` says so.

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
        """The tool, its arguments and what the tool said of them, which cannot stand in the place of the former."""
        return {**self.approval.details, "tool": self.tool, "arguments": self.arguments}
