"""Scripted replies of a model: the output of a response, and its faults.

The loopback server and the scripted model of ``codex_framework.testing`` play them in tests, and the ``replay`` plugin
plays them from a script file. :func:`play_reply` turns a reply into model events in process; the server turns the same reply
into bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from codex_framework.contract.errors import ModelError
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
)
from codex_framework.contract.roles.models import (
    Completed,
    ItemAdded,
    ItemDone,
    ModelEvent,
    ReasoningDelta,
    ReasoningPartAdded,
    TextDelta,
    ToolInputDelta,
)
from codex_framework.contract.value import Value

__all__ = ["Fault", "Reply", "ReplySource", "Script", "ScriptEndError", "pieces", "play_reply"]

USAGE = TokenUsage(100, 10, 20, 5, 120)
"""The default usage of a reply. The numbers are arbitrary, but not zero."""


class Fault(Value, kw_only=True):
    """The faults of a response. Several may be combined.

    Attributes:
        status: Answer with this HTTP status, ``headers`` and ``body`` instead of a stream.
        body: A text is sent unchanged, a mapping as JSON.
        after: Close the connection after this number of events.
        reset: Close it with a reset (RST) instead of a normal end (FIN).
        hang_s: Pause for this number of seconds: before the answer, or, with ``after``, before closing the connection.
        cut_at: Close the connection after this number of bytes of the body, counted as sent (with their chunk sizes).
        piece_bytes: Send the body in pieces of this number of bytes, with ``piece_pause_s`` seconds between them. 0 sends it in
            one piece.
        duplicates: The numbers of events that are sent twice, from 0.
        garbled: The numbers of events of which the second half is missing, from 0.
        out_of_order: Send items that may come at any place in the reverse order: the whole items of the Responses API, the calls
            of the Chat Completions API.
        no_completed: End the stream properly, but without ``response.completed``, or the chunk with the reason of the end.
        raw_before, raw_after: Bytes of the stream before the first and after the last event, as text.
        failed: The error object (``code``, ``message``) of the event that ends the stream: ``response.failed``, or a chunk.
        incomplete: Why the response is incomplete: ``max_output_tokens`` or ``content_filter``.
        error: The error that :func:`play_reply` raises. A server ignores it.
    """

    status: int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: str | Mapping[str, Any] | None = None
    after: int | None = None
    reset: bool = False
    hang_s: float = 0.0
    cut_at: int | None = None
    piece_bytes: int = 0
    piece_pause_s: float = 0.0
    duplicates: tuple[int, ...] = ()
    garbled: tuple[int, ...] = ()
    out_of_order: bool = False
    no_completed: bool = False
    raw_before: str = ""
    raw_after: str = ""
    failed: Mapping[str, Any] | None = None
    incomplete: str | None = None
    error: ModelError | None = None


class Reply(Value, kw_only=True):
    """One response. ``a + b`` has the items of ``a`` followed by those of ``b``.

    Attributes:
        items: The items, in order. Items and calls without an id get one when they are played (``call_3_1``: third response,
            first item).
        deltas: The number of pieces in which each text arrives.
        delta_delay_s: Pause before each piece, in seconds. If the events of an API have no names, before each event but the
            first.
        delay_s: Pause before the response, in seconds.
        usage: The token usage. None omits it.
        end_turn: As in ``response.completed``.
        headers: The headers of the HTTP response.
    """

    items: tuple[ResponseItem, ...] = ()
    deltas: int = 1
    delta_delay_s: float = 0.0
    delay_s: float = 0.0
    usage: TokenUsage | None = USAGE
    end_turn: bool | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    fault: Fault | None = None

    def __add__(self, other: Reply) -> Reply:
        """Return a reply with both. Settings of ``other`` that are not the defaults override."""
        changed = {
            field.name: getattr(other, field.name)
            for field in attrs.fields(Reply)
            if field.name != "items" and getattr(other, field.name) != getattr(_PLAIN, field.name)
        }
        return self.evolve(items=self.items + other.items, **changed)


_PLAIN = Reply()

ReplySource: TypeAlias = Reply | Callable[[Any], Reply]
"""A reply, or a function that creates one from the request."""


class ScriptEndError(ModelError):
    """There were more requests than the script has replies."""

    slug = "script-ended"

    def __init__(self, length: int, number: int) -> None:
        super().__init__(
            f"the script has {length} replies, and this is request {number}",
            info="bad_request",
            hint="Add a reply to the script, or let its last one repeat.",
        )


class Script:
    """Replies in order, for any number of threads.

    Args:
        replies: The replies.
        repeat_last: Whether to repeat the last reply forever instead of failing after it.
    """

    def __init__(self, replies: Iterable[ReplySource], *, repeat_last: bool = False) -> None:
        self._replies = list(replies)
        self._repeat_last = repeat_last
        self._asked = 0
        self._lock = threading.Lock()

    @property
    def replies(self) -> tuple[ReplySource, ...]:
        """All replies."""
        return tuple(self._replies)

    def add(self, replies: Iterable[ReplySource]) -> None:
        """Append replies."""
        self._replies.extend(replies)

    @property
    def repeats_last(self) -> bool:
        """Whether the last reply is repeated forever."""
        return self._repeat_last

    @property
    def asked(self) -> int:
        """The number of requested replies."""
        return self._asked

    def next(self) -> tuple[int, ReplySource]:
        """Return the number of this request (from 1) and its reply.

        Raises:
            ScriptEndError: There is no reply left.
        """
        with self._lock:
            self._asked += 1
            number = self._asked
        if number <= len(self._replies):
            return number, self._replies[number - 1]
        if self._repeat_last and self._replies:
            return number, self._replies[-1]
        raise ScriptEndError(len(self._replies), number)


def numbered(reply: Reply, number: int) -> Reply:
    """Return the reply with generated ids for items and calls that lack one."""
    items: list[ResponseItem] = []
    for index, item in enumerate(reply.items, 1):
        place = f"{number}_{index}"
        match item:
            case FunctionCall() | CustomToolCall() | LocalShellCall():
                prefix = {"function_call": "fc", "custom_tool_call": "ctc"}.get(item.type, "lsh")
                items.append(item.evolve(id=item.id or f"{prefix}_{place}", call_id=item.call_id or f"call_{place}"))
            case Message():
                items.append(item.evolve(id=item.id or f"msg_{place}"))
            case Reasoning():
                items.append(item.evolve(id=item.id or f"rs_{place}"))
            case _:
                items.append(item)
    return reply.evolve(items=tuple(items))


def pieces(text: str, count: int) -> list[str]:
    """Split a text into at most ``count`` pieces of nearly equal length, none of them empty."""
    count = max(1, min(count, len(text)))
    return [text[len(text) * n // count : len(text) * (n + 1) // count] for n in range(count)] if text else []


def reply_events(reply: Reply, number: int) -> list[ModelEvent]:
    """Return the events of a complete reply without faults, including ``Completed``."""
    reply = numbered(reply, number)
    events: list[ModelEvent] = []
    for item in reply.items:
        events.extend(_item_events(item, reply.deltas))
    events.append(Completed(f"resp_{number}", reply.usage, reply.end_turn))
    return events


def _item_events(item: ResponseItem, deltas: int) -> list[ModelEvent]:
    match item:
        case Message(content=content, id=item_id):
            texts = [part.text for part in content if isinstance(part, OutputText)]
            middle: list[ModelEvent] = [
                TextDelta(item_id or "", piece) for text in texts for piece in pieces(text, deltas)
            ]
            return [ItemAdded(item.evolve(content=())), *middle, ItemDone(item)]
        case Reasoning(summary=summary, id=item_id):
            middle = []
            for index, part in enumerate(summary):
                middle.append(ReasoningPartAdded(item_id or "", index))
                middle.extend(
                    ReasoningDelta(item_id or "", piece, index) for piece in pieces(str(part.get("text", "")), deltas)
                )
            begun = item.evolve(summary=(), content=None, encrypted_content=None)
            return [ItemAdded(begun), *middle, ItemDone(item)]
        case CustomToolCall(input=text, id=item_id):
            middle = [ToolInputDelta(item_id or "", piece) for piece in pieces(text, deltas)]
            return [ItemAdded(item.evolve(input="")), *middle, ItemDone(item)]
        case FunctionCall():
            return [ItemAdded(item.evolve(arguments="")), ItemDone(item)]
        case _:
            return [ItemAdded(item), ItemDone(item)]


async def play_reply(reply: Reply, number: int = 1) -> AsyncIterator[ModelEvent]:
    """Stream a reply as a :class:`ModelClient` would.

    Faults that exist only on the wire become approximately the error that a client would raise: raw bytes are ignored, a status
    of 429 or of 500 and above is retryable, others are not.

    Raises:
        ModelError: The reply has a fault.
    """
    fault = reply.fault or Fault()
    silence = reply.delay_s + (fault.hang_s if fault.after is None else 0.0)
    if silence:
        await asyncio.sleep(silence)
    if fault.error is not None and fault.after is None:
        raise fault.error
    if fault.status is not None:
        raise _status_error(fault)
    for count, event in enumerate(reply_events(reply, number)):
        if count == fault.after:
            await asyncio.sleep(fault.hang_s)
            raise fault.error or _stream_error("Transport error: network error: error decoding response body")
        if isinstance(event, Completed):
            _raise_ending(fault)
        if reply.delta_delay_s and isinstance(event, (TextDelta, ReasoningDelta, ToolInputDelta)):
            await asyncio.sleep(reply.delta_delay_s)
        yield event


def _raise_ending(fault: Fault) -> None:
    if fault.failed is not None:
        raise ModelError(str(fault.failed.get("message") or fault.failed.get("code") or "the response failed"))
    if fault.incomplete is not None:
        raise ModelError(f"Incomplete response returned, reason: {fault.incomplete}")
    if fault.no_completed:
        raise _stream_error("stream closed before response.completed")


def _stream_error(reason: str) -> ModelError:
    return ModelError(
        f"stream disconnected before completion: {reason}",
        retryable=True,
        info={"response_stream_disconnected": {"http_status_code": None}},
    )


def _status_error(fault: Fault) -> ModelError:
    import http

    assert fault.status is not None
    try:
        phrase = " " + http.HTTPStatus(fault.status).phrase
    except ValueError:
        phrase = ""
    retry_after = fault.headers.get("retry-after")
    return ModelError(
        f"unexpected status {fault.status}{phrase}",
        retryable=fault.status == 429 or fault.status >= 500,
        retry_after_s=float(retry_after) if retry_after else None,
        info={"http_connection_failed": {"http_status_code": fault.status}},
    )
