"""Replies as the bytes of a Responses stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.wire import to_wire
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
from codex_framework.testing.scripted import Fault, Reply, reply_events

__all__ = ["RESPONSES", "Wire", "reply_bytes", "sse_event", "stream_events"]


class Wire(Protocol):
    """An API of model servers, for :class:`~codex_framework.testing.server.ModelServer`."""

    @property
    def name(self) -> str:
        """Its name, as in ``wire_api``."""
        ...

    @property
    def path(self) -> str:
        """The end of the path to which requests are posted."""
        ...

    def events(self, reply: Reply, number: int, /) -> list[bytes]:
        """Return the events of a reply as bytes, and the event that ends the response last.

        ``reply.fault`` may ask for faults that only the API can express: ``failed``, ``incomplete``, ``out_of_order``,
        ``raw_before``. Ignore faults that the API cannot express; ``raw_before`` is the text of server-sent comments. The
        server itself breaks connections, repeats and cuts events, and omits the last one for ``no_completed``, unless events
        are already missing.
        """
        ...


def reply_bytes(wire: Wire, reply: Reply, number: int) -> list[bytes]:
    """Return the events of a reply, without the last one if the API ignores ``no_completed``."""
    events = wire.events(reply, number)
    if reply.fault is None or not reply.fault.no_completed:
        return events
    whole = wire.events(reply.evolve(fault=reply.fault.evolve(no_completed=False)), number)
    return events if len(events) < len(whole) else events[:-1]


def sse_event(payload: Mapping[str, Any]) -> bytes:
    """Encode one server-sent event, named after its ``type``."""
    return f"event: {payload['type']}\ndata: {json.dumps(payload, separators=(',', ':'))}\n\n".encode()


def stream_events(reply: Reply, number: int) -> list[bytes]:
    """Return the events of a stream as bytes, including faults that are final events, but not disconnects and pauses."""
    fault = reply.fault or Fault()
    response = {"id": f"resp_{number}", "object": "response"}
    events = [sse_event({"type": "response.created", "response": {**response, "status": "in_progress"}})]
    if fault.raw_before:
        events.append(fault.raw_before.encode())
    index = -1
    model_events = reply_events(reply, number)
    if fault.out_of_order:
        model_events = _reverse_items(model_events)
    for sequence, event in enumerate(model_events, 1):
        if isinstance(event, ItemAdded):
            index += 1
        if isinstance(event, Completed):
            events.extend(_end_events(event, fault, response))
        else:
            events.extend(sse_event(payload) for payload in _payloads(event, index, sequence))
    if fault.raw_after:
        events.append(fault.raw_after.encode())
    return events


def _reverse_items(events: list[ModelEvent]) -> list[ModelEvent]:
    starts = [place for place, event in enumerate(events) if isinstance(event, ItemAdded)]
    blocks = [events[start:stop] for start, stop in zip(starts, [*starts[1:], -1], strict=True)]
    return [*(event for block in reversed(blocks) for event in block), events[-1]]


def _end_events(event: Completed, fault: Fault, response: Mapping[str, Any]) -> Iterator[bytes]:
    if fault.failed is not None:
        failed = {**response, "status": "failed", "error": dict(fault.failed)}
        yield sse_event({"type": "response.failed", "response": failed})
    elif fault.incomplete is not None:
        cut = {**response, "status": "incomplete", "incomplete_details": {"reason": fault.incomplete}}
        yield sse_event({"type": "response.incomplete", "response": cut})
    elif not fault.no_completed:
        whole: dict[str, Any] = {**response, "status": "completed"}
        if event.usage is not None:
            whole["usage"] = _usage(event.usage)
        if event.end_turn is not None:
            whole["end_turn"] = event.end_turn
        yield sse_event({"type": "response.completed", "response": whole})


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_output_tokens},
        "total_tokens": usage.total_tokens,
    }


def _payloads(event: ModelEvent, index: int, sequence: int) -> Iterator[dict[str, Any]]:
    place = {"sequence_number": sequence, "output_index": index}
    match event:
        case ItemAdded(item):
            yield {"type": "response.output_item.added", **place, "item": to_wire(item)}
        case ItemDone(item):
            wire = to_wire(item)
            if wire.get("type") == "function_call":
                arguments = {**place, "item_id": wire.get("id")}
                yield {"type": "response.function_call_arguments.delta", **arguments, "delta": wire["arguments"]}
                yield {"type": "response.function_call_arguments.done", **arguments, "arguments": wire["arguments"]}
            yield {"type": "response.output_item.done", **place, "item": wire}
        case TextDelta(item_id, delta):
            text = {"item_id": item_id, "content_index": 0, "delta": delta, "logprobs": []}
            yield {"type": "response.output_text.delta", **place, **text}
        case ReasoningPartAdded(item_id, part):
            added = {"item_id": item_id, "summary_index": part, "part": {"type": "summary_text", "text": ""}}
            yield {"type": "response.reasoning_summary_part.added", **place, **added}
        case ReasoningDelta(item_id, delta, part, raw):
            kind = "response.reasoning_text.delta" if raw else "response.reasoning_summary_text.delta"
            key = "content_index" if raw else "summary_index"
            yield {"type": kind, **place, "item_id": item_id, key: part, "delta": delta}
        case ToolInputDelta(item_id, delta):
            yield {"type": "response.custom_tool_call_input.delta", **place, "item_id": item_id, "delta": delta}
        case _:
            return


class ResponsesWire:
    """The Responses API."""

    name = "responses"
    path = "/responses"

    def events(self, reply: Reply, number: int, /) -> list[bytes]:
        """Return the events of a stream."""
        return stream_events(reply, number)


RESPONSES = ResponsesWire()
