"""Message history: the prompts of all sessions, in ``$CODEX_HOME/history.jsonl``, as Codex's interfaces keep them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import EventMsg, OpHandler, PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands", "codex_config_keys", "codex_events", "codex_ops"]


@hookimpl
def codex_config_keys() -> Iterable[str]:
    """Claim ``[history]``."""
    return ["history"]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``get_history_entry_response`` and ``history_metadata``."""
    from codex_plugin_message_history.events import GetHistoryEntryResponseEvent, HistoryMetadataEvent

    return [GetHistoryEntryResponseEvent, HistoryMetadataEvent]


@hookimpl
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:
    """Offer the handlers of ``add_to_history``, ``get_history_entry_request`` and ``get_history_metadata``."""
    from codex_plugin_message_history.ops import AddHandler, EntryHandler, MetadataHandler

    return [AddHandler(plugin.codex_home), EntryHandler(plugin.codex_home), MetadataHandler(plugin.codex_home)]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework history``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "history",
            "Show the prompts that you have entered, newest last.",
            "codex_plugin_message_history.cli:history",
            obj=plugin,
            group="Sessions",
        )
    ]
