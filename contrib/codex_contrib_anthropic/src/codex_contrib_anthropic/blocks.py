"""Items of the conversation as content blocks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from codex_framework import FunctionCall, InputImage, Message, ResponseItem
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
from codex_framework.toolkit.model_server.exchanges import call_ids
from codex_framework.toolkit.model_server.functions import function_call
from codex_framework.toolkit.model_server.message_texts import NO_OUTPUT, is_instruction, part_text, text_of, utf8
from codex_framework.toolkit.model_server.private_data import private_data

__all__ = [
    "API",
    "answer_blocks",
    "has_unsupported_image",
    "said_blocks",
    "thoughts_in",
    "tool_ids",
    "words_blocks",
]

API = "messages"
"""The API whose private data is in reasoning items: ``signature`` or ``redacted``, and ``response``, the response's id.

Only such reasoning is sent back. Servers refuse what came from another API.
"""

_FORMAT_NOTE = "[An image was here. It was left out because its format is unsupported.]"
_DATA_URL = re.compile(r"data:image/(png|jpe?g|gif|webp)(?:;[^;,]+)*;base64,(.+)", re.DOTALL | re.IGNORECASE)
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")


def has_unsupported_image(item: ResponseItem) -> bool:
    """Return whether an image of an item is in a format that the API does not take."""
    match item:
        case Message(content=parts):
            pass
        case FunctionCallOutput(output=parts) | CustomToolCallOutput(output=parts) if not isinstance(parts, str):
            pass
        case _:
            return False
    return any(isinstance(part, InputImage) and _source(part.image_url) is None for part in parts)


def words_blocks(item: Message, *, images: bool) -> list[bytes]:
    """Return the blocks of a message of the user or the developer. A developer's text says that it is one."""
    blocks = [utf8(block) for block in _content(item.content, images=images)]
    if not is_instruction(item):
        return blocks
    text = text_of(item.content)
    return [utf8(_text(f"<developer_message>\n{text}\n</developer_message>"))] if text.strip() else []


def tool_ids(items: Iterable[ResponseItem], taken: Collection[str]) -> list[str]:
    """Return an id for each call of a group, with the characters that this API allows, and which no other call has.

    Args:
        taken: The ids of earlier calls.
    """
    ids: list[str] = []
    for call_id in call_ids(_calls(items)):
        allowed = unused = _NOT_IN_IDS.sub("_", call_id)
        number = 1
        while unused in taken or unused in ids:
            number += 1
            unused = f"{allowed}_{number}"
        ids.append(unused)
    return ids


def _calls(items: Iterable[ResponseItem]) -> list[CallItem]:
    return [item for item in items if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall))]


def thoughts_in(items: Iterable[ResponseItem]) -> frozenset[str]:
    """Return the signatures, or the encrypted forms, of the thoughts among some items."""
    marks = (private_data(item, API) for item in items if isinstance(item, Reasoning))
    return frozenset(_signature(mark) for mark in marks if mark is not None)


def said_blocks(items: Sequence[ResponseItem], tools: Iterable[str], refused: Collection[str] = ()) -> list[bytes]:
    """Return the blocks of what the model said at once, in its order. Servers refuse a message that ends with a thought.

    Args:
        tools: The ids of its calls (see :func:`tool_ids`).
        refused: The thoughts to leave out (see :func:`thoughts_in`).
    """
    ids = iter(tools)
    blocks: list[bytes] = []
    whole = 0
    for place, item in enumerate(items):
        match item:
            case Message(role="assistant", content=content) if (text := text_of(content)).strip():
                blocks.append(utf8(_text(text)))
                whole = len(blocks)
            case Reasoning():
                following = items[place + 1] if place + 1 < len(items) else None
                if block := _thinking(item, following, refused):
                    blocks.append(utf8(block))
            case FunctionCall() | CustomToolCall() | LocalShellCall():
                blocks.append(_use(next(ids), item))
                whole = len(blocks)
            case _:
                pass  # the outputs, what came in between, and items of servers that run tools themselves
    return blocks[:whole]


def answer_blocks(items: Sequence[ResponseItem], tools: Iterable[str], *, images: bool) -> list[bytes]:
    """Return the blocks of the outputs, in the order of the calls, and of what came in between.

    Args:
        tools: The ids of the calls (see :func:`tool_ids`).
    """
    outputs = [item for item in items if isinstance(item, (FunctionCallOutput, CustomToolCallOutput))]
    found = dict(zip(call_ids(outputs), outputs, strict=True))
    blocks = [
        utf8(_result(name, found[call_id], images=images))
        for name, call_id in zip(tools, call_ids(_calls(items)), strict=True)
        if call_id in found
    ]
    for item in items:
        if isinstance(item, Message) and item.role != "assistant":
            blocks.extend(words_blocks(item, images=images))
    return blocks


def _use(call_id: str, call: CallItem) -> bytes:
    name, arguments = function_call(call)
    head = utf8({"type": "tool_use", "id": call_id, "name": name})
    return head[:-1] + b',"input":' + arguments.encode("utf-8", "replace") + b"}"


def _result(call_id: str, output: OutputItem, *, images: bool) -> dict[str, Any]:
    content: str | list[dict[str, Any]]
    if isinstance(output.output, str):
        content = output.output if output.output.strip() else NO_OUTPUT
    else:
        content = _content(output.output, images=images) or NO_OUTPUT
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def _signature(mark: Mapping[str, Any]) -> str:
    return str(mark.get("redacted") or mark.get("signature") or "")


def _thinking(item: Reasoning, following: ResponseItem | None, refused: Collection[str]) -> dict[str, Any] | None:
    """Return the block of reasoning, or None if it is refused, from another API, or all that is left of a response that broke off."""
    mark = private_data(item, API)
    if mark is None or _signature(mark) in refused:
        return None
    other = None if following is None else private_data(following, API)
    if other is not None and other.get("response") != mark.get("response"):
        return None
    if isinstance(mark.get("redacted"), str):
        return {"type": "redacted_thinking", "data": mark["redacted"]}
    signature = mark.get("signature")
    if not isinstance(signature, str) or not signature:
        return None
    return {"type": "thinking", "thinking": str(mark.get("text", _summary(item))), "signature": signature}


def _summary(item: Reasoning) -> str:
    return "".join(str(part.get("text", "")) for part in item.summary)


def _content(parts: Sequence[ContentItem], *, images: bool) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        block = _image(part) if isinstance(part, InputImage) and images else _text(part_text(part))
        if block.get("text", "-").strip():  # servers refuse blocks of blanks
            blocks.append(block)
    return blocks


def _image(part: InputImage) -> dict[str, Any]:
    source = _source(part.image_url)
    return _text(_FORMAT_NOTE) if source is None else {"type": "image", "source": source}


def _source(url: str) -> dict[str, str] | None:
    """Return where an image is, or None if its format is unsupported."""
    if url.startswith("https://"):
        return {"type": "url", "url": url}
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return None
    kind = found[1].lower().replace("jpg", "jpeg")
    return {"type": "base64", "media_type": f"image/{kind}", "data": found[2]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
