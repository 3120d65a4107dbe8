"""The mail of one agent that its model has not read yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from codex_framework import ResponseItem, ToolError

__all__ = ["Mailbox"]

_MOST, _LARGEST = 64, 4 << 20
"""How many unread messages an agent may have, and their length in characters. So agents cannot fill one another's memory."""


class _Unread(NamedTuple):
    item: ResponseItem
    length: int
    position: int
    before: ResponseItem | None

    def is_outlived(self, history: Sequence[ResponseItem]) -> bool:
        """Return whether the history was replaced after the message came, for example compacted: it may not contain it any more."""
        if self.before is None:
            return len(history) > 0
        return len(history) < self.position or history[self.position - 1] is not self.before


class Mailbox:
    """The unread messages. A message is read when it is in the history, from which the model's next request is made.

    When a history is compacted, every message so far was in it, or is added before the model's next request. So messages that
    are not found count as read too. Otherwise they would stay unread forever, and each wait would end immediately.
    """

    def __init__(self) -> None:
        self._unread: list[_Unread] = []
        self._arrived = asyncio.Event()

    def check_room(self, length: int, history: Sequence[ResponseItem]) -> None:
        """Check that there is room for a message.

        Args:
            length: The message's length in characters.

        Raises:
            ToolError: The agent has too many messages that it has not read.
        """
        self._forget_read(history)
        if len(self._unread) >= _MOST or sum(entry.length for entry in self._unread) + length > _LARGEST:
            raise ToolError("the agent has too many messages that it has not read: wait until it has read them")

    def add(self, item: ResponseItem, length: int, history: Sequence[ResponseItem]) -> None:
        """Add a message that is about to be delivered."""
        self._unread.append(_Unread(item, length, len(history), history[-1] if history else None))
        self._arrived.set()

    async def wait(
        self, history: Sequence[ResponseItem], limit_s: float, other: asyncio.Future[None] | None = None
    ) -> bool:
        """Wait for a message, and return whether there is one. False means that the time is over first, or ``other`` done."""
        self._forget_read(history)
        if self._unread:
            return True
        self._arrived.clear()
        arrived = asyncio.ensure_future(self._arrived.wait())
        try:
            await asyncio.wait(
                (arrived,) if other is None else (arrived, other), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            arrived.cancel()
        return self._arrived.is_set()

    def _forget_read(self, history: Sequence[ResponseItem]) -> None:
        """Forget the messages that are in the history. Each item matches one message, and never an earlier one."""
        if not self._unread:
            return
        first = min(entry.position for entry in self._unread)
        found = list(history[first:] if first <= len(history) else history)
        left = []
        for entry in self._unread:
            place = next((index for index, item in enumerate(found) if item is entry.item or item == entry.item), None)
            if place is not None:
                del found[place]
            elif not entry.is_outlived(history):
                left.append(entry)
        self._unread = left
