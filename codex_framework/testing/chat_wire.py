"""Replies as the bytes of a Chat Completions stream."""

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

__all__ = ["CHAT", "ChatWire", "chat_completion", "chat_events"]


def chat_events(reply: Reply, number: int) -> list[bytes]:
    """Return the events of a stream as bytes, including faults that are final events, but not disconnects and pauses.

    Messages become ``content``, reasoning becomes ``reasoning_content``, and calls become ``tool_calls`` in pieces. A freeform call
    is the call of a function with the argument ``input``.
    """
    fault = reply.fault or Fault()
    reply = numbered(reply, number)
    chunk = _Chunks(number)
    events = [chunk.delta({"role": "assistant", "content": ""})]
    if fault.raw_before:
        events.append(fault.raw_before.encode())
    for item in reply.items:
        events.extend(chunk.delta(delta) for delta in _text_deltas(item, reply.deltas))
    calls = [item for item in reply.items if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall))]
    places = list(enumerate(calls))
    for index, call in reversed(places) if fault.out_of_order else places:
        events.extend(chunk.delta({"tool_calls": [piece]}) for piece in _call_pieces(index, call, reply.deltas))
    events.extend(_end_chunks(chunk, reply.usage, fault, has_calls=bool(calls)))
    if fault.raw_after:
        events.append(fault.raw_after.encode())
    return events


def chat_completion(reply: Reply, number: int = 1) -> dict[str, Any]:
    """Return a reply as the JSON of a server that does not stream."""
    reply = numbered(reply, number)
    calls = [item for item in reply.items if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall))]
    text = "".join(message_text(item) for item in reply.items if isinstance(item, Message))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [_whole_call(call) for call in calls]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    whole = {"id": f"chatcmpl-{number}", "object": "chat.completion", "choices": [choice]}
    return whole if reply.usage is None else {**whole, "usage": _usage(reply.usage)}


class _Chunks:
    def __init__(self, number: int) -> None:
        self._common = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "model": "test-model"}

    def delta(self, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        return self.data({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def data(self, fields: Mapping[str, Any]) -> bytes:
        return f"data: {json.dumps({**self._common, **fields}, separators=(',', ':'))}\n\n".encode()


def _text_deltas(item: ResponseItem, deltas: int) -> Iterator[dict[str, Any]]:
    match item:
        case Message():
            yield from ({"content": piece} for piece in pieces(message_text(item), deltas))
        case Reasoning(summary=summary):
            texts = [str(part.get("text", "")) for part in summary]
            yield from ({"reasoning_content": piece} for text in texts for piece in pieces(text, deltas))
        case _:
            return


def _call_pieces(
    index: int, call: FunctionCall | CustomToolCall | LocalShellCall, deltas: int
) -> Iterator[dict[str, Any]]:
    whole = _whole_call(call)
    function = whole["function"]
    yield {"index": index, **whole, "function": {"name": function["name"], "arguments": ""}}
    for piece in pieces(function["arguments"], max(deltas, 2)):
        yield {"index": index, "function": {"arguments": piece}}


def _whole_call(call: FunctionCall | CustomToolCall | LocalShellCall) -> dict[str, Any]:
    match call:
        case FunctionCall(name=name, arguments=arguments):
            pass
        case CustomToolCall(name=name, input=text):
            arguments = json.dumps({"input": text})
        case LocalShellCall(action=action):
            name, arguments = "local_shell", json.dumps({key: value for key, value in action.items() if key != "type"})
    return {"id": call.call_id or "", "type": "function", "function": {"name": name, "arguments": arguments}}


def _end_chunks(chunk: _Chunks, usage: TokenUsage | None, fault: Fault, *, has_calls: bool) -> Iterator[bytes]:
    if fault.failed is not None:
        yield f"data: {json.dumps({'error': dict(fault.failed)})}\n\n".encode()
        return
    if not fault.no_completed:
        cut = {"max_output_tokens": "length"}.get(fault.incomplete or "", fault.incomplete)
        yield chunk.delta({}, cut or ("tool_calls" if has_calls else "stop"))
    if usage is not None:
        yield chunk.data({"choices": [], "usage": _usage(usage)})
    if not fault.no_completed:
        yield b"data: [DONE]\n\n"


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens": usage.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_output_tokens},
        "total_tokens": usage.total_tokens,
    }


class ChatWire:
    """The Chat Completions API."""

    name = "chat"
    path = "/chat/completions"

    def events(self, reply: Reply, number: int, /) -> list[bytes]:
        """Return the events of a stream."""
        return chat_events(reply, number)


CHAT = ChatWire()
