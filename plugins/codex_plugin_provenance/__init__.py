"""Provenance: ``codex-framework why`` answers who changed, refused or added something in a session.

The kernel keeps the record, whether this plugin is there or not. The plugin reads it; nothing of it is imported unless the command
runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework import PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands"]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework why``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "why",
            "Tell who changed, refused or added something in a session.",
            "codex_plugin_provenance.command:why",
            obj=plugin,
        )
    ]
