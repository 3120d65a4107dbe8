"""A call of a dynamic tool: the request to the client, its answer, and the event for all clients at the end."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Literal, Self

from codex_framework import EventMsg, Op, OpHandler, Request, ThreadContext, ThreadError, Value
from codex_framework.contract.value import field

__all__ = [
    "Duration",
    "DynamicToolAnswer",
    "DynamicToolCallRequest",
    "DynamicToolCallResponseEvent",
    "DynamicToolResponse",
    "ImageContent",
    "ResponseHandler",
    "TextContent",
    "no_answer",
]

_OFF_WIRE = {"wire": False}


class TextContent(Value):
    """Text for the model."""

    type: ClassVar[Literal["inputText"]] = "inputText"
    text: str


class ImageContent(Value):
    """An image for the model: an ``https:`` or ``data:`` URL."""

    type: ClassVar[Literal["inputImage"]] = "inputImage"
    image_url: str = field(metadata={"wire": "imageUrl"})


class DynamicToolAnswer(Value):
    """A client's answer to a call.

    Attributes:
        content_items: The content for the model.
        success: Whether the call succeeded.
    """

    content_items: tuple[TextContent | ImageContent, ...] = ()
    success: bool = True


@cache
def no_answer() -> DynamicToolAnswer:
    """Return the answer for an unanswered call. It is recognised by identity."""
    return DynamicToolAnswer((), success=False)


class DynamicToolCallRequest(Request[DynamicToolAnswer], kw_only=True):
    """Run this call. Answer with a ``dynamic_tool_response`` op that names ``call_id``, or with ``thread.answer``.

    Attributes:
        call_id: The model's id of the call.
        started_at_ms: Unix time in milliseconds.
        namespace: The namespace in the tool's definition. None without a namespace.
        tool: The name in the tool's definition.
        arguments: The model's arguments, as plain JSON data.
        limit_s: Time limit for the answer in seconds. By default, there is no limit.
    """

    type: ClassVar[Literal["dynamic_tool_call_request"]] = "dynamic_tool_call_request"
    answer_type = DynamicToolAnswer

    call_id: str = field(metadata={"wire": "callId"})
    turn_id: str = field(metadata={"wire": "turnId"})
    started_at_ms: int = field(metadata={"wire": "startedAtMs"})
    namespace: str | None = None
    tool: str
    arguments: Any
    limit_s: float | None = field(default=None, metadata=_OFF_WIRE)
    request_id: str = field(factory=lambda request: request.call_id, takes_self=True, metadata=_OFF_WIRE)

    def unattended(self) -> DynamicToolAnswer:
        """Return the answer that marks a call without an answer."""
        return no_answer()

    def time_limit_s(self) -> float | None:
        """Return the limit of the plugin's settings."""
        return self.limit_s

    def with_id(self, request_id: str) -> Self:
        """Return the request under another id."""
        return self.evolve(call_id=request_id, request_id=request_id)

    @property
    def subject(self) -> str:
        """The name of the tool, for messages."""
        return f"a call of the client's tool {self.tool}"


class Duration(Value):
    """A time span in the wire format."""

    secs: int
    nanos: int


class DynamicToolCallResponseEvent(EventMsg, kw_only=True):
    """A call of a dynamic tool has ended.

    Attributes:
        content_items: The content of the client's answer.
        error: Why there is no answer. None if there is one.
    """

    type: ClassVar[Literal["dynamic_tool_call_response"]] = "dynamic_tool_call_response"

    call_id: str
    turn_id: str
    completed_at_ms: int
    namespace: str | None = None
    tool: str
    arguments: Any
    content_items: tuple[TextContent | ImageContent, ...] = ()
    success: bool
    error: str | None = None
    duration: Duration


class DynamicToolResponse(Op):
    """The answer to a call; ``id`` is the request's ``callId``."""

    type: ClassVar[Literal["dynamic_tool_response"]] = "dynamic_tool_response"
    id: str
    response: DynamicToolAnswer


class ResponseHandler(OpHandler[DynamicToolResponse]):
    """Passes an answer to the waiting call."""

    op = DynamicToolResponse

    async def handle(self, op: DynamicToolResponse, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Answer the request.

        Raises:
            ThreadError: No such call is waiting, or the answer is not a ``DynamicToolAnswer``.
        """
        if not thread.answer(op.id, op.response):
            raise ThreadError(
                f"no call {op.id!r} of a dynamic tool is waiting for an answer",
                slug="bad-request",
                hint="It was answered already, its turn has ended, or the id is wrong.",
            )
