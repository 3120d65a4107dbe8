"""Code mode: the model writes programs that call the tools, in JavaScript, and runs them with the tool ``exec``.

It needs the extra ``code``. Without it, models get the usual tools, and users of models made for code mode get a notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from codex_framework import Component, PluginContext, Tool, hookimpl

if TYPE_CHECKING:
    from codex_plugin_code_mode.made import Made

__all__ = ["codex_components", "codex_tools"]

_made: WeakKeyDictionary[PluginContext, Made | None] = WeakKeyDictionary()


def _kernel_objects(plugin: PluginContext) -> Made | None:
    """Return the component of a kernel, or None if the engine is not installed."""
    if plugin not in _made:
        from codex_plugin_code_mode.engine_folder import engine_folder

        folder = engine_folder(plugin)
        if folder is None:
            _made[plugin] = None
        else:
            from codex_plugin_code_mode.made import made

            _made[plugin] = made(folder)
    return _made[plugin]


@hookimpl
def codex_tools(plugin: PluginContext) -> Iterable[Tool]:
    """Offer ``exec`` and ``wait``."""
    made = _kernel_objects(plugin)
    return [] if made is None else made.tools


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that keeps the scripts of each thread.

    Without the engine, offer one that explains this where it matters.
    """
    made = _kernel_objects(plugin)
    if made is not None:
        return [made.component]
    from codex_plugin_code_mode.missing import Missing

    return [Missing()]
