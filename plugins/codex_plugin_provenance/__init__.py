"""Provenance: records who changed, refused or added something in a session, and answers it (``codex-framework why``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework import PluginContext, hookimpl
from codex_framework.contract.roles.provenance import ChangeRecorder

if TYPE_CHECKING:
    import click

__all__ = ["codex_change_recorders", "codex_commands"]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework why``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "why",
            "Show who changed, refused or added something in a session.",
            "codex_plugin_provenance.command:why",
            obj=plugin,
            group="Inspect",
        )
    ]


@hookimpl
def codex_change_recorders() -> Iterable[ChangeRecorder]:
    """Offer the recorder of changes."""
    from codex_plugin_provenance.recorder import PatchRecorder

    return [PatchRecorder()]
