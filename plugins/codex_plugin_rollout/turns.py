"""Where the turns of a history begin, and what in it a person has said."""

from __future__ import annotations

from codex_framework.protocol.items import CONTEXT_MARKS, Message, ResponseItem, message_text

__all__ = ["is_context", "is_persons_message"]


def is_context(item: ResponseItem) -> bool:
    """Whether the item is context that was put before the words of a person."""
    return isinstance(item, Message) and (item.role in ("developer", "system") or _is_contextual_user(item))


def is_persons_message(item: ResponseItem) -> bool:
    """Whether a person wrote the item."""
    return isinstance(item, Message) and item.role == "user" and not _is_contextual_user(item)


def _is_contextual_user(item: Message) -> bool:
    return item.role == "user" and message_text(item).lstrip().startswith(CONTEXT_MARKS)
