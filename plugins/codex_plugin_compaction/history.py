"""The history after a compaction: the user's messages, within a budget, and the summary (as in Codex)."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import InputImage, InputText, Message, ResponseItem
from codex_framework.contract.protocol.items import (
    CONTEXT_MARKS,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    message_text,
    user_message,
)
from codex_framework.toolkit.truncation import token_count, truncate
from codex_plugin_compaction.prompt import NO_SUMMARY, SUMMARY_PREFIX

__all__ = ["USER_TOKENS", "compacted_items", "summary_text", "without_oldest"]

USER_TOKENS = 20_000
"""Maximum number of tokens of the user's messages to keep in total."""

_IMAGE_TOKENS = token_count(7373)
"""The estimated tokens of an image (from Codex's estimate of its bytes)."""


def summary_text(said: str | None) -> str:
    """Return the text of the message that replaces the rest of the history."""
    return f"{SUMMARY_PREFIX}\n{said or NO_SUMMARY}"


def compacted_items(items: Sequence[ResponseItem], summary: str) -> list[ResponseItem]:
    """Return the shorter history: the user's newest messages in their order, then the summary.

    Earlier summaries and context are omitted. The oldest message that does not fit completely is truncated in the middle.
    """
    room = USER_TOKENS
    kept: list[ResponseItem] = []
    for item in reversed(items):
        if room <= 0:
            break
        if not isinstance(item, Message) or not _is_of_person(item):
            continue
        size = _tokens(item)
        kept.append(item if size <= room else _cut(item, room))
        room -= size
    return [*reversed(kept), user_message(summary)]


def without_oldest(items: Sequence[ResponseItem]) -> list[ResponseItem]:
    """Return the items without the first one, and without its output if it is a call."""
    first, rest = items[0], list(items[1:])
    if not isinstance(first, (FunctionCall, CustomToolCall, LocalShellCall)):
        return rest
    for place, item in enumerate(rest):
        if isinstance(item, (FunctionCallOutput, CustomToolCallOutput)) and item.call_id == first.call_id:
            return [*rest[:place], *rest[place + 1 :]]
    return rest


def _is_of_person(item: Message) -> bool:
    return item.role == "user" and not message_text(item).lstrip().startswith((*CONTEXT_MARKS, SUMMARY_PREFIX))


def _tokens(item: Message) -> int:
    images = sum(isinstance(part, InputImage) for part in item.content)
    return _text_tokens(message_text(item)) + images * _IMAGE_TOKENS


def _text_tokens(text: str) -> int:
    return token_count(len(text.encode("utf-8", "surrogatepass")))


def _cut(item: Message, room: int) -> Message:
    """Return the message within ``room`` tokens: its text, truncated in the middle, and the images that still fit."""
    text = message_text(item)
    left = room - _text_tokens(text)
    images = [part for part in item.content if isinstance(part, InputImage)][: max(left, 0) // _IMAGE_TOKENS]
    return Message("user", (InputText(truncate(text, ("tokens", room))), *images))
