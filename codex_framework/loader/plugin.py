"""The state of one plugin while it is loaded, from entry point to report, with guarded calls of its hooks."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import sys
import time
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.protocol.events import EventMsg
from codex_framework.loader.context import LoadContext
from codex_framework.loader.discovery import PluginSource
from codex_framework.loader.imports import place_of, problem_of, redirect_prints
from codex_framework.loader.report import PluginProblem, PluginReport, PluginStatus

__all__ = ["BROKEN", "LoadedPlugin", "bind_context"]

_MOST_OFFERS = 10_000
"""A hook that offers more objects than this is considered an endless generator."""

BROKEN: Final = object()
"""The result of a guarded call in which the plugin's code raised an exception."""


class LoadedPlugin:
    """A plugin with all known facts about it, from its entry point to its report.

    Args:
        source: Its origin.
        context: The context that its hooks get.
        plugin: The object with the hook implementations, if the program has passed it. A subclass of ``Plugin`` is instantiated.

    Attributes:
        hooks: Its hook implementations by name, ready to be called without arguments.
        asked: The hooks that were called.
        contributes: Role to the names that are in use.
        requires: The plugins that it requires, as declared.
        settings: The class of its settings.
        events: Its event classes.
        config_keys: The settings of Codex that take effect through it.
        protected_paths: The paths that nothing may write, as declared.
        fatal: The error in its settings, if the program must not continue without the plugin.
    """

    def __init__(self, source: PluginSource, context: LoadContext, plugin: Any = None) -> None:
        self.source = source
        self.context = context
        self.object: Any = plugin
        self.passed = plugin is not None
        self.load_ms = 0.0
        self.disabled = False
        self.hooks: dict[str, Callable[[], Any]] = {}
        self.asked: set[str] = set()
        self.problems: list[PluginProblem] = []
        self.contributes: dict[str, list[str]] = {}
        self.requires: tuple[str, ...] = ()
        self.settings: type[Any] | None = None
        self.events: tuple[type[EventMsg], ...] = ()
        self.config_keys: tuple[str, ...] = ()
        self.protected_paths: tuple[str, ...] = ()
        self.fatal: ConfigError | None = None
        self.version = source.version
        self._left_out = 0

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.source.name

    @property
    def label(self) -> str:
        """Name and origin, for display."""
        return f"{self.name!r} ({self.source.origin or 'passed by the program'})"

    @property
    def usable(self) -> bool:
        """Whether the plugin is not disabled, neither by the configuration nor by an error."""
        return self.object is not None and not self.disabled

    @property
    def code(self) -> str:
        """The file, or the folder of the package, that contains the plugin's code. Empty if there is no file."""
        if self.source.file:
            return self.source.file
        if self.passed:
            names = [_module_of(self.object)]
        else:
            parts = self.source.target.partition(":")[0].split(".")
            names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]  # the first may be a namespace
        files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
        file = next((file for file in files if file), "")
        return os.path.dirname(file) if os.path.basename(file).startswith("__init__.") else file  # noqa: PTH119, PTH120

    def disable(self) -> None:
        """Disable the plugin because of the configuration."""
        self.disabled = True
        self.object = None

    def fail(self, *problems: PluginProblem) -> None:
        """Disable the whole plugin because of problems."""
        self.problems[:0] = problems
        self.object = None
        self.hooks.clear()
        self.contributes.clear()

    def withdraw(self, problem: PluginProblem) -> None:
        """Disable the plugin because it has failed in use."""
        self.fail()
        self.problems.append(problem)

    def leave_out(self, problem: PluginProblem) -> None:
        """Add a problem for one of its objects, which is not used."""
        self.problems.append(problem)
        self._left_out += 1

    def offers(self, hook: str) -> list[Any] | None:
        """Call a hook that offers objects. If it fails, report this, disable the plugin and return None."""
        function = self.hooks[hook]

        def ask() -> list[Any] | None:
            offered = function()
            if not hasattr(offered, "__iter__") or isinstance(offered, (str, bytes, Mapping)):
                self.fail(_not_iterable(hook, offered, function))
                return None
            return list(itertools.islice(offered, _MOST_OFFERS + 1))

        self.asked.add(hook)
        items = self.call_safely(f"be used: {hook} failed", ask)
        if items is BROKEN or items is None:
            return None
        if len(items) > _MOST_OFFERS:
            fact = f"its {hook} offers more than {_MOST_OFFERS} objects"
            self.fail(PluginProblem(fact, "Return a finite number of objects.", "plugin-hook", *place_of(function)))
            return None
        offers: list[Any] = items
        return offers

    def ask_declaration(self, hook: str) -> Any:
        """Call a hook that declares something. Returns ``BROKEN`` if it raises, which disables the plugin."""
        self.asked.add(hook)
        return self.ask(hook, self.hooks[hook])

    def ask(self, hook: str, function: Callable[..., Any]) -> Any:
        """Call an implementation of a hook, with the plugin's context if it takes one. Returns ``BROKEN`` if it raises."""
        return self.call_safely(f"be used: {hook} failed", bind_context(function, self.context))

    def call_safely(self, doing: str, function: Callable[[], Any]) -> Any:
        """Call code of the plugin. If it raises, the plugin is disabled and ``BROKEN`` is returned.

        Args:
            doing: The attempt, as in "it cannot <doing>".
        """
        begin = time.perf_counter()
        try:
            with redirect_prints():
                return function()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # as at import: a plugin that calls sys.exit() must not end the program
            self.fail(problem_of(error, self.source, doing))
            return BROKEN
        finally:
            self.load_ms += (time.perf_counter() - begin) * 1000

    def report(self) -> PluginReport:
        """Return the outcome of loading the plugin."""
        return PluginReport(
            name=self.name,
            module=self.source.target,
            distribution=self.source.distribution,
            version=self.version,
            status=self._status(),
            contributes={role: tuple(names) for role, names in self.contributes.items()},
            problems=tuple(self.problems),
            load_ms=self.load_ms,
            bundled=self.source.bundled,
            file=self.source.file,
            requires=self.requires,
            settings=self.settings,
        )

    def _status(self) -> PluginStatus:
        if self.disabled:
            return PluginStatus.DISABLED
        if self.object is None:
            return PluginStatus.FAILED
        if not self._left_out:
            return PluginStatus.LOADED
        return PluginStatus.PARTIAL if self.contributes or self.hooks.keys() - self.asked else PluginStatus.FAILED


def _module_of(plugin: Any) -> str:
    if isinstance(plugin, types.ModuleType):
        return plugin.__name__
    kind = plugin if isinstance(plugin, type) else type(plugin)
    return kind.__module__


def bind_context(function: Callable[..., Any], context: LoadContext) -> Callable[[], Any]:
    """Bind a hook implementation to its plugin's context, if it takes one."""
    code = getattr(function, "__code__", None)
    if code is not None and not hasattr(function, "__wrapped__"):
        named = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
        if "plugin" in named:
            return functools.partial(function, plugin=context)
        if not code.co_posonlyargcount:
            return function
    parameter = inspect.signature(function).parameters.get("plugin")
    if parameter is None:
        return function
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return functools.partial(function, context)
    return functools.partial(function, plugin=context)


def _not_iterable(hook: str, offered: object, function: Callable[[], Any]) -> PluginProblem:
    given = "None" if offered is None else type(offered).__name__
    return PluginProblem(
        f"its {hook} returned {given}, not a list",
        "Return a list of the objects it offers, or an empty list.",
        "plugin-hook",
        *place_of(function),
    )
