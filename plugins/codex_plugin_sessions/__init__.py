"""Sessions: ``codex-framework sessions`` lists, searches, shows, names, archives, deletes, checks, repairs and exports them.

The commands use the thread store of the configuration. The store ``memory`` keeps threads for as long as the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework import PluginContext, ThreadStore, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands", "codex_thread_stores"]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework sessions``, and Codex's commands ``archive``, ``unarchive`` and ``delete``."""
    from codex_framework import LazyCommand

    texts = {
        "sessions": "List, search, show and manage the sessions on disk.",
        "archive": "Archive SESSION.",
        "unarchive": "Move SESSION back from the archive.",
        "delete": "Delete SESSION permanently.",
    }
    return [
        LazyCommand(name, text, f"codex_plugin_sessions.cli:{name}", obj=plugin, group="Sessions")
        for name, text in texts.items()
    ]


@hookimpl
def codex_thread_stores() -> Iterable[ThreadStore]:
    """Offer the store named ``memory``."""
    from codex_plugin_sessions.memory import MemoryStore

    return [MemoryStore()]
