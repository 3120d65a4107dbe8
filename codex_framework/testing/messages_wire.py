"""Replies as the bytes of an Anthropic Messages stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    Message,
    Reasoning,
    ResponseItem,
    message_text,
)
from codex_framework.testing.scripted import Fault, Reply, numbered, pieces
from codex_framework.testing.wire import sse_event

__all__ = ["MESSAGES", "MessagesWire", "message_events", "whole_message"]

_NO_USAGE = TokenUsage()


def message_events(reply: Reply, number: int) -> list[bytes]:
    """Return the events of a stream as bytes, including faults that are final events, but not disconnects and pauses.

    Messages become ``text`` blocks, reasoning becomes ``thinking`` with a signature, or ``redacted_thinking`` if it has no
    text, and calls become ``tool_use``. A freeform call is the call of a function with the argument ``input``.
    """
    fault = reply.fault or Fault()
    reply = numbered(reply, number)
    start = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "test-model", "content": []}
    usage = reply.usage or _NO_USAGE
    events = [sse_event({"type": "message_start", "message": {**start, "usage": _usage(usage, output=1)}})]
    if fault.raw_before:
        events.append(fault.raw_before.encode())
    events.append(sse_event({"type": "ping"}))
    blocks = [list(_block_events(index, item, reply.deltas)) for index, item in enumerate(reply.items)]
    if fault.out_of_order:
        blocks.reverse()
    events.extend(sse_event(event) for block in blocks for event in block)
    events.extend(sse_event(event) for event in _end_events(reply, usage, fault))
    if fault.raw_after:
        events.append(fault.raw_after.encode())
    return events


def whole_message(reply: Reply, number: int = 1) -> dict[str, Any]:
    """Return a reply as the JSON of a server that does not stream."""
    reply = numbered(reply, number)
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "content": [_whole_block(item) for item in reply.items],
        "stop_reason": _stop_reason(reply, reply.fault or Fault()),
        "usage": _usage(reply.usage or _NO_USAGE),
    }


def _block_events(index: int, item: ResponseItem, deltas: int) -> Iterator[dict[str, Any]]:
    block = _whole_block(item)
    place = {"index": index}
    kind = block["type"]
    if kind == "tool_use":
        begun, changes = {**block, "input": {}}, _input_deltas(block, deltas)
    elif kind == "text":
        begun = {**block, "text": ""}
        changes = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], deltas)]
    elif kind == "thinking":
        begun = {**block, "thinking": "", "signature": ""}
        changes = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"], deltas)]
        changes.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        begun, changes = block, []
    yield {"type": "content_block_start", **place, "content_block": begun}
    for change in changes:
        yield {"type": "content_block_delta", **place, "delta": change}
    yield {"type": "content_block_stop", **place}


def _input_deltas(block: Mapping[str, Any], deltas: int) -> list[dict[str, Any]]:
    text = json.dumps(block["input"])
    return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(text, max(deltas, 2)))]


def _whole_block(item: ResponseItem) -> dict[str, Any]:
    match item:
        case Message():
            return {"type": "text", "text": message_text(item)}
        case Reasoning(id=item_id, summary=summary):
            text = "".join(str(part.get("text", "")) for part in summary)
            if not text:
                return {"type": "redacted_thinking", "data": f"data-of-{item_id}"}
            return {"type": "thinking", "thinking": text, "signature": f"signature-of-{item_id}"}
        case FunctionCall(name=name, arguments=arguments, call_id=call_id):
            return {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}
        case CustomToolCall(name=name, input=text, call_id=call_id):
            return {"type": "tool_use", "id": call_id, "name": name, "input": {"input": text}}
        case LocalShellCall(action=action, call_id=call_id):
            fields = {key: value for key, value in action.items() if key != "type"}
            return {"type": "tool_use", "id": call_id, "name": "local_shell", "input": fields}
        case _:
            return {"type": "unknown"}


def _end_events(reply: Reply, usage: TokenUsage, fault: Fault) -> Iterator[dict[str, Any]]:
    if fault.failed is not None:
        yield {"type": "error", "error": {"type": fault.failed.get("code", "api_error"), **fault.failed}}
    elif not fault.no_completed:
        delta = {"stop_reason": _stop_reason(reply, fault), "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage.output_tokens}}
        yield {"type": "message_stop"}


def _stop_reason(reply: Reply, fault: Fault) -> str:
    if fault.incomplete is not None:
        reasons = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
        return reasons.get(fault.incomplete, fault.incomplete)
    if reply.end_turn is False:
        return "pause_turn"
    calls = any(isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall)) for item in reply.items)
    return "tool_use" if calls else "end_turn"


def _usage(usage: TokenUsage, output: int | None = None) -> dict[str, int]:
    """Return the usage. In this API, ``input_tokens`` does not include cached tokens."""
    cached = usage.cached_input_tokens + usage.cache_write_input_tokens
    return {
        "input_tokens": max(usage.input_tokens - cached, 0),
        "cache_creation_input_tokens": usage.cache_write_input_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens if output is None else output,
    }


class MessagesWire:
    """The Messages API of Anthropic."""

    name = "messages"
    path = "/messages"

    def events(self, reply: Reply, number: int, /) -> list[bytes]:
        """Return the events of a stream."""
        return message_events(reply, number)


MESSAGES = MessagesWire()
