"""Going back: the conversation by whole turns, and the files of a repository to their state before a turn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import Component, EventMsg, OpHandler, PluginContext, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_undo.events import UndoCompletedEvent, UndoStartedEvent
    from codex_plugin_undo.ops import ThreadRollback, Undo
else:
    __getattr__ = lazy_exports(
        __name__, {"events": "UndoCompletedEvent UndoStartedEvent", "ops": "ThreadRollback Undo"}
    )

__all__ = [
    "ThreadRollback",
    "Undo",
    "UndoCompletedEvent",
    "UndoStartedEvent",
    "codex_components",
    "codex_events",
    "codex_ops",
    "codex_settings",
]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.undo]``."""
    from codex_plugin_undo.settings import Settings

    return Settings


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``undo_started`` and ``undo_completed``."""
    from codex_plugin_undo.events import UndoCompletedEvent, UndoStartedEvent

    return [UndoStartedEvent, UndoCompletedEvent]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handlers of the ops ``undo`` and ``thread_rollback``."""
    from codex_plugin_undo.ops import RollbackHandler, UndoHandler

    return [UndoHandler(), RollbackHandler()]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that takes snapshots."""
    from codex_plugin_undo.component import UndoComponent

    return [UndoComponent(plugin.codex_home, plugin.environ)]
