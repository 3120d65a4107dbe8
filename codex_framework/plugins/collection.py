"""Loads plugins one by one: the typed front of pluggy, which is seen nowhere else.

A plugin that breaks takes only itself out. The outcome of each is gathered in a ``Loaded``, which ends as a report.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pluggy

from codex_framework.contract import hookspecs
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.plugins.discovery import PluginSource
from codex_framework.plugins.instances import instantiate, is_plugin_class, plugin_classes
from codex_framework.plugins.loaded import Loaded
from codex_framework.plugins.loading import import_plugin, problem_of
from codex_framework.plugins.report import PluginProblem
from codex_framework.plugins.selection import Selection
from codex_framework.plugins.validation import hook_problems, hooks

__all__ = ["collect"]

ContextFor = Callable[[str], PluginContext]
"""Makes the context of the plugin with this name."""


def collect(
    sources: Iterable[PluginSource], selection: Selection, extra_plugins: Sequence[object], context: ContextFor
) -> list[Loaded]:
    """Import and register all plugins. Those that win a name stand first: preferred, passed by the program, bundled, others."""
    found = [Loaded(source, context(source.name)) for source in sources]
    found += [Loaded(source, context(source.name), plugin) for source, plugin in _passed(extra_plugins)]
    places = {id(loaded): place for place, loaded in enumerate(found)}
    found.sort(key=lambda loaded: _rank(loaded, selection, places[id(loaded)]))
    registration = _Registration()
    taken: dict[str, Loaded] = {}
    for loaded in found:
        if loaded.name in selection.disabled:
            loaded.disable()
        elif (other := taken.get(loaded.name)) is not None:
            loaded.fail(_name_taken(loaded, other))
        else:
            taken[loaded.name] = loaded
            registration.add(loaded)
    _note_unknown(selection, found)
    return found


class _Registration:
    """Turns what entry points name into hook implementations."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(hookspecs.GROUP)
        self._manager.add_hookspecs(hookspecs)
        self._named: dict[int, tuple[object, str]] = {}

    def add(self, loaded: Loaded) -> None:
        """Import a plugin, make its instance if it is a class, check its hooks and register them."""
        if not loaded.passed and not _imported(loaded):
            return
        named = loaded.plugin
        _, other = self._named.setdefault(id(named), (named, loaded.name))
        if other != loaded.name:
            fact = f"it is the same object as plugin {other!r}"
            loaded.fail(PluginProblem(fact, "Remove one of the two entry points.", "plugin-name"))
            return
        if is_plugin_class(named):
            instantiate(loaded)
            if not loaded.usable:
                return
        problems = hook_problems(loaded.plugin)
        if problems:
            loaded.fail(*problems)
            return
        self._register(loaded)
        if loaded.usable and not loaded.hooks:
            loaded.fail(_no_hook(loaded, named))

    def _register(self, loaded: Loaded) -> None:
        try:
            self._manager.register(loaded.plugin, loaded.name)
        except Exception as error:  # pluggy's own checks; ours come first and speak more plainly
            loaded.fail(problem_of(error, loaded.source, "be registered"))
            return
        callers = self._manager.get_hookcallers(loaded.plugin) or ()
        implementations = {caller.name: caller.get_hookimpls() for caller in callers}
        for hook in hooks():
            for implementation in implementations.get(hook, ()):
                if implementation.plugin is loaded.plugin:
                    loaded.hooks[hook] = _bound(implementation.function, loaded.context)


def _imported(loaded: Loaded) -> bool:
    imported = import_plugin(loaded.source)
    loaded.plugin, loaded.load_ms = imported.plugin, imported.load_ms
    if imported.problem is not None:
        loaded.fail(imported.problem)
    return imported.problem is None


def _bound(function: Callable[..., Any], context: PluginContext) -> Callable[[], Any]:
    """The hook implementation with its plugin's context, if it takes one. Pluggy would give all plugins the same."""
    parameter = inspect.signature(function).parameters.get("plugin")
    if parameter is None:
        return function
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return functools.partial(function, context)
    return functools.partial(function, plugin=context)


def _no_hook(loaded: Loaded, named: object) -> PluginProblem:
    if getattr(named, "__file__", "") is None:
        fact = f"its package {loaded.source.target!r} has no __init__.py, so there is nothing in it"
        return PluginProblem(fact, "Write one, with the hooks in it.", "plugin-hook")
    classes = plugin_classes(named) if inspect.ismodule(named) else []
    if classes:
        hint = f"Let the entry point name the class: {loaded.source.target}:{classes[0].__name__}."
    else:
        hint = f"Put `@codex_framework.hookimpl` above one of {', '.join(hooks())}."
    return PluginProblem("it implements no hook", hint, "plugin-hook")


def _passed(plugins: Sequence[object]) -> Iterable[tuple[PluginSource, object]]:
    for plugin in plugins:
        kind = plugin if isinstance(plugin, type) else type(plugin)
        name = getattr(plugin, "__name__", None) or kind.__name__
        yield PluginSource(name=str(name), target=f"{getattr(plugin, '__module__', None) or name}"), plugin


def _rank(loaded: Loaded, selection: Selection, place: int) -> tuple[int, ...]:
    preferred = selection.prefer.index(loaded.name) if loaded.name in selection.prefer else len(selection.prefer)
    group = 0 if loaded.passed else 1 if loaded.source.bundled else 2
    return (preferred, group, place)


def _name_taken(loaded: Loaded, other: Loaded) -> PluginProblem:
    problem = PluginProblem(
        f"two plugins are called {loaded.name!r}: {other.label} and {loaded.label}; the first is used",
        "Uninstall one of the two, or rename its entry point.",
        "plugin-name",
    )
    other.problems.append(problem)
    return problem


def _note_unknown(selection: Selection, found: Sequence[Loaded]) -> None:
    """Names in the configuration that no plugin has are noted with the plugin they most likely mean."""
    by_name = {loaded.name: loaded for loaded in reversed(found)}
    for name in dict.fromkeys((*selection.disabled, *selection.prefer)):
        if name in by_name:
            continue
        import difflib

        for near in difflib.get_close_matches(name, by_name, n=1):
            fact = f"the configuration names a plugin {name!r}, which is not installed"
            by_name[near].problems.append(PluginProblem(fact, f"Did you mean {near!r}?", "plugin-name"))
