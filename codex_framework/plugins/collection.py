"""Loads plugins one by one and calls their hooks: the typed front of pluggy, which is seen nowhere else.

A plugin that breaks takes only itself out. The outcome of each is gathered in a :class:`Loaded`, which ends as a report.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pluggy

from codex_framework import hookspecs
from codex_framework.errors import ConfigError
from codex_framework.plugins.discovery import PluginSource
from codex_framework.plugins.loading import import_plugin, problem_of, quiet
from codex_framework.plugins.report import PluginProblem, PluginReport, PluginStatus
from codex_framework.plugins.validation import hook_problems, hooks

__all__ = ["Loaded", "PluginSettings", "call_hook", "collect"]

_MOST_OFFERS = 10_000
"""A hook that offers more than this is taken to be an endless generator."""


class PluginSettings(NamedTuple):
    """``[framework.plugins]``: which plugins to leave out, and which win where two offer one name."""

    disabled: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> PluginSettings:
        """Read them from the merged configuration.

        Raises:
            ConfigError: One of them is not a list of strings.
        """
        framework = tables.get("framework", {})
        plugins = framework.get("plugins", {}) if isinstance(framework, Mapping) else {}
        if not isinstance(plugins, Mapping):
            raise ConfigError(
                f"framework.plugins is {type(plugins).__name__}, not a table",
                key="framework.plugins",
                hint="Write a table: [framework.plugins].",
            )
        return cls(disabled=_names(plugins, "disabled"), prefer=_names(plugins, "prefer"))


class Loaded:
    """A plugin on its way: what is known of it so far."""

    def __init__(self, source: PluginSource, plugin: Any = None) -> None:
        self.source = source
        self.plugin = plugin
        self.load_ms = 0.0
        self.disabled = False
        self.rank: tuple[int, ...] = (0,)
        self.hooks: dict[str, Callable[[], Any]] = {}
        self.problems: list[PluginProblem] = []
        self.contributes: dict[str, list[str]] = {}
        self.left_out = 0
        self.asked: set[str] = set()

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.source.name

    @property
    def label(self) -> str:
        """Name and origin, for people."""
        return f"{self.name!r} ({self.source.origin or 'passed by the program'})"

    def fail(self, *problems: PluginProblem) -> None:
        """Leave the plugin out as a whole."""
        self.problems[:0] = problems
        self.plugin = None
        self.hooks.clear()

    def leave_out(self, problem: PluginProblem) -> None:
        """Leave one of its offers out."""
        self.problems.append(problem)
        self.left_out += 1

    def report(self) -> PluginReport:
        """The outcome."""
        return PluginReport(
            name=self.name,
            module=self.source.target,
            distribution=self.source.distribution,
            version=self.source.version,
            status=self._status(),
            contributes={role: tuple(names) for role, names in self.contributes.items()},
            problems=tuple(self.problems),
            load_ms=self.load_ms,
            bundled=self.source.bundled,
        )

    def _status(self) -> PluginStatus:
        if self.disabled:
            return PluginStatus.DISABLED
        if self.plugin is None:
            return PluginStatus.FAILED
        if not self.left_out:
            return PluginStatus.LOADED
        return PluginStatus.PARTIAL if self.contributes or self.hooks.keys() - self.asked else PluginStatus.FAILED


def collect(sources: Iterable[PluginSource], settings: PluginSettings, extra_plugins: Sequence[object]) -> list[Loaded]:
    """Import and register all plugins. Those that win a name stand first: preferred, passed by the program, bundled, others."""
    manager = pluggy.PluginManager(hookspecs.GROUP)
    manager.add_hookspecs(hookspecs)
    found = [Loaded(source) for source in sources]
    found += [Loaded(source, plugin) for source, plugin in _passed(extra_plugins)]
    for place, loaded in enumerate(found):
        loaded.rank = _rank(loaded, settings, place)
    found.sort(key=lambda loaded: loaded.rank)
    taken: dict[str, Loaded] = {}
    for loaded in found:
        if loaded.name in settings.disabled:
            loaded.disabled = True
            loaded.plugin = None
        elif (other := taken.get(loaded.name)) is not None:
            loaded.fail(_name_taken(loaded, other))
        else:
            taken[loaded.name] = loaded
            _register(loaded, manager)
    _note_unknown(settings, found)
    return found


def call_hook(loaded: Loaded, hook: str) -> list[Any] | None:
    """What a plugin offers through a hook; None when it broke, which is then noted and takes the plugin out."""
    function = loaded.hooks[hook]
    loaded.asked.add(hook)
    begin = time.perf_counter()
    try:
        with quiet():
            offered = function()
            iterable = hasattr(offered, "__iter__") and not isinstance(offered, (str, bytes, Mapping))
            items = list(itertools.islice(offered, _MOST_OFFERS + 1)) if iterable else []
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # as at import: a plugin that calls sys.exit() must not end the program
        loaded.fail(problem_of(error, loaded.source, f"be asked: {hook} failed"))
        return None
    finally:
        loaded.load_ms += (time.perf_counter() - begin) * 1000
    if not iterable:
        loaded.fail(_not_iterable(hook, offered))
        return None
    if len(items) > _MOST_OFFERS:
        loaded.fail(PluginProblem(f"its {hook} offers more than {_MOST_OFFERS} objects", "Let it end.", "plugin-hook"))
        return None
    return items


def _register(loaded: Loaded, manager: pluggy.PluginManager) -> None:
    if loaded.plugin is None:
        imported = import_plugin(loaded.source)
        loaded.plugin, loaded.load_ms = imported.plugin, imported.load_ms
        if imported.problem is not None:
            loaded.fail(imported.problem)
            return
    problems = hook_problems(loaded.plugin)
    if problems:
        loaded.fail(*problems)
        return
    known = manager.get_name(loaded.plugin)
    if known is not None:
        loaded.fail(
            PluginProblem(
                f"it is the same object as plugin {known!r}", "Remove one of the two entry points.", "plugin-name"
            )
        )
        return
    try:
        manager.register(loaded.plugin, loaded.name)
    except Exception as error:  # pluggy's own checks; ours come first and speak more plainly
        loaded.fail(problem_of(error, loaded.source, "be registered"))
        return
    implementations = {caller.name: caller.get_hookimpls() for caller in manager.get_hookcallers(loaded.plugin) or ()}
    for hook in hooks():
        for implementation in implementations.get(hook, ()):
            if implementation.plugin is loaded.plugin:
                loaded.hooks[hook] = implementation.function
    if not loaded.hooks and getattr(loaded.plugin, "__file__", "") is None:
        fact = f"its package {loaded.source.target!r} has no __init__.py, so there is nothing in it"
        loaded.fail(PluginProblem(fact, "Write one, with the hooks in it.", "plugin-hook"))
    elif not loaded.hooks:
        loaded.fail(
            PluginProblem(
                "it implements no hook",
                f"Put `@codex_framework.hookimpl` above one of {', '.join(hooks())}.",
                "plugin-hook",
            )
        )


def _passed(plugins: Sequence[object]) -> Iterable[tuple[PluginSource, object]]:
    for plugin in plugins:
        kind = plugin if isinstance(plugin, type) else type(plugin)
        name = getattr(plugin, "__name__", None) or kind.__name__
        yield PluginSource(name=str(name), target=f"{getattr(plugin, '__module__', None) or name}"), plugin


def _rank(loaded: Loaded, settings: PluginSettings, place: int) -> tuple[int, ...]:
    preferred = settings.prefer.index(loaded.name) if loaded.name in settings.prefer else len(settings.prefer)
    group = 0 if loaded.plugin is not None else 1 if loaded.source.bundled else 2
    return (preferred, group, place)


def _name_taken(loaded: Loaded, other: Loaded) -> PluginProblem:
    problem = PluginProblem(
        f"two plugins are called {loaded.name!r}: {other.label} and {loaded.label}; the first is used",
        "Uninstall one of the two, or rename its entry point.",
        "plugin-name",
    )
    other.problems.append(problem)
    return problem


def _not_iterable(hook: str, offered: object) -> PluginProblem:
    given = "None" if offered is None else type(offered).__name__
    return PluginProblem(
        f"its {hook} returned {given}, not a list",
        "Return a list of the objects it offers; where it has none, an empty one.",
        "plugin-hook",
    )


def _names(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ConfigError(
        f"framework.plugins.{key} is not a list of plugin names",
        key=f"framework.plugins.{key}",
        hint=f'Write it like this: {key} = ["shell"].',
    )


def _note_unknown(settings: PluginSettings, found: Sequence[Loaded]) -> None:
    """Names in the configuration that no plugin has are noted with the plugin they most likely mean."""
    by_name = {loaded.name: loaded for loaded in reversed(found)}
    for name in dict.fromkeys((*settings.disabled, *settings.prefer)):
        if name in by_name:
            continue
        import difflib

        for near in difflib.get_close_matches(name, by_name, n=1):
            fact = f"the configuration names a plugin {name!r}, which is not installed"
            by_name[near].problems.append(PluginProblem(fact, f"Did you mean {near!r}?", "plugin-name"))
