"""The history after a compaction: the user's messages, within a budget, and the summary (as in Codex)."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import InputImage, InputText, Message, ResponseItem
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Reasoning,
    UnknownItem,
    is_user_message,
    message_text,
    user_message,
)
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.toolkit.truncation import token_count, truncate
from codex_plugin_compaction.prompt import NO_SUMMARY, SUMMARY_PREFIX

__all__ = [
    "USER_TOKENS",
    "compacted_items",
    "fitted",
    "is_reducible",
    "kept_messages",
    "missing_items",
    "shortened",
    "summary_text",
    "without_oldest",
]

USER_TOKENS = 20_000
"""Maximum number of tokens of the user's messages to keep in total."""

OMITTED_OUTPUT = "Output exceeded the available model context and was truncated"
"""Replaces an output for which the window has no room (Codex's words)."""

_IMAGE_TOKENS = token_count(7373)
"""The estimated tokens of an image (from Codex's estimate of its bytes)."""


def summary_text(said: str | None) -> str:
    """Return the text of the message that replaces the rest of the history."""
    return f"{SUMMARY_PREFIX}\n{said or NO_SUMMARY}"


def compacted_items(items: Sequence[ResponseItem], summary: str) -> list[ResponseItem]:
    """Return the shorter history: the user's newest messages in their order, then the summary.

    Earlier summaries and context are omitted. The oldest message that does not fit completely is truncated in the middle.
    """
    return [*kept_messages(items, USER_TOKENS), user_message(summary)]


def kept_messages(items: Sequence[ResponseItem], room: int) -> list[ResponseItem]:
    """Return the user's newest messages in their order, within ``room`` tokens. The oldest is truncated to fit."""
    kept: list[ResponseItem] = []
    for item in reversed(items):
        if room <= 0:
            break
        if not isinstance(item, Message) or not _is_of_person(item):
            continue
        size = _tokens(item)
        kept.append(item if size <= room else _truncate_message(item, room))
        room -= size
    return kept[::-1]


def without_oldest(items: Sequence[ResponseItem]) -> list[ResponseItem]:
    """Return the items without the first one, and without its output if it is a call."""
    first, rest = items[0], list(items[1:])
    if not isinstance(first, (FunctionCall, CustomToolCall, LocalShellCall)):
        return rest
    for place, item in enumerate(rest):
        if isinstance(item, (FunctionCallOutput, CustomToolCallOutput)) and item.call_id == first.call_id:
            return [*rest[:place], *rest[place + 1 :]]
    return rest


def is_reducible(items: Sequence[ResponseItem]) -> bool:
    """Return whether a compaction makes a history shorter. It keeps people's messages, and context is collected again."""
    messages = [item for item in items if isinstance(item, Message) and item.role != "assistant"]
    return len(messages) < len(items) or sum(map(_tokens, filter(_is_of_person, messages))) > USER_TOKENS


def shortened(items: Sequence[ResponseItem], share: float) -> list[ResponseItem]:
    """Return about this share of the items: without outputs of tools, the newest first, and without the oldest items if need be."""
    room = int(sum(map(_estimate, items)) * share)
    result, _ = fitted(items, room)
    total = sum(map(_estimate, result))
    while result and total > room:
        shorter = without_oldest(result)
        total -= sum(map(_estimate, result[: len(result) - len(shorter)]))
        result = shorter
    return result


def missing_items(items: Sequence[ResponseItem], shorter: Sequence[ResponseItem]) -> str:
    """Return the items that are missing from the shorter of two histories, in words. May be empty."""
    oldest = len(items) - len(shorter)
    outputs = sum(
        isinstance(item, (FunctionCallOutput, CustomToolCallOutput)) and item.output == OMITTED_OUTPUT
        for item in shorter
    )
    parts = [f"{outputs} outputs of tools"] * bool(outputs) + [f"the {oldest} oldest items"] * bool(oldest)
    return " and ".join(parts)


def fitted(items: Sequence[ResponseItem], room: int) -> tuple[list[ResponseItem], int]:
    """Return the items within an estimated ``room`` tokens, if omitting outputs of tools suffices, and how many were omitted.

    The newest are omitted first, because they filled the window.
    """
    sizes = [_estimate(item) for item in items]
    excess, omitted, result = sum(sizes) - room, 0, list(items)
    for place in range(len(result) - 1, -1, -1):
        if excess <= 0:
            break
        item = result[place]
        if isinstance(item, (FunctionCallOutput, CustomToolCallOutput)) and sizes[place] > _text_tokens(OMITTED_OUTPUT):
            result[place] = type(item)(call_id=item.call_id, output=OMITTED_OUTPUT)
            excess -= sizes[place] - _text_tokens(OMITTED_OUTPUT)
            omitted += 1
    return result, omitted


def _estimate(item: ResponseItem) -> int:
    """Return the estimated tokens of an item. Encrypted content is not counted, because only the server knows its length."""
    if isinstance(item, Message):
        return _tokens(item)
    if isinstance(item, (FunctionCallOutput, CustomToolCallOutput)):
        if isinstance(item.output, str):
            return _text_tokens(item.output)
        images = sum(isinstance(part, InputImage) for part in item.output)
        texts = [part.text for part in item.output if isinstance(part, InputText)]
        return _text_tokens("".join(texts)) + images * _IMAGE_TOKENS
    if isinstance(item, (Reasoning, UnknownItem)):
        return 0
    return token_count(len(encode_item(item)))


def _is_of_person(item: Message) -> bool:
    return is_user_message(item) and not message_text(item).lstrip().startswith(SUMMARY_PREFIX)


def _tokens(item: Message) -> int:
    images = sum(isinstance(part, InputImage) for part in item.content)
    return _text_tokens(message_text(item)) + images * _IMAGE_TOKENS


def _text_tokens(text: str) -> int:
    return token_count(len(text.encode("utf-8", "surrogatepass")))


def _truncate_message(item: Message, room: int) -> Message:
    """Return the message within ``room`` tokens: its text, truncated in the middle, and the images that still fit."""
    text = message_text(item)
    left = room - _text_tokens(text)
    images = [part for part in item.content if isinstance(part, InputImage)][: max(left, 0) // _IMAGE_TOKENS]
    return Message("user", (InputText(truncate(text, ("tokens", room))), *images))
