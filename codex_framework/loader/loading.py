"""Loads plugins one by one: imports them, checks their hooks, and reads their declarations.

A broken plugin disables only itself and the plugins that require it. The outcome for each is kept in a ``LoadedPlugin``, from
which its report is made.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.contract import hookspecs
from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.roles.plugins import Offer, Plugin
from codex_framework.loader.context import LoadContext
from codex_framework.loader.declarations import declare, declare_rest, unique_events
from codex_framework.loader.discovery import EntryPointLike, PluginSource, discover, source_of
from codex_framework.loader.hook_checks import HOOKS, find_implementations, hook_problems, is_marked
from codex_framework.loader.imports import import_plugin, place_of, static_attribute
from codex_framework.loader.plugin import BROKEN, LoadedPlugin, bind_context
from codex_framework.loader.report import PluginProblem, PluginReport
from codex_framework.loader.selection import Selection
from codex_framework.loader.versions import api_problem, framework_problem
from codex_framework.toolkit.faults import advice

if TYPE_CHECKING:
    from codex_framework.config import Config
    from codex_framework.loader.own_hooks import OwnHooks
    from codex_framework.loader.requirements import Requirements

__all__ = ["Plugins", "load_plugins"]


class Plugins:
    """All plugins, ready to offer their objects.

    Iteration is in order of precedence: preferred, passed by the program, bundled, others, files.

    Attributes:
        selection: The plugins that the configuration disables and prefers.
        order: The plugins, each after the plugins that it requires.
    """

    def __init__(self, plugins: Sequence[LoadedPlugin], selection: Selection) -> None:
        self._plugins = plugins
        self.selection = selection
        self._requirements = _requirements(plugins)
        self.order = plugins if self._requirements is None else self._requirements.order

    def __iter__(self) -> Iterator[LoadedPlugin]:
        return iter(self._plugins)

    @property
    def usable(self) -> frozenset[str]:
        """The names of the plugins that have not failed."""
        return frozenset(plugin.name for plugin in self._plugins if plugin.usable)

    @cached_property
    def events(self) -> Mapping[str, tuple[str, type[EventMsg]]]:
        """Their event classes by tag, each with its plugin's name. Plugins that have not declared theirs yet do so now."""
        for plugin in self._plugins:
            if plugin.usable:
                declare_rest(plugin)
        return unique_events(self._plugins)

    def complete(self) -> None:
        """Collect declarations that plugins have not made yet."""
        _ = self.events

    def is_bundled_hook(self, hook: str) -> bool:
        """Return whether all plugins with a hook are bundled. Their results are known to be valid, so they can be read later."""
        return all(plugin.source.bundled or hook not in plugin.hooks for plugin in self._plugins)

    def check_requirements(self, plugin: LoadedPlugin) -> bool:
        """Return whether a plugin can be used; it is disabled if a plugin that it requires is."""
        return plugin.usable if self._requirements is None else self._requirements.check(plugin)

    def raise_fatal(self) -> None:
        """Raise the first error that the program must not continue with.

        Raises:
            ConfigError: The settings of a plugin with safeguards are invalid.
        """
        for plugin in self._plugins:
            if plugin.fatal is not None:
                raise plugin.fatal

    def configure(self, config: Config) -> None:
        """Give all plugins another configuration."""
        for plugin in self._plugins:
            plugin.context.configure(config)

    def publish(self, offered: Callable[[type[Any]], Mapping[str, Offer[Any]] | None]) -> None:
        """Let plugins ask for the offers of all plugins for a role."""
        for plugin in self._plugins:
            plugin.context.registered = offered

    def withdraw(self, failed: Mapping[str, str]) -> None:
        """Disable plugins that have failed after they were loaded, and the plugins that require them.

        Args:
            failed: The reason by plugin name.
        """
        reasons = dict(failed)
        requiring = () if self._requirements is None else self._requirements.dependents(failed)
        for plugin, name in requiring:
            reasons[plugin.name] = f"it requires plugin {name!r}, which cannot be used: {reasons[name]}"
        for plugin in self._plugins:
            if plugin.usable and plugin.name in reasons:
                plugin.withdraw(PluginProblem(reasons[plugin.name], advice(plugin.name), "component"))

    def report_problems(self, problems: Iterable[tuple[str, PluginProblem]]) -> list[PluginProblem]:
        """Add problems to the reports of plugins, each with a plugin's name, and return the problems of unknown plugins."""
        by_name = {plugin.name: plugin for plugin in reversed(self._plugins)}
        unknown = []
        for name, problem in problems:
            if name in by_name:
                by_name[name].problems.append(problem)
            else:
                unknown.append(problem)
        return unknown

    def reports(self) -> tuple[PluginReport, ...]:
        """Return the outcome for each plugin so far."""
        return tuple(plugin.report() for plugin in self._plugins)


def load_plugins(
    config: Config,
    *,
    environ: Mapping[str, str],
    entry_points: Iterable[EntryPointLike] | None = None,
    extra_plugins: Sequence[object] = (),
) -> Plugins:
    """Import and register all plugins, read their declarations, and disable those that cannot be used.

    The arguments have the same meaning as for ``load_registry``.

    Raises:
        ConfigError: ``[framework.plugins]`` is invalid.
    """
    selection = Selection.from_tables(config.tables)
    found = [
        LoadedPlugin(source, LoadContext(source.name, config, environ), plugin)
        for source, plugin in _sources(config, selection, entry_points, extra_plugins)
    ]
    found.sort(key=lambda plugin: _rank(plugin, selection))
    taken: dict[str, LoadedPlugin] = {}
    names: dict[int, str] = {}
    for plugin in found:
        if plugin.name in selection.disabled:
            plugin.disable()
        elif (other := taken.get(plugin.name)) is not None:
            plugin.fail(_report_name_conflict(plugin, other))
        else:
            taken[plugin.name] = plugin
            _make(plugin, names)
    own_hooks = _own_hooks(found)
    for plugin in found:
        if plugin.usable:
            _add_hooks(plugin, () if own_hooks is None else own_hooks.names)
    for plugin in found:
        if plugin.usable:
            declare(plugin)
    plugins = Plugins(found, selection)
    if not plugins.is_bundled_hook("codex_events"):
        plugins.complete()
    for plugin in found:
        plugin.context.collected = plugin.context.refuse_role
    if own_hooks is not None:
        own_hooks.collect(plugins.order)
    return plugins


def _sources(
    config: Config,
    selection: Selection,
    entry_points: Iterable[EntryPointLike] | None,
    extra_plugins: Sequence[object],
) -> Iterator[tuple[PluginSource, object]]:
    """Yield the sources of all plugins, each with the plugin itself if the program passed it."""
    for source in discover(hookspecs.GROUP) if entry_points is None else map(source_of, entry_points):
        yield source, None
    files = [plugin for plugin in extra_plugins if isinstance(plugin, Path)]
    if files or selection.paths:
        from codex_framework.loader.files import file_sources

        for source in file_sources(config, files):
            yield source, None
    for plugin in extra_plugins:
        if not isinstance(plugin, Path):
            kind = plugin if isinstance(plugin, type) else type(plugin)
            name = getattr(plugin, "__name__", None) or kind.__name__
            yield PluginSource(name=str(name), target=f"{getattr(plugin, '__module__', None) or name}"), plugin


# These are imported only if a plugin uses them, which keeps other programs' start fast.


def _own_hooks(plugins: Sequence[LoadedPlugin]) -> OwnHooks | None:
    """Return the hooks that plugins declare."""
    declaring = [
        plugin for plugin in plugins if plugin.usable and static_attribute(plugin.object, "codex_roles") is not None
    ]
    if not declaring:
        return None
    from codex_framework.loader.own_hooks import OwnHooks

    own_hooks = OwnHooks()
    for plugin in declaring:
        own_hooks.declare(plugin)
    return own_hooks


def _requirements(plugins: Sequence[LoadedPlugin]) -> Requirements | None:
    if not any(plugin.requires for plugin in plugins):
        return None
    from codex_framework.loader.requirements import Requirements

    return Requirements(plugins)


def _make(plugin: LoadedPlugin, names: dict[int, str]) -> None:
    """Import a plugin, and instantiate it if it is a class.

    Args:
        names: The names of the plugins so far, by the identity of the object that their entry points name.
    """
    if not plugin.passed and not _import(plugin):
        return
    if plugin.source.file:
        _choose_object(plugin)
        if not plugin.usable:
            return
    problem = api_problem(plugin.object)
    if problem is not None:
        plugin.fail(problem)
        return
    other = names.setdefault(id(plugin.object), plugin.name)
    if other != plugin.name:
        fact = f"it is the same object as plugin {other!r}"
        plugin.fail(PluginProblem(fact, "Remove one of the two entry points.", "plugin-name"))
    elif _is_plugin_class(plugin.object):
        _instantiate(plugin)


def _add_hooks(plugin: LoadedPlugin, declared: Collection[str]) -> None:
    """Check the hook implementations of a plugin, and keep them.

    Args:
        declared: The names of hooks that plugins declare.
    """
    # The tests check the bundled ones, so that their users need not wait for it.
    problems = [] if plugin.source.bundled else hook_problems(plugin.object, declared)
    if problems:
        plugin.fail(*problems)
        return
    functions = find_implementations(plugin.object)
    for hook in (*HOOKS, *declared):
        if hook in functions:
            plugin.hooks[hook] = bind_context(functions[hook], plugin.context)
    for hook in hookspecs.DEPRECATED.keys() & functions.keys():
        plugin.call_safely("be used", partial(_warn_deprecated, hook, functions[hook]))
    if not plugin.usable:
        return
    if not plugin.hooks:
        plugin.fail(_no_hook(plugin))
    elif "codex_roles" in plugin.hooks and "codex_roles" not in plugin.asked:
        fact = "its codex_roles is a function with another name, but it is looked up by this name before hooks are registered"
        plugin.fail(PluginProblem(fact, "Rename the function to codex_roles.", "plugin-hook"))


def _warn_deprecated(hook: str, function: Callable[..., Any]) -> None:
    path, line = place_of(function)
    text = f"{hook} is deprecated and will be removed: {hookspecs.DEPRECATED[hook]}"
    warnings.warn_explicit(text, DeprecationWarning, path or hook, line or 1)


def _import(plugin: LoadedPlugin) -> bool:
    problem = None if plugin.source.bundled else framework_problem(plugin.source)
    if problem is None:
        imported = import_plugin(plugin.source)
        plugin.object, plugin.load_ms, problem = imported.plugin, imported.load_ms, imported.problem
    if problem is not None:
        plugin.fail(problem)
    return problem is None


def _choose_object(plugin: LoadedPlugin) -> None:
    """Use the module of a one-file plugin, or the class in it if the module itself has no hooks."""
    module = plugin.object
    version = vars(module).get("__version__")
    plugin.version = version if isinstance(version, str) else ""
    marked = (hasattr(value, f"{hookspecs.GROUP}_impl") for value in vars(module).values() if inspect.isroutine(value))
    classes = _plugin_classes(module)
    if not classes or any(marked):
        return
    last = [kind for kind in classes if not any(other is not kind and issubclass(other, kind) for other in classes)]
    if len(last) == 1:
        plugin.object = last[0]
        return
    names = ", ".join(kind.__name__ for kind in last)
    hint = "Put each class into its own file."
    plugin.fail(PluginProblem(f"its file contains several plugins: {names}", hint, "plugin-file", *place_of(last[1])))


def _is_plugin_class(plugin: object) -> bool:
    """Return whether this is a subclass of ``Plugin``, which each kernel instantiates."""
    return isinstance(plugin, type) and issubclass(plugin, Plugin)


def _plugin_classes(module: object) -> list[type[Plugin]]:
    """Return the subclasses of ``Plugin`` that a module defines itself, in order of definition."""
    name = getattr(module, "__name__", None)
    found = (value for value in vars(module).values() if _is_plugin_class(value))
    return [kind for kind in dict.fromkeys(found) if kind.__module__ == name]


def _instantiate(plugin: LoadedPlugin) -> None:
    """Replace the plugin's class by an instance of it. If this fails, the plugin is disabled."""
    kind: type[Any] = plugin.object
    problem = _signature_problem(kind)
    if problem is not None:
        plugin.fail(problem)
        return
    instance = plugin.call_safely(f"be created: {kind.__name__}() failed", lambda: kind(plugin.context))
    if instance is BROKEN:
        return
    if getattr(instance, "context", None) is not plugin.context:
        fact = f"{kind.__name__}.__init__ does not call super().__init__, so the plugin has no context"
        hint = "Begin it with `super().__init__(context)`."
        plugin.fail(PluginProblem(fact, hint, "plugin-hook", *place_of(kind.__init__)))
        return
    plugin.object = instance


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


def _no_hook(plugin: LoadedPlugin) -> PluginProblem:
    found = plugin.object
    if getattr(found, "__file__", "") is None:
        fact = f"its package {plugin.source.target!r} has no __init__.py, so it contains no hooks"
        return PluginProblem(fact, "Add a module that contains the hooks.", "plugin-hook")
    classes = _plugin_classes(found) if inspect.ismodule(found) else []
    underived = next(_classes_without_base(found), None)
    if underived is not None:
        fact = f"its class {underived.__name__} has hooks, but it is not derived from Plugin"
        hint = f"Write `class {underived.__name__}(Plugin):`, with Plugin from codex_framework."
        return PluginProblem(fact, hint, "plugin-hook", *place_of(underived))
    if classes:
        hint = f"Change the entry point so that it names the class: {plugin.source.target}:{classes[0].__name__}."
    else:
        hint = f"Put `@codex_framework.hookimpl` above one of {', '.join(hook.__name__ for hook in hookspecs.HOOKS)}."
    return PluginProblem("it implements no hook", hint, "plugin-hook", plugin.source.file)


def _classes_without_base(plugin: object) -> Iterator[type[Any]]:
    """Yield the classes of a module that have hook implementations, but do not derive from ``Plugin``."""
    for kind in list(vars(plugin).values()) if inspect.ismodule(plugin) else ():
        own = isinstance(kind, type) and kind.__module__ == getattr(plugin, "__name__", "")
        if own and not issubclass(kind, Plugin) and any(is_marked(value) for value in vars(kind).values()):
            yield kind


def _rank(plugin: LoadedPlugin, selection: Selection) -> tuple[int, int]:
    source = plugin.source
    preferred = selection.prefer.index(plugin.name) if plugin.name in selection.prefer else len(selection.prefer)
    return preferred, 0 if plugin.passed or source.passed else 1 if source.bundled else 3 if source.file else 2


def _report_name_conflict(loser: LoadedPlugin, winner: LoadedPlugin) -> PluginProblem:
    file = next((each.source for each in (loser, winner) if each.source.file), None)
    hint = "Uninstall one of the two, or rename its entry point."
    if file is not None:
        hint = "Rename the file: a one-file plugin has the name of its file, without .py."
    place = ("", None) if file is None else (file.named_in or file.file, file.named_line)
    fact = f"two plugins are called {loser.name!r}: {winner.label} and {loser.label}; the first is used"
    problem = PluginProblem(fact, hint, "plugin-name", *place)
    if not loser.source.file:
        winner.problems.append(problem)
    return problem
