"""Items of the conversation as messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from codex_framework import FunctionCall, InputImage, Message, ResponseItem, Value
from codex_framework.contract.protocol.items import (
    CallItem,
    ContentItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    LocalShellCall,
    OutputItem,
    Reasoning,
)
from codex_lib_model_client.call_pairing import SentIds
from codex_lib_model_client.functions import function_call
from codex_lib_model_client.message_texts import NO_OUTPUT, is_instruction, part_text, text_of
from codex_lib_model_client.private_data import private_data

__all__ = ["API", "Style", "exchange", "lead_text", "other_message"]

API = "chat"
"""The API whose private data is in reasoning items: ``field``, the keys of an object, and ``details``, as the server wrote them.

Only such reasoning is sent back. Servers refuse what came from another API.
"""

_DETAILS = ("low", "high", "auto")
_MOVED_NOTE = "[The image follows in the next message of the user.]"
_MOVED_TEXT = "The images that the tools returned:"


class Style(Value):
    """How messages are written.

    Attributes:
        images: Whether the model takes images.
        developer_role: As in the provider's table.
        send_reasoning: As in the provider's table.
        short_ids: Whether ids of calls have nine letters and digits.
    """

    images: bool
    developer_role: str
    send_reasoning: str
    short_ids: bool = False


def lead_text(item: ResponseItem) -> str:
    """Return the text of a developer message."""
    assert isinstance(item, Message)
    return text_of(item.content)


def other_message(item: ResponseItem, style: Style) -> dict[str, Any] | None:
    """Return the message for one of the user or the developer, or None if it is empty."""
    assert isinstance(item, Message)
    role = style.developer_role if is_instruction(item) else "user"
    content = _content(item.content, style)
    return {"role": role, "content": content} if content else None


def exchange(items: Iterable[ResponseItem], style: Style, ids: SentIds, *, reasoning: bool) -> list[dict[str, Any]]:
    """Return the messages for one output of the model, the outputs of its calls, and the items in between.

    A server expects one message with all calls, directly followed by their outputs in the same order.

    Args:
        ids: The ids of the calls and outputs among these items.
    """
    texts: list[str] = []
    thoughts: list[Reasoning] = []
    calls: list[CallItem] = []
    outputs: list[OutputItem] = []
    others: list[dict[str, Any]] = []
    for item in items:
        match item:
            case Message(role="assistant"):
                if (text := text_of(item.content)) and text not in texts[-1:]:
                    texts.append(text)
            case Reasoning():
                thoughts.append(item)
            case FunctionCall() | CustomToolCall() | LocalShellCall():
                calls.append(item)
            case FunctionCallOutput() | CustomToolCallOutput():
                outputs.append(item)
            case Message() if message := other_message(item, style):
                others.append(message)
            case _:
                pass  # items of servers that run tools themselves
    said = _assistant("\n\n".join(texts), calls, ids.calls, thoughts if reasoning else ())
    found = dict(zip(ids.outputs, outputs, strict=True))
    results, images = _results([(call_id, found[call_id]) for call_id in ids.calls if call_id in found], style)
    return [*([said] if said else []), *results, *([images] if images else []), *others]


def _assistant(
    text: str, calls: Sequence[CallItem], call_ids: Sequence[str], thoughts: Sequence[Reasoning]
) -> dict[str, Any] | None:
    if not text and not calls:
        return None
    message: dict[str, Any] = {"role": "assistant", "content": text or None, **_thoughts(thoughts)}
    if calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": dict(zip(("name", "arguments"), function_call(call), strict=True)),
            }
            for call_id, call in zip(call_ids, calls, strict=True)
        ]
    return message


def _thoughts(thoughts: Sequence[Reasoning]) -> dict[str, Any]:
    """Return the fields of a message for its reasoning, as the server wrote them."""
    fields: dict[str, Any] = {}
    for item in thoughts:
        mark = private_data(item, API)
        if mark is None:
            continue
        name, keys, details = mark.get("field"), mark.get("object"), mark.get("details")
        text = "".join(str(part.get("text", "")) for part in (*(item.content or ()), *item.summary))
        if isinstance(name, str) and (text or keys):
            whole = f"{_earlier_reasoning(fields.get(name))}{text}"
            fields[name] = {**keys, str(mark.get("text_key") or "text"): whole} if isinstance(keys, Mapping) else whole
        if isinstance(details, (list, tuple)):
            fields.setdefault("reasoning_details", []).extend(details)
    return fields


def _earlier_reasoning(value: Any) -> str:
    """Return the text of an earlier reasoning item of the same message."""
    if isinstance(value, Mapping):
        return "".join(str(text) for key, text in value.items() if key in ("text", "content", "summary"))
    return value or ""


def _results(
    outputs: Iterable[tuple[str, OutputItem]], style: Style
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return a message for the output of each call, by the ids of the calls, and the message with all their images."""
    results: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for call_id, output in outputs:
        text = output.output if isinstance(output.output, str) else _result_text(output.output, style, images)
        results.append({"role": "tool", "tool_call_id": call_id, "content": text or NO_OUTPUT})
    if not images:
        return results, None
    return results, {"role": "user", "content": [{"type": "text", "text": _MOVED_TEXT}, *images]}


def _result_text(parts: Sequence[ContentItem], style: Style, images: list[dict[str, Any]]) -> str:
    """Return the text of an output, and append its images to ``images``."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, InputImage) and style.images:
            images.append(_image(part))
            texts.append(_MOVED_NOTE)
        else:
            texts.append(part_text(part))
    return "\n".join(text for text in texts if text)


def _content(parts: Sequence[ContentItem], style: Style) -> str | list[dict[str, Any]]:
    """Return the content of a message: a text, which every server takes, unless there are images."""
    if not style.images or not any(isinstance(part, InputImage) for part in parts):
        return text_of(parts)
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, InputImage):
            content.append(_image(part))
        elif text := part_text(part):
            content.append({"type": "text", "text": text})
    return content


def _image(part: InputImage) -> dict[str, Any]:
    detail = "high" if part.detail == "original" else part.detail
    url = {"url": part.image_url, **({"detail": detail} if detail in _DETAILS else {})}
    return {"type": "image_url", "image_url": url}
