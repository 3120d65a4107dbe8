"""Selects the notifications that a notifier delivers."""

from __future__ import annotations

from collections.abc import Collection

from codex_framework import Notification, Value

__all__ = ["Filter"]


class Filter(Value):
    """A filter.

    Attributes:
        kinds: The types that are delivered. By default, all that the plugin knows.
        min_turn_s: Shortest turn whose end is delivered, in seconds. Requests are always delivered, because the turn waits for
            them.
    """

    kinds: Collection[str] | None = None
    min_turn_s: float = 0.0

    def passes(self, notification: Notification) -> bool:
        """Return whether a notification is delivered."""
        if self.kinds is not None and notification.type not in self.kinds:
            return False
        return notification.duration_s is None or notification.duration_s >= self.min_turn_s
