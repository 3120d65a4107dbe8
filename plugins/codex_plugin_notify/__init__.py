"""Notifiers: a program, the terminal, the desktop and webhooks tell the user that a turn has ended or needs an answer.

``notify`` and ``tui.notifications`` are Codex's settings. The others are in ``[framework.plugins.notify]``. Without any of them
the plugin offers nothing and imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import Component, Notifier, PluginContext, hookimpl

if TYPE_CHECKING:
    from codex_plugin_notify.configuration import Made

__all__ = ["codex_components", "codex_config_keys", "codex_notifiers", "codex_settings"]

_made: WeakKeyDictionary[PluginContext, Made | None] = WeakKeyDictionary()
"""The notifiers of each kernel, made once."""


def _kernel_objects(plugin: PluginContext) -> Made | None:
    """Return the notifiers of a kernel and their component, or None if nothing is configured; then nothing is imported."""
    if plugin not in _made:
        _made[plugin] = _make(plugin)
    return _made[plugin]


def _make(plugin: PluginContext) -> Made | None:
    config = plugin.config
    table = (config.get("framework") or {}).get("plugins", {}).get(plugin.name)
    # A project may have its own word in `tui`, so what counts is found out later.
    if not (table or config.get("notify") or "notifications" in (config.get("tui") or {})):
        return None
    from codex_plugin_notify.configuration import made

    return made(plugin)


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.notify]``."""
    from codex_plugin_notify.settings import Settings

    return Settings


@hookimpl
def codex_config_keys() -> Iterable[str]:
    """Claim ``notify``."""
    return ["notify"]


@hookimpl
def codex_notifiers(plugin: PluginContext) -> Iterable[Notifier]:
    """Offer one notifier for the program, the terminal, the desktop and each webhook that is configured."""
    made = _kernel_objects(plugin)
    return [] if made is None else made.notifiers


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that passes on failures."""
    made = _kernel_objects(plugin)
    return [] if made is None or not made.notifiers else [made.component]
