"""Objects that plugins keep for one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from codex_framework.threads.faults import explained, source_place
from codex_framework.threads.patience import Late, within

__all__ = [
    "PluginState",
]


T = TypeVar("T")

CLOSE_PATIENCE_S = 5.0
"""How long one object may take to close, in seconds."""


class PluginState:
    """Plugins' own objects for one thread, by key."""

    def __init__(self) -> None:
        self._objects: dict[object, Any] = {}

    def get(self, key: object, factory: Callable[[], T]) -> T:
        """Return the object under ``key``, created at first use."""
        if key not in self._objects:
            self._objects[key] = factory()
        found: T = self._objects[key]
        return found

    async def aclose(self) -> list[str]:
        """Close the objects that can be closed. Return warnings for the user."""
        problems = []
        for key, kept in list(self._objects.items()):
            close = getattr(kept, "aclose", None)
            if close is None:
                continue
            try:
                await within(CLOSE_PATIENCE_S, close)
            except Late:
                problems.append(f"closing {key!r} did not end within {CLOSE_PATIENCE_S:g} s{source_place(close)}")
            except Exception as error:  # a plugin's object may fail in any way; the others must still be closed
                problems.append(f"closing {key!r} failed: {explained(error)}")
        self._objects.clear()
        return problems
