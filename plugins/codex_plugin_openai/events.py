"""Decoding of the events in a Responses stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from codex_framework import Completed, ItemAdded, ItemDone, ModelEvent, ReasoningDelta, TextDelta
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.wire import read_item
from codex_framework.contract.roles.models import ReasoningPartAdded, ToolInputDelta
from codex_plugin_openai.faults import failed_response, incomplete_response

__all__ = ["decode"]

Payload: TypeAlias = Mapping[str, Any]


def decode(data: str) -> ModelEvent | None:
    """Decode one event.

    None means that the event is not used: it is not a JSON object, its type is unknown, or a required field is missing.

    Raises:
        ModelError: The event reports that the response has failed.
    """
    try:
        payload = json.loads(data)
        decoder = _DECODERS.get(payload["type"])
        return None if decoder is None else decoder(payload)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # not JSON, not an event, or not in the form of its type: ignored like an unknown event


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
    return ItemAdded(read_item(payload["item"]))


def _item_done(payload: Payload) -> ModelEvent:
    return ItemDone(read_item(payload["item"]))


def _completed(payload: Payload) -> ModelEvent:
    response = payload["response"]
    usage, end_turn = response.get("usage"), response.get("end_turn")
    return Completed(
        str(response.get("id") or ""),
        _usage(usage) if isinstance(usage, dict) else None,
        end_turn if isinstance(end_turn, bool) else None,
    )


def _failed(payload: Payload) -> ModelEvent:
    raise failed_response(payload.get("response") or {})


def _error(payload: Payload) -> ModelEvent:
    """Handle an ``error`` event. It either is the error object or contains it."""
    inner = payload.get("error")
    raise failed_response({"error": inner if isinstance(inner, dict) else payload})


def _incomplete(payload: Payload) -> ModelEvent:
    raise incomplete_response(payload.get("response") or {})


def _text(delta: Any) -> str:
    if type(delta) is not str:
        raise TypeError("a delta must be a string")
    return delta


def _usage(usage: Payload) -> TokenUsage:
    details = usage.get("input_tokens_details") or {}
    return TokenUsage(
        input_tokens=_count(usage, "input_tokens"),
        cached_input_tokens=_count(details, "cached_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        reasoning_output_tokens=_count(usage.get("output_tokens_details") or {}, "reasoning_tokens"),
        total_tokens=_count(usage, "total_tokens"),
        cache_write_input_tokens=_count(details, "cache_write_tokens"),
    )


def _count(numbers: Payload, key: str) -> int:
    value = numbers.get(key)
    return value if isinstance(value, int) else 0


_DECODERS: dict[str, Callable[[Payload], ModelEvent]] = {
    "response.output_text.delta": _text_delta,
    "response.output_item.added": _item_added,
    "response.output_item.done": _item_done,
    "response.completed": _completed,
    "response.done": _completed,
    "response.failed": _failed,
    "response.incomplete": _incomplete,
    "response.custom_tool_call_input.delta": _tool_input_delta,
    "response.reasoning_summary_text.delta": _reasoning_summary_delta,
    "response.reasoning_summary_part.added": _reasoning_part_added,
    "response.reasoning_text.delta": _reasoning_text_delta,
    "error": _error,
}
