"""Which items of a history are context."""

from __future__ import annotations

from codex_framework.contract.protocol.items import Message, ResponseItem, begins_turn

__all__ = ["is_context"]


def is_context(item: ResponseItem) -> bool:
    """Return whether the item is context that was inserted before the message with which a turn begins."""
    return isinstance(item, Message) and item.role != "assistant" and not begins_turn(item)
