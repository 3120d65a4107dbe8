"""The answers of the model servers in the fault schedules, in each API, and how their requests name what has arrived."""

from __future__ import annotations

import json
from typing import Any

from codex_framework.testing.wire import sse_event

__all__ = ["APIS", "ERROR", "Chat", "Messages", "Responses", "item_of", "name_of"]

ERROR = b'{"error":{"message":"It broke.","type":"server_error","code":"server_error"}}'


class Responses:
    vital = (b"output_item.done", b"response.completed")
    repeatable = (b"response.",)
    end = 1
    error = sse_event({"type": "error", **json.loads(ERROR)})

    @staticmethod
    def names(request: dict[str, Any]) -> list[str]:
        return [name_of(item) for item in request["input"]]

    @staticmethod
    def events(left: list[dict[str, Any]]) -> list[bytes]:
        events = [sse_event({"type": "response.created", "response": {"id": "r"}})]
        for item in left:
            added = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
            events.append(sse_event({"type": "response.output_item.added", "item": added}))
            if item["type"] == "message":
                events.append(sse_event({"type": "response.output_text.delta", "item_id": item["id"], "delta": "x"}))
            events.append(sse_event({"type": "response.output_item.done", "item": item}))
        end = {"id": "r", "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}
        return [*events, sse_event({"type": "response.completed", "response": end})]


class Chat:
    """A response has one message at most, and nothing tells a repeated piece of it from two equal ones."""

    vital = (b'"content"', b'"tool_calls"', b"finish_reason")
    repeatable = (b'"role"', b"finish_reason", b'"usage"', b"[DONE]")
    end = 3
    error = b"data: %b\n\n" % ERROR

    @staticmethod
    def names(request: dict[str, Any]) -> list[str]:
        names: list[str] = []
        for message in request["messages"]:
            if message["role"] == "tool":
                names.append(f"output of {message['tool_call_id']}")
            elif message["role"] == "assistant":
                names.extend((message["content"] or "").split("\n\n") if message["content"] else [])
                names.extend(call["id"] for call in message.get("tool_calls", ()))
        return names

    @staticmethod
    def events(left: list[dict[str, Any]]) -> list[bytes]:
        text = "".join(name_of(item) for item in left if item["type"] == "message")
        calls = [item for item in left if item["type"] == "function_call"]
        deltas: list[dict[str, Any]] = [{"role": "assistant"}, {"reasoning_content": "hm"}]
        deltas.extend({"content": part} for part in (text[:3], text[3:]) if part)
        for call in calls:
            for piece in (call["arguments"][:4], call["arguments"][4:]):
                function = {"name": call["name"], "arguments": piece}
                deltas.append({"tool_calls": [{"index": 0, "id": call["call_id"], "function": function}]})
        events = [_chunk({"delta": delta}) for delta in deltas]
        events.append(_chunk({"delta": {}, "finish_reason": "tool_calls" if calls else "stop"}))
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return [*events, b"data: %b\n\n" % json.dumps({"choices": [], "usage": usage}).encode(), b"data: [DONE]\n\n"]


class Messages:
    """Each message is a block of text, and a call is a block whose input comes in pieces."""

    vital = (b"content_block_", b"message_stop")
    repeatable = (b"message_start", b'"ping"', b"message_stop")
    end = 2
    error = sse_event({"type": "error", "error": {"type": "api_error", "message": "It broke."}})

    @staticmethod
    def names(request: dict[str, Any]) -> list[str]:
        names: list[str] = []
        for message in request["messages"]:
            for block in message["content"]:
                if block["type"] == "tool_result":
                    names.append(f"output of {block['tool_use_id']}")
                elif message["role"] == "assistant":
                    names.append(block["text"] if block["type"] == "text" else block["id"])
        return names

    @staticmethod
    def events(left: list[dict[str, Any]]) -> list[bytes]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        begin = {"id": "r", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        events = [{"type": "message_start", "message": begin}, {"type": "ping"}]
        for index, item in enumerate(left):
            place = {"index": index}
            if item["type"] == "message":
                text = name_of(item)
                block: dict[str, Any] = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": part} for part in (text[:3], text[3:])]
            else:
                block = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": {}}
                pieces = (item["arguments"][:4], item["arguments"][4:])
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            events.append({"type": "content_block_start", **place, "content_block": block})
            events.extend({"type": "content_block_delta", **place, "delta": delta} for delta in deltas)
            events.append({"type": "content_block_stop", **place})
        reason = "tool_use" if any(item["type"] == "function_call" for item in left) else "end_turn"
        events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}})
        return [sse_event(event) for event in (*events, {"type": "message_stop"})]


def _chunk(choice: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps({"id": "r", "choices": [{"index": 0, **choice}]}).encode()


def item_of(kind: str, number: int) -> dict[str, Any]:
    if kind == "call":
        arguments = json.dumps({"text": f"item {number} ☃"})
        call = {"name": "note", "arguments": arguments, "call_id": f"item_{number}_call"}
        return {"type": "function_call", "id": f"fc{number}", **call}
    text = f"item {number} " + "é🦀" * number
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg{number}", "role": "assistant", "content": content}


def name_of(item: dict[str, Any]) -> str:
    match item["type"]:
        case "function_call":
            return str(item["call_id"])
        case "function_call_output":
            return f"output of {item['call_id']}"
        case _:
            return str(item["content"][0]["text"])


APIS = {"responses": Responses, "chat/completions": Chat, "messages": Messages}
"""The APIs by the end of the path of their requests."""
