"""Usage: tokens and costs by thread, model, day, project, tool and plugin, from the sessions on disk.

``codex-framework usage`` prints them. Programs call :func:`codex_plugin_usage.scan.scan`, and watch a running thread with
:class:`codex_plugin_usage.meter.Meter`. Nothing of it is imported unless it is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.usage]``."""
    from codex_plugin_usage.settings import Settings

    return Settings


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework usage``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "usage",
            "Show the tokens that sessions have used, and their cost.",
            "codex_plugin_usage.cli:usage",
            obj=plugin,
            group="Inspect",
        )
    ]
