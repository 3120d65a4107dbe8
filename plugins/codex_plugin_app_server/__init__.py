"""The app server: ``codex-framework app-server`` lets editors, SDKs and other programs work on the agent, by Codex's own protocol.

``command`` has the options, ``serving`` starts a kernel and the transports, ``connection`` speaks to one client, ``methods`` has the
table of all methods, one module per topic. ``threads`` follows loaded threads, ``notifications`` and ``items`` translate their
events, and ``requests`` takes their questions to clients.

``remote`` is the other end: ``exec --remote`` runs its turn on an app server.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework import ExecOption, PluginContext, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands", "codex_exec_options"]


@hookimpl
def codex_commands() -> Iterable[click.Command]:
    """Offer ``codex-framework app-server``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "app-server",
            "Serve the agent to editors, SDKs and other clients.",
            "codex_plugin_app_server.command:app_server",
            group="Serve",
        )
    ]


@hookimpl
def codex_exec_options(plugin: PluginContext) -> Iterable[ExecOption]:
    """Offer ``exec --remote`` and ``--remote-auth-token-env``."""
    from codex_plugin_app_server.remote.options import exec_options

    return exec_options(plugin)
