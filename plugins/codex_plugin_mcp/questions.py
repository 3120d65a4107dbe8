"""Questions of servers to a person, as clients see them: the request and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal, Self

from codex_framework import EventMsg, Request, ThreadContext, Value
from codex_framework.contract.value import field
from codex_plugin_mcp.texts import one_line

__all__ = [
    "DECISIONS",
    "Elicitation",
    "ElicitationAnswer",
    "ElicitationCompleteEvent",
    "ElicitationRequest",
    "forms_of",
    "no_answer",
]

_OFF_WIRE = {"wire": False}

DECISIONS = ("accept", "decline", "cancel")


class ElicitationAnswer(Value):
    """A person's answer.

    Attributes:
        decision: ``accept``, ``decline`` or ``cancel``, which means that the question was closed without an answer.
        content: The values of the form, by field. Only for ``accept``. Missing fields get the defaults of the form.
        meta: Metadata for the server.
    """

    decision: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None


@cache
def no_answer() -> ElicitationAnswer:
    """Return the answer to an unanswered question. It is recognised by identity."""
    return ElicitationAnswer("cancel")


class Elicitation(Value, kw_only=True):
    """A question.

    Attributes:
        mode: ``form`` asks for values. ``url`` asks the person to open a page; nothing is opened automatically.
        message: The server's text, without control characters.
        requested_schema: The schema of the form: an object of plain fields.
        url: The address of the page.
        host: The host of the page in ASCII, as the browser will contact it. Show it in full.
        elicitation_id: The server's id of the page's question.
        meta: Metadata of the server.
    """

    mode: Literal["form", "url"]
    message: str
    requested_schema: Mapping[str, Any] | None = None
    url: str | None = None
    host: str | None = None
    elicitation_id: str | None = None
    meta: Mapping[str, Any] | None = field(default=None, metadata={"wire": "_meta"})


class ElicitationRequest(Request[ElicitationAnswer], kw_only=True):
    """A server asks a person. Answer with a ``resolve_elicitation`` op that names server and id, or with ``thread.answer``.

    Attributes:
        turn_id: The turn in which the server was called. A question at another time belongs to no turn.
        server_name: The server's name in the configuration.
        id: The id of the question.
        problems: Why the previous answer to the same question could not be used, as sentences.
        limit_s: Time limit for the answer in seconds. By default, there is no limit.
    """

    type: ClassVar[Literal["elicitation_request"]] = "elicitation_request"
    answer_type = ElicitationAnswer

    turn_id: str | None = None
    server_name: str
    id: str
    request: Elicitation
    problems: tuple[str, ...] = ()
    limit_s: float | None = field(default=None, metadata=_OFF_WIRE)
    request_id: str = field(factory=lambda request: request.id, takes_self=True, metadata=_OFF_WIRE)

    def unattended(self) -> ElicitationAnswer:
        """Return the answer that marks a question without an answer."""
        return no_answer()

    def time_limit_s(self) -> float | None:
        """Return the limit of the plugin's settings."""
        return self.limit_s

    def with_id(self, request_id: str) -> Self:
        """Return the request under another id."""
        return self.evolve(id=request_id, request_id=request_id)

    @property
    def subject(self) -> str:
        """The server, its text, and the host of a page that it wants to be opened."""
        page = f", to open a page of {self.request.host}" if self.request.host else ""
        return f"the MCP server {self.server_name} asks {one_line(self.request.message)!r}{page}"


class ElicitationCompleteEvent(EventMsg, kw_only=True):
    """The server reports that a question in ``url`` mode has been answered on its page."""

    type: ClassVar[Literal["elicitation_complete"]] = "elicitation_complete"

    server_name: str
    elicitation_id: str


def forms_of(thread: ThreadContext) -> dict[str, ElicitationRequest]:
    """Return the open questions of a thread's servers, by id."""
    return thread.state("open elicitations", dict)
