"""Reads and checks the declarations of plugins: settings, requirements, events. For their own hooks see ``own_hooks``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from codex_framework.contract.errors import ConfigError, described
from codex_framework.contract.hookspecs import OFFERING
from codex_framework.contract.protocol.events import EventMsg, KernelEvent
from codex_framework.contract.value import Value, fields_of
from codex_framework.loader.imports import place_of, problem_of
from codex_framework.loader.plugin import BROKEN, LoadedPlugin
from codex_framework.loader.report import PluginProblem

__all__ = ["declare", "declare_rest", "unique_events"]

_SAFEGUARDS = frozenset(hook.name for hook in OFFERING if hook.safeguard)
"""Hooks whose objects decide which actions are permitted. An error in their plugin's settings must not silently disable them."""

_NOT_FOR_PROJECTS = _SAFEGUARDS | {hook.name for hook in OFFERING if hook.sees_all}
"""Hooks whose plugins a project's own file cannot configure."""


def declare(plugin: LoadedPlugin) -> None:
    """Call the declaring hooks of a plugin. An invalid declaration disables the whole plugin.

    Bundled plugins are asked later for their events, and for their settings if nothing is set: no turn needs these classes, and
    importing them would delay every start. Their declarations are valid, so nothing is found out later than it should be.
    """
    if plugin.context.is_configured and plugin.hooks.keys() & _NOT_FOR_PROJECTS:
        plugin.fatal = plugin.context.set_by_project()
        if plugin.fatal is not None:
            plugin.fail(problem_of(plugin.fatal, plugin.source, "be configured"))
            return
    later = ("codex_events",) if plugin.context.is_configured else ("codex_events", "codex_settings")
    _read(plugin, later if plugin.source.bundled else ())


def declare_rest(plugin: LoadedPlugin) -> None:
    """Call the declaring hooks that were not called before, like :func:`declare`."""
    _read(plugin, plugin.asked)


def _read(plugin: LoadedPlugin, without: Collection[str]) -> None:
    readers: Mapping[str, Callable[[LoadedPlugin, Any], PluginProblem | None]] = {
        "codex_settings": _settings,
        "codex_requires": _requires,
        "codex_events": _events,
        "codex_config_keys": _config_keys,
        "codex_protected_paths": _protected_paths,
    }
    for hook, read in readers.items():
        function = plugin.hooks.get(hook)
        if function is None or hook in without:
            continue
        declared = plugin.ask_declaration(hook)
        if declared is BROKEN:
            return
        problem = read(plugin, declared)
        if problem is not None:
            path, line = (problem.path, problem.line) if problem.path else place_of(function)
            plugin.fail(problem.evolve(path=path, line=line))
            return


def unique_events(plugins: Sequence[LoadedPlugin]) -> dict[str, tuple[str, type[EventMsg]]]:
    """Return the event classes of plugins by tag, each with its plugin's name. The first plugin with a tag gets it."""
    found: dict[str, tuple[LoadedPlugin, type[EventMsg]]] = {}
    for plugin in plugins:
        for kind in plugin.events if plugin.usable else ():
            owner, other = found.setdefault(kind.type, (plugin, kind))
            if other is kind:
                continue
            fact = f"the event {kind.type!r} is declared by {owner.label} and by {plugin.label}; the one of {owner.name!r} is used"
            problem = PluginProblem(fact, "Choose another tag.", "plugin-name", *place_of(kind))
            plugin.leave_out(problem)
            owner.problems.append(problem)
    for tag, (plugin, _) in found.items():
        plugin.contributes.setdefault("events", []).append(tag)
    return {tag: (plugin.name, kind) for tag, (plugin, kind) in found.items()}


def _settings(plugin: LoadedPlugin, declared: Any) -> PluginProblem | None:
    if not (isinstance(declared, type) and (issubclass(declared, Value) or hasattr(declared, "__attrs_attrs__"))):
        fact = f"its codex_settings returned {declared!r}, which is not a settings class"
        hint = "Return a subclass of codex_framework.Value, or another attrs class."
        return PluginProblem(fact, hint, "plugin-hook")
    plugin.settings = declared
    try:
        plugin.context.settings(declared)
    except ConfigError as error:
        if plugin.context.is_configured and plugin.hooks.keys() & _SAFEGUARDS:
            plugin.fatal = error
        return problem_of(error, plugin.source, "be configured")
    except Exception as error:  # an attrs class may do anything in its initialiser
        return problem_of(error, plugin.source, f"be configured: {declared.__name__} failed")
    return None


def _requires(plugin: LoadedPlugin, declared: Any) -> PluginProblem | None:
    if isinstance(declared, (str, bytes)) or not hasattr(declared, "__iter__"):
        return PluginProblem(
            f"its codex_requires returned {declared!r}, not a list of requirements",
            'Return a list of strings, such as ["execpolicy>=0.1"].',
            "plugin-requires",
        )
    requires = tuple(declared)
    wrong = [item for item in requires if not isinstance(item, str) or not item.strip()]
    if wrong:
        fact = f"its codex_requires contains {wrong[0]!r}, which is not a requirement"
        return PluginProblem(fact, 'Write a string, such as "execpolicy>=0.1".', "plugin-requires")
    plugin.requires = requires
    return None


def _config_keys(plugin: LoadedPlugin, declared: Any) -> PluginProblem | None:
    if isinstance(declared, (str, bytes)) or not hasattr(declared, "__iter__"):
        fact = f"its codex_config_keys returned {declared!r}, not a list of settings"
        return PluginProblem(fact, 'Return a list of strings, such as ["notify"].', "plugin-hook")
    from codex_framework.config.schema import is_name

    keys = tuple(declared)
    for key in keys:
        if not isinstance(key, str) or not is_name(key):
            fact = f"its codex_config_keys contains {key!r}, which is not a setting of Codex"
            return PluginProblem(fact, "Write a dotted key of docs/reference/config.md.", "plugin-hook")
    plugin.config_keys = keys
    plugin.contributes.setdefault("config_keys", []).extend(keys)
    return None


def _protected_paths(plugin: LoadedPlugin, declared: Any) -> PluginProblem | None:
    if isinstance(declared, (str, bytes)) or not hasattr(declared, "__iter__"):
        fact = f"its codex_protected_paths returned {declared!r}, not a list of paths"
        return PluginProblem(fact, 'Return a list of strings, such as ["tools/release.sh"].', "plugin-hook")
    paths = tuple(dict.fromkeys(declared))
    for path in paths:
        if not isinstance(path, str) or not path or "\0" in path:
            fact = f"its codex_protected_paths contains {path!r}, which is not a path"
            return PluginProblem(fact, "Return strings, such as str(path).", "plugin-hook")
    plugin.protected_paths = paths
    if paths:
        plugin.contributes.setdefault("protected_paths", []).extend(paths)
    return None


def _events(plugin: LoadedPlugin, declared: Any) -> PluginProblem | None:
    if isinstance(declared, (str, bytes, type)) or not hasattr(declared, "__iter__"):
        return PluginProblem(
            f"its codex_events returned {declared!r}, not a list", "Return a list of event classes.", "plugin-hook"
        )
    kinds = tuple(dict.fromkeys(declared))
    for kind in kinds:
        fact, hint = _event_fault(kind)
        if fact:
            return PluginProblem(f"its event {fact}", hint, "plugin-hook", *place_of(kind))
    plugin.events = kinds
    return None


def _event_fault(kind: Any) -> tuple[str, str]:
    """Return the problem of an event class and a hint, or None."""
    if not (isinstance(kind, type) and issubclass(kind, EventMsg)):
        return (
            f"{kind!r} is not a subclass of EventMsg",
            "Derive it from codex_framework.EventMsg, and return the class.",
        )
    if not isinstance(kind.type, str) or not kind.type:
        return f"{kind.__name__} has no tag", "Set its class attribute `type` to a unique word."
    if kind.type in _built_in():
        return f"{kind.__name__} has the tag {kind.type!r}, which is built in", "Choose another tag."
    try:
        fields_of(kind)  # without attrs if it can: importing that takes 10 ms of every start
    except Exception as error:  # attrs raises this for a field without annotation, a default in the wrong place, ...
        return f"{kind.__name__} cannot be made: {described(error)}", "Fix its fields."
    return "", ""


@cache
def _built_in() -> frozenset[str]:
    return frozenset({"turn_started", "turn_complete"} | {kind.type for kind in get_args(KernelEvent)})
