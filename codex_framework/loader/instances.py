"""Instances of plugins that are classes: one for each kernel."""

from __future__ import annotations

import inspect
from typing import Any

from codex_framework.contract.roles.plugins import Plugin
from codex_framework.loader.loaded import BROKEN, Loaded
from codex_framework.loader.loading import place_of
from codex_framework.loader.report import PluginProblem

__all__ = ["instantiate", "is_plugin_class", "plugin_classes"]


def is_plugin_class(plugin: object) -> bool:
    """Return whether this is a subclass of ``Plugin``, which each kernel instantiates."""
    return isinstance(plugin, type) and issubclass(plugin, Plugin)


def plugin_classes(module: object) -> list[type[Plugin]]:
    """Return the subclasses of ``Plugin`` that a module defines itself, in order of definition."""
    name = getattr(module, "__name__", None)
    found = (value for value in vars(module).values() if is_plugin_class(value))
    return [kind for kind in dict.fromkeys(found) if kind.__module__ == name]


def instantiate(loaded: Loaded) -> None:
    """Replace the plugin's class by an instance of it. If this fails, the plugin is disabled."""
    kind: type[Any] = loaded.plugin
    problem = _signature_problem(kind)
    if problem is not None:
        loaded.fail(problem)
        return
    plugin = loaded.guarded(f"be created: {kind.__name__}() failed", lambda: kind(loaded.context))
    if plugin is BROKEN:
        return
    if getattr(plugin, "context", None) is not loaded.context:
        fact = f"{kind.__name__}.__init__ does not call super().__init__, so the plugin has no context"
        hint = "Begin it with `super().__init__(context)`."
        loaded.fail(PluginProblem(fact, hint, "plugin-hook", *place_of(kind.__init__)))
        return
    loaded.plugin = plugin


def _signature_problem(kind: type[Any]) -> PluginProblem | None:
    try:
        inspect.signature(kind).bind(None)
    except TypeError:
        return PluginProblem(
            f"{kind.__name__} takes {inspect.signature(kind)}, but it is called with one PluginContext",
            "Write `def __init__(self, context):`, and begin it with `super().__init__(context)`.",
            "plugin-hook",
            *place_of(kind.__init__),
        )
    except ValueError:
        return None  # no signature to check; the call will show whether it fits
    return None
