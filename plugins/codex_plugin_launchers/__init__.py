"""Launchers of this machine: ``in-process`` and ``pool``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import PluginContext, hookimpl
from codex_framework.contract.roles.launchers import Launcher

__all__ = ["codex_launchers", "codex_protected_paths", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.launchers]``."""
    from codex_plugin_launchers.settings import Settings

    return Settings


@hookimpl
def codex_protected_paths(plugin: PluginContext) -> Iterable[str]:
    """Protect the files that the program which starts the sessions has named, such as their results."""
    from codex_plugin_launchers.settings import Settings

    return plugin.settings(Settings).protected


@hookimpl
def codex_launchers(plugin: PluginContext) -> Iterable[Launcher]:
    """Offer the launchers."""
    from codex_plugin_launchers.in_process import InProcessLauncher
    from codex_plugin_launchers.pool import PoolLauncher
    from codex_plugin_launchers.settings import Settings

    settings = plugin.settings(Settings)
    return [
        InProcessLauncher(settings.sessions),
        PoolLauncher(workers=settings.workers, sessions=settings.sessions, patience_s=settings.patience_s),
    ]
