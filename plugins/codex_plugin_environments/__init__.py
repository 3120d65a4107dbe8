"""Environments on other machines: commands and files of a turn through Codex's exec-servers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from codex_framework import Component, EnvironmentSource, PluginContext, hookimpl

if TYPE_CHECKING:
    from codex_plugin_environments.source import ExecServers

__all__ = ["codex_components", "codex_environments", "codex_protected_paths"]

_URL = "CODEX_EXEC_SERVER_URL"
_FILE = "environments.toml"

_kernels: WeakKeyDictionary[PluginContext, ExecServers] = WeakKeyDictionary()
"""The environments of each kernel that has some."""


def _servers(plugin: PluginContext) -> ExecServers | None:
    """Return the user's configuration, or None. Without configuration, nothing more is imported."""
    found = _kernels.get(plugin)
    if found is None:
        path = plugin.codex_home / _FILE
        if not os.path.lexists(path) and not plugin.environ.get(_URL):
            return None
        from codex_plugin_environments.source import ExecServers

        found = _kernels[plugin] = ExecServers.of(path, plugin.environ)
    return found


@hookimpl
def codex_environments(plugin: PluginContext) -> Iterable[EnvironmentSource]:
    """Offer the environments of ``environments.toml`` or ``CODEX_EXEC_SERVER_URL``."""
    servers = _servers(plugin)
    return [] if servers is None else [servers]


@hookimpl
def codex_protected_paths(plugin: PluginContext) -> Iterable[str]:
    """Protect ``environments.toml`` and the programs that it names: they run without a sandbox."""
    servers = _servers(plugin)
    if servers is None:
        return []  # the file cannot be made either, because its folder is protected
    programs = (place.program for place in servers.places)
    return [str(plugin.codex_home / _FILE), *(path for path in programs if path.startswith("/"))]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that connects to the environments and disconnects from them, and refuses to start if they are not known."""
    servers = _servers(plugin)
    if servers is None or not (servers.environments or servers.error):
        return []
    from codex_plugin_environments.source import Connections

    return [Connections(servers)]
