"""Decoding of the events in a Responses stream."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from codex_framework import Completed, ItemAdded, ItemDone, ModelError, ModelEvent, ReasoningDelta, TextDelta
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import FunctionCall, ResponseItem
from codex_framework.contract.protocol.wire import read_item
from codex_framework.contract.roles.models import ModelNotice, ReasoningPartAdded, ToolInputDelta
from codex_framework.toolkit.strict_json import check_depth
from codex_lib_model_client.faults import (
    broken_stream,
    failed_response,
    garbled_event,
    incomplete_response,
    no_response,
    status_error,
)
from codex_plugin_openai.rate_limits import event_limits

__all__ = [
    "End",
    "ExpiredSocketError",
    "Sign",
    "arguments_text",
    "decode",
    "finished_item",
    "input_text",
    "no_stream",
    "unfinished",
    "whole_response",
]

_UNFINISHED = "stream closed before response.completed"
_FULL = "max_output_tokens"
_EXPIRED = {
    "previous_response_not_found": "Previous response was not found. Retrying the full request.",
    "websocket_connection_limit_reached": "Responses websocket connection limit reached (60 minutes)."
    " Create a new websocket connection to continue.",
}

Payload: TypeAlias = Mapping[str, Any]


class ExpiredSocketError(ModelError):
    """The server ends a WebSocket after an hour, or no longer has the response that a request refers to."""

    def __init__(self, fact: str) -> None:
        super().__init__(
            f"stream disconnected before completion: {fact}",
            retryable=True,
            info={"response_stream_disconnected": {"http_status_code": None}},
            slug="stream-disconnected",
        )


class End(NamedTuple):
    """The end of a response, and the items that it lists."""

    completed: Completed
    output: list[Any]


class Sign(enum.Enum):
    """A marker for an event that is not used."""

    LIFE = "life"
    """The server is working on the response: it sent a part of an item, or a step of a hosted tool."""
    NOTHING = "nothing"


def decode(data: str) -> ModelEvent | list[ModelNotice] | End | Sign:
    """Decode one event. Return a ``Sign`` for an unknown type and for a delta that cannot be read, and notices as a list.

    Raises:
        ModelError: The event reports a failed response, or it cannot be read and an item or the end is lost with it.
    """
    try:
        payload = json.loads(data)
        check_depth(payload, data)
        kind = payload["type"]
        decoder = _DECODERS.get(kind)
        return _sign(kind) if decoder is None else decoder(payload)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if _matters(data):
            raise garbled_event(data) from error
        return Sign.NOTHING


_WORK = (".delta", ".done", ".added")
_HOSTED_TOOLS = ("web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "mcp_call")


def _sign(kind: str) -> Sign:
    """Return ``LIFE`` for an event type that shows that the server is working, which a mere keep-alive does not."""
    words = kind.split(".")
    works = words[0] == "response" and (kind.endswith(_WORK) or (words[1:2] and words[1] in _HOSTED_TOOLS))
    return Sign.LIFE if works else Sign.NOTHING


_VITAL = (
    "response.output_item.done",
    "response.completed",
    "response.done",
    "response.failed",
    "response.incomplete",
    "error",
)


def _matters(data: str) -> bool:
    """Return whether an event that cannot be read may have contained an item or the end of the response."""
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        return any(mark in data for mark in '{}"')  # a single word (``[DONE]``, a keep-alive) cannot have been an event
    return isinstance(payload, dict) and payload.get("type") in _VITAL


def _text_delta(payload: Payload) -> ModelEvent:
    return TextDelta(payload.get("item_id", ""), _text(payload["delta"]))


def _tool_input_delta(payload: Payload) -> ModelEvent:
    return ToolInputDelta(payload.get("item_id", ""), _text(payload["delta"]))


def _reasoning_summary_delta(payload: Payload) -> ModelEvent:
    return ReasoningDelta(payload.get("item_id", ""), _text(payload["delta"]), payload.get("summary_index", 0))


def _reasoning_text_delta(payload: Payload) -> ModelEvent:
    return ReasoningDelta(
        payload.get("item_id", ""), _text(payload["delta"]), payload.get("content_index", 0), raw=True
    )


def _reasoning_part_added(payload: Payload) -> ModelEvent:
    return ReasoningPartAdded(payload.get("item_id", ""), payload.get("summary_index", 0))


def _item_added(payload: Payload) -> ModelEvent:
    return ItemAdded(_item(payload["item"]))


def _item_done(payload: Payload) -> ModelEvent:
    return ItemDone(finished_item(payload["item"]))


def finished_item(raw: Payload) -> ResponseItem:
    """Read a complete item. Texts and arguments may be null, and arguments an object; other servers send them so."""
    kind = raw.get("type")
    if kind == "function_call" and not (type(raw.get("arguments")) is str and raw["arguments"].strip()):
        raw = {**raw, "arguments": arguments_text(raw.get("arguments"))}
    elif kind == "custom_tool_call" and type(raw.get("input")) is not str:
        raw = {**raw, "input": input_text(raw.get("input"))}
    elif kind == "message":
        content = raw.get("content")
        plain = type(content) is list and all(
            type(part) is dict and part.get("type") == "output_text" for part in content
        )
        if not plain or not raw.get("role"):
            raw = {**raw, "role": raw.get("role") or "assistant", "content": list(_parts(content))}
    if kind in ("function_call", "custom_tool_call") and not raw.get("call_id"):
        raw = {**raw, "call_id": raw.get("id") or f"call_{os.urandom(8).hex()}"}
    return _item(raw)


def arguments_text(value: Any) -> str:
    """Return the arguments of a call as a text with JSON."""
    text = input_text(value)
    return text if text.strip() else "{}"


def input_text(value: Any) -> str:
    """Return the input of a call as a text. Other servers send objects, and null where there is nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _parts(content: Any) -> Iterator[Any]:
    """Yield the parts of a message: texts in the API's form, and others unchanged."""
    for part in content if isinstance(content, list) else [content]:
        text = part
        if isinstance(part, dict):
            text = part.get("text") if part.get("type") in ("text", "output_text") else part.get("refusal")
        if isinstance(text, str):
            more = part if isinstance(part, dict) and part.get("type") == "output_text" else {}
            yield {**more, "type": "output_text", "text": text}
        elif part is not None:
            yield part


def _item(raw: Payload) -> ResponseItem:
    """Read an item. In the shorter form of requests, tools without a namespace are sent in the group ``functions``."""
    item = read_item(raw)
    if type(item) is FunctionCall and item.namespace == "functions":
        return item.evolve(namespace=None)
    return item


def _completion_event(payload: Payload) -> End:
    return _end_of(payload["response"])


def _end_of(response: Payload) -> End:
    """Return the end of a response, from the object that describes it.

    Raises:
        ModelError: The response has failed, or is incomplete.
    """
    match response.get("status"):
        case "failed" | "cancelled":
            raise failed_response(response, _usage_of(response))
        case "incomplete":
            raise _incomplete_error(response)
    end_turn, output = response.get("end_turn"), response.get("output")
    completed = Completed(
        str(response.get("id") or ""), _usage_of(response), end_turn if isinstance(end_turn, bool) else None
    )
    return End(completed, output if isinstance(output, list) else [])


def _failure_event(payload: Payload) -> ModelEvent:
    response = payload.get("response") or {}
    raise failed_response(response, _usage_of(response))


def _error(payload: Payload) -> ModelEvent:
    """Raise the error in an ``error`` event, which either is the error object or contains it.

    Over a WebSocket it may have a status and headers, as a separate response would have.
    """
    inner = payload.get("error")
    error: Payload = inner if isinstance(inner, dict) else payload
    if error.get("code") in _EXPIRED:
        raise ExpiredSocketError(_EXPIRED[error["code"]])
    status = payload.get("status", payload.get("status_code"))
    if isinstance(status, int) and 400 <= status < 600:
        raise _refusal(status, payload.get("headers"), payload)
    raise failed_response({"error": error})


def _refusal(status: int, headers: Any, body: Payload) -> ModelError:
    known = {str(name).lower(): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}
    return status_error(status, "", known, json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"), "")


def whole_response(instead: Sequence[str]) -> End | None:
    """Return the response that arrived as one JSON value instead of a stream of events, if any.

    Raises:
        ModelError: The response has failed, or is incomplete.
    """
    try:
        found = json.loads(instead[0]) if instead else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("error") or not isinstance(found.get("output"), list):
        return None
    return _end_of(found)


def unfinished(provider: str, path: str, instead: Sequence[str]) -> ModelError:
    """Return the error for a response that has ended early.

    Args:
        provider, path: As for :func:`~codex_lib_model_client.faults.no_response`.
        instead: The JSON that came in place of a stream of events. The error in it is shown, if there is one.
    """
    if not instead:
        return broken_stream(_UNFINISHED)
    data = instead[0]
    try:
        found = json.loads(data)
        error = found.get("error") if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        error = None
    if isinstance(error, (str, dict)) and error:
        from codex_lib_model_client.error_objects import error_of

        return error_of(error)
    return no_stream(no_response(provider, path, "stream of events", data))


def no_stream(cause: ModelError) -> ModelError:
    """Return the error for an answer that is not a stream of events: Codex's error, with the cause and its hint."""
    error = broken_stream(f"{_UNFINISHED} ({cause.fact})")
    error.slug, error.hint = cause.slug, cause.hint
    return error


def _incomplete(payload: Payload) -> ModelEvent:
    raise _incomplete_error(payload.get("response") or {})


def _incomplete_error(response: Payload) -> ModelError:
    error = incomplete_response(response, _usage_of(response))
    if error.fact.endswith(_FULL):
        return error
    again = broken_stream(error.fact)  # as Codex does: only a response that is full would end there again
    again.usage = error.usage
    return again


def _rate_limits(payload: Payload) -> ModelEvent | Sign:
    return event_limits(payload) or Sign.NOTHING


def _metadata(payload: Payload) -> list[ModelNotice]:
    from codex_plugin_openai.server_signals import metadata_notices  # of few servers

    return list(metadata_notices(payload))


def _text(delta: Any) -> str:
    if type(delta) is not str:
        raise TypeError("a delta must be a string")
    return delta


def _usage_of(response: Payload) -> TokenUsage | None:
    usage = response.get("usage")
    return _usage(usage) if isinstance(usage, dict) else None


def _usage(usage: Payload) -> TokenUsage:
    details = usage.get("input_tokens_details")
    return TokenUsage(
        input_tokens=_count(usage, "input_tokens"),
        cached_input_tokens=_count(details, "cached_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        reasoning_output_tokens=_count(usage.get("output_tokens_details"), "reasoning_tokens"),
        total_tokens=_count(usage, "total_tokens"),
        cache_write_input_tokens=_count(details, "cache_write_tokens"),
    )


def _count(numbers: Any, key: str) -> int:
    value = numbers.get(key) if isinstance(numbers, dict) else None
    return value if type(value) is int and value > 0 else 0


_DECODERS: dict[str, Callable[[Payload], ModelEvent | list[ModelNotice] | End | Sign]] = {
    "response.output_text.delta": _text_delta,
    "response.output_item.added": _item_added,
    "response.output_item.done": _item_done,
    "response.completed": _completion_event,
    "response.done": _completion_event,
    "response.failed": _failure_event,
    "response.incomplete": _incomplete,
    "response.custom_tool_call_input.delta": _tool_input_delta,
    "response.reasoning_summary_text.delta": _reasoning_summary_delta,
    "response.reasoning_summary_part.added": _reasoning_part_added,
    "response.reasoning_text.delta": _reasoning_text_delta,
    "codex.rate_limits": _rate_limits,
    "response.metadata": _metadata,
    "error": _error,
}
