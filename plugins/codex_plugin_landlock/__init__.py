"""The Linux sandbox: namespaces, Landlock and seccomp, without compiled code and without starting an interpreter per command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import PluginContext, Sandbox, hookimpl

__all__ = ["codex_sandboxes", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.landlock]``."""
    from codex_plugin_landlock.settings import Settings

    return Settings


@hookimpl
def codex_sandboxes(plugin: PluginContext) -> Iterable[Sandbox]:
    """Offer the ``landlock`` sandbox."""
    from codex_plugin_landlock.sandbox import LandlockSandbox
    from codex_plugin_landlock.settings import Settings

    settings = plugin.settings(Settings)
    return [LandlockSandbox(settings.level, hosts_by_port=settings.hosts_by_port)]
