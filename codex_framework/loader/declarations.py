"""Reads and checks the declarations of plugins: settings, requirements, events. For their own hooks see ``own_hooks``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from codex_framework.contract.errors import ConfigError, described
from codex_framework.contract.protocol.events import EventMsg, KernelEvent
from codex_framework.contract.value import Value, fields_of
from codex_framework.loader.loaded import BROKEN, Loaded
from codex_framework.loader.loading import place_of, problem_of
from codex_framework.loader.report import PluginProblem

__all__ = ["DECIDING", "declare", "declare_rest", "unique_events"]

DECIDING = frozenset(
    (
        "codex_sandboxes",
        "codex_network_proxies",
        "codex_command_policies",
        "codex_constraints",
        "codex_environments",
        "codex_approval_reviewers",
        "codex_interceptors",
    )
)
"""Hooks whose objects decide what may run. An error in the settings of their plugin must not silently disable them."""


_NOT_FOR_PROJECTS = DECIDING | {
    "codex_model_catalogues",
    "codex_model_providers",
    "codex_notifiers",
    "codex_observers",
    "codex_telemetry",
    "codex_thread_stores",
}
"""Hooks whose plugins a project's own file cannot configure. The additional ones see or store the whole conversation."""


def declare(loaded: Loaded) -> None:
    """Call the declaring hooks of a plugin. An invalid declaration disables the whole plugin.

    Bundled plugins are asked later for their events, and for their settings if nothing is set: no turn needs these classes, and
    importing them would delay every start. Their declarations are valid, so nothing is found out later than it should be.
    """
    if loaded.context.configured and loaded.hooks.keys() & _NOT_FOR_PROJECTS:
        loaded.fatal = loaded.context.set_by_project()
        if loaded.fatal is not None:
            loaded.fail(problem_of(loaded.fatal, loaded.source, "be configured"))
            return
    later = ("codex_events",) if loaded.context.configured else ("codex_events", "codex_settings")
    _read(loaded, later if loaded.source.bundled else ())


def declare_rest(loaded: Loaded) -> None:
    """Call the declaring hooks that were not called before, like :func:`declare`."""
    _read(loaded, loaded.asked)


def _read(loaded: Loaded, without: Collection[str]) -> None:
    readers: Mapping[str, Callable[[Loaded, Any], PluginProblem | None]] = {
        "codex_settings": _settings,
        "codex_requires": _requires,
        "codex_events": _events,
        "codex_config_keys": _config_keys,
        "codex_protected_paths": _protected_paths,
    }
    for hook, read in readers.items():
        function = loaded.hooks.get(hook)
        if function is None or hook in without:
            continue
        declared = loaded.declared(hook)
        if declared is BROKEN:
            return
        problem = read(loaded, declared)
        if problem is not None:
            path, line = (problem.path, problem.line) if problem.path else place_of(function)
            loaded.fail(problem.evolve(path=path, line=line))
            return


def unique_events(plugins: Sequence[Loaded]) -> dict[str, tuple[str, type[EventMsg]]]:
    """Return the event classes of plugins by tag, each with its plugin's name. The first plugin with a tag gets it."""
    found: dict[str, tuple[Loaded, type[EventMsg]]] = {}
    for loaded in plugins:
        for kind in loaded.events if loaded.usable else ():
            owner, other = found.setdefault(kind.type, (loaded, kind))
            if other is kind:
                continue
            fact = f"the event {kind.type!r} is declared by {owner.label} and by {loaded.label}; the one of {owner.name!r} is used"
            problem = PluginProblem(fact, "Choose another tag.", "plugin-name", *place_of(kind))
            loaded.leave_out(problem)
            owner.problems.append(problem)
    for tag, (loaded, _) in found.items():
        loaded.contributes.setdefault("events", []).append(tag)
    return {tag: (loaded.name, kind) for tag, (loaded, kind) in found.items()}


def _settings(loaded: Loaded, declared: Any) -> PluginProblem | None:
    if not (isinstance(declared, type) and (issubclass(declared, Value) or hasattr(declared, "__attrs_attrs__"))):
        fact = f"its codex_settings returned {declared!r}, which is not a settings class"
        hint = "Return a subclass of codex_framework.Value, or another attrs class."
        return PluginProblem(fact, hint, "plugin-hook")
    loaded.settings = declared
    try:
        loaded.context.settings(declared)
    except ConfigError as error:
        if loaded.context.configured and loaded.hooks.keys() & DECIDING:
            loaded.fatal = error
        return problem_of(error, loaded.source, "be configured")
    except Exception as error:  # an attrs class may do anything in its initialiser
        return problem_of(error, loaded.source, f"be configured: {declared.__name__} failed")
    return None


def _requires(loaded: Loaded, declared: Any) -> PluginProblem | None:
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
    loaded.requires = requires
    return None


def _config_keys(loaded: Loaded, declared: Any) -> PluginProblem | None:
    if isinstance(declared, (str, bytes)) or not hasattr(declared, "__iter__"):
        fact = f"its codex_config_keys returned {declared!r}, not a list of settings"
        return PluginProblem(fact, 'Return a list of strings, such as ["notify"].', "plugin-hook")
    from codex_framework.config.schema import is_name

    keys = tuple(declared)
    for key in keys:
        if not isinstance(key, str) or not is_name(key):
            fact = f"its codex_config_keys contains {key!r}, which is not a setting of Codex"
            return PluginProblem(fact, "Write a dotted key of docs/reference/config.md.", "plugin-hook")
    loaded.config_keys = keys
    loaded.contributes.setdefault("config_keys", []).extend(keys)
    return None


def _protected_paths(loaded: Loaded, declared: Any) -> PluginProblem | None:
    if isinstance(declared, (str, bytes)) or not hasattr(declared, "__iter__"):
        fact = f"its codex_protected_paths returned {declared!r}, not a list of paths"
        return PluginProblem(fact, 'Return a list of strings, such as ["tools/release.sh"].', "plugin-hook")
    paths = tuple(dict.fromkeys(declared))
    for path in paths:
        if not isinstance(path, str) or not path or "\0" in path:
            fact = f"its codex_protected_paths contains {path!r}, which is not a path"
            return PluginProblem(fact, "Return strings, such as str(path).", "plugin-hook")
    loaded.protected_paths = paths
    if paths:
        loaded.contributes.setdefault("protected_paths", []).extend(paths)
    return None


def _events(loaded: Loaded, declared: Any) -> PluginProblem | None:
    if isinstance(declared, (str, bytes, type)) or not hasattr(declared, "__iter__"):
        return PluginProblem(
            f"its codex_events returned {declared!r}, not a list", "Return a list of event classes.", "plugin-hook"
        )
    kinds = tuple(dict.fromkeys(declared))
    for kind in kinds:
        fact, hint = _event_fault(kind)
        if fact:
            return PluginProblem(f"its event {fact}", hint, "plugin-hook", *place_of(kind))
    loaded.events = kinds
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
