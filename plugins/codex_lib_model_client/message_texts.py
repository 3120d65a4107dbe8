"""Content of messages as text, for APIs that consist of messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework.contract.protocol.items import (
    ContentItem,
    InputImage,
    InputText,
    Message,
    OutputText,
    ResponseItem,
    UnknownContent,
)
from codex_framework.contract.protocol.wire import encode_json

__all__ = ["NO_OUTPUT", "is_instruction", "part_text", "text_of", "utf8", "whole_text"]

NO_OUTPUT = "(no output)"
"""The output for calls without output. Some servers refuse an empty one."""

_IMAGE_NOTE = "[An image was here. It was left out because this model takes no images.]"


def whole_text(pieces: Iterable[str]) -> str:
    """Join the pieces of a text. Some servers cut it within a character that has two code units in UTF-16, such as an emoji."""
    text = "".join(pieces)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text


def utf8(value: Any) -> bytes:
    """Encode JSON data. Lone surrogates become ``?``."""
    return encode_json(value).encode("utf-8", "replace")


def is_instruction(item: ResponseItem) -> bool:
    """Return whether an item is a message of the developer."""
    return isinstance(item, Message) and item.role in ("developer", "system")


def text_of(parts: Iterable[ContentItem]) -> str:
    """Return the text of content, with notes for everything else. Parts are separated by line breaks."""
    return "\n".join(text for text in map(part_text, parts) if text)


def part_text(part: ContentItem) -> str:
    """Return the text of a part of content, or a note that an image or an unknown part was here."""
    match part:
        case InputText(text=text) | OutputText(text=text):
            return text
        case InputImage():
            return _IMAGE_NOTE
        case UnknownContent(raw=raw):
            said = raw.get("text") or raw.get("refusal")
            return said if isinstance(said, str) else f"[Left out: {raw.get('type') or 'content'}]"
