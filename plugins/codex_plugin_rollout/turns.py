"""Classification of history items: injected context and user messages."""

from __future__ import annotations

from codex_framework.contract.protocol.items import CONTEXT_MARKS, Message, ResponseItem, message_text

__all__ = ["is_context", "is_user_message"]


def is_context(item: ResponseItem) -> bool:
    """Return whether the item is context that was inserted before the user's message."""
    return isinstance(item, Message) and (item.role in ("developer", "system") or _is_contextual_user(item))


def is_user_message(item: ResponseItem) -> bool:
    """Return whether the item is a message that the user wrote."""
    return isinstance(item, Message) and item.role == "user" and not _is_contextual_user(item)


def _is_contextual_user(item: Message) -> bool:
    return item.role == "user" and message_text(item).lstrip().startswith(CONTEXT_MARKS)
