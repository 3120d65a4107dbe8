"""What the views of kernel, thread and turn have in common, of which each plugin gets its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any, TypeVar

from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.threads.background import Background
from codex_framework.threads.faults import Label
from codex_framework.threads.plugin_state import PluginState
from codex_framework.threads.services import Services

__all__ = ["PluginView", "view_of"]

T = TypeVar("T")


def view_of(path: str) -> Any:
    """Return a property of a view that shows an attribute of what lies behind it. The contract says what it means.

    Args:
        path: The dotted way from the view, such as ``_conversation.journal.path``.
    """
    return property(attrgetter(path))


class PluginView:
    """A view for one plugin. The contract describes the members."""

    _services: Services
    _state: PluginState
    _background: Background

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin

    def service(self, key: ServiceKey[T]) -> T:
        """Return a service."""
        return self._services.get(key)

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """Return the plugin's own object."""
        return self._state.get(key, factory, self._plugin)

    def background(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run a coroutine in the background."""
        self._background.start(work, Label("background work", name, self._plugin))
