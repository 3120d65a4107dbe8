"""Fallbacks: when a model fails permanently, the next one of a list continues, and no tool runs twice.

Without ``model_fallbacks`` it offers nothing and imports nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import Component, Interceptor, PluginContext, hookimpl

if TYPE_CHECKING:
    from codex_plugin_fallbacks.wrapping import Made

__all__ = ["codex_components", "codex_interceptors", "codex_settings"]

_made: WeakKeyDictionary[PluginContext, Made | None] = WeakKeyDictionary()


def _kernel_objects(plugin: PluginContext) -> Made | None:
    """Return the plugin's objects for a kernel, or None without configuration; then nothing is imported."""
    if plugin not in _made:
        _made[plugin] = _make(plugin)
    return _made[plugin]


def _make(plugin: PluginContext) -> Made | None:
    if not (plugin.config.get("framework") or {}).get("plugins", {}).get(plugin.name):
        return None
    from codex_plugin_fallbacks.wrapping import made

    return made(plugin)


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.fallbacks]``."""
    from codex_plugin_fallbacks.settings import Settings

    return Settings


@hookimpl
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:
    """Offer what wraps the clients of providers, if there are fallbacks."""
    made = _kernel_objects(plugin)
    return [] if made is None else [made.interceptor]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that opens the other models, if there are fallbacks."""
    made = _kernel_objects(plugin)
    return [] if made is None else [made.component]
