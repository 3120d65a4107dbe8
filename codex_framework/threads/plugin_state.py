"""Objects that plugins keep for one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from codex_framework.threads.faults import Label, refuse
from codex_framework.threads.plugin_calls import close

__all__ = [
    "PluginState",
]


T = TypeVar("T")


class PluginState:
    """Plugins' own objects for one thread, by key."""

    def __init__(self) -> None:
        self._objects: dict[object, tuple[str, Any]] = {}

    def get(self, key: object, factory: Callable[[], T], plugin: str) -> T:
        """Return the object under ``key``, created at first use.

        Args:
            plugin: The plugin that asks for it, for messages.
        """
        if key not in self._objects:
            if not callable(factory):
                refuse("a function that makes the object", factory, "state")
            self._objects[key] = plugin, factory()
        found: T = self._objects[key][1]
        return found

    async def aclose(self) -> list[tuple[str, str]]:
        """Close the objects that can be closed. Return the errors: the plugin's name and what went wrong."""
        problems = []
        for key, (plugin, kept) in list(self._objects.items()):
            if getattr(kept, "aclose", None) is None:
                continue
            if (fact := await close(Label("state", _key_name(key), plugin), kept)) is not None:
                problems.append((plugin, fact))
        self._objects.clear()
        return problems


def _key_name(key: object) -> str:
    return key if isinstance(key, str) else str(getattr(key, "__name__", None) or repr(key))
