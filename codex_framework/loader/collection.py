"""Loads plugins one by one: the typed wrapper around pluggy, which is used nowhere else.

A broken plugin disables only itself and the plugins that require it. The outcome for each is collected in a ``Loaded``, from which
its report is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pluggy

from codex_framework.contract import hookspecs
from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.roles.plugins import Plugin
from codex_framework.contract.value import Value
from codex_framework.loader.context import LoadContext
from codex_framework.loader.declarations import declare, declare_rest, unique_events
from codex_framework.loader.discovery import PluginSource
from codex_framework.loader.hook_checks import hook_problems, hooks, is_marked, marked
from codex_framework.loader.instances import instantiate, is_plugin_class, plugin_classes
from codex_framework.loader.loaded import Loaded, bound
from codex_framework.loader.loading import import_plugin, place_of, problem_of
from codex_framework.loader.report import PluginProblem
from codex_framework.loader.selection import Selection

if TYPE_CHECKING:
    from codex_framework.config import Config
    from codex_framework.loader.own_hooks import OwnHooks
    from codex_framework.loader.requirements import Requirements

__all__ = ["Collected", "collect"]

ContextFor = Callable[[str], LoadContext]
"""Makes the context of the plugin with this name."""


class Collected(Value):
    """All plugins, ready to offer their objects.

    Attributes:
        plugins: In order of precedence: preferred, passed by the program, bundled, others, files.
        requirements: What they require of each other, if they require anything.
    """

    plugins: list[Loaded]
    requirements: Requirements | None

    def only_bundled(self, hook: str) -> bool:
        """Return whether all plugins with a hook are bundled. What these return is known to be valid, so it can be read late."""
        return all(loaded.source.bundled or hook not in loaded.hooks for loaded in self.plugins)

    def configure(self, config: Config) -> None:
        """Give all plugins another configuration."""
        for loaded in self.plugins:
            loaded.context.configure(config)

    def complete(self) -> None:
        """Ask plugins for what they have not declared yet."""
        _ = self.events

    @cached_property
    def events(self) -> Mapping[str, tuple[str, type[EventMsg]]]:
        """Their event classes by tag, each with its plugin's name. Plugins that have not declared theirs yet do so now."""
        for loaded in self.plugins:
            if loaded.usable:
                declare_rest(loaded)
        return unique_events(self.plugins)

    @property
    def order(self) -> Sequence[Loaded]:
        """The plugins, each after those that it requires."""
        return self.plugins if self.requirements is None else self.requirements.order

    def check(self, loaded: Loaded) -> bool:
        """Return whether a plugin can be used; it is disabled if a plugin that it requires is."""
        return loaded.usable if self.requirements is None else self.requirements.check(loaded)


def collect(
    sources: Iterable[PluginSource], selection: Selection, extra_plugins: Sequence[object], context: ContextFor
) -> Collected:
    """Import and register all plugins, read their declarations, and disable those that cannot be used."""
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
            registration.make(loaded)
    own_hooks = _own_hooks(found)
    registration.declared = () if own_hooks is None else tuple(own_hooks.names)
    for loaded in found:
        if loaded.usable:
            registration.add(loaded)
    for loaded in found:
        if loaded.usable:
            declare(loaded)
    collected = Collected(found, _requirements(found))
    if not collected.only_bundled("codex_events"):
        collected.complete()
    for loaded in found:
        loaded.context.collected = loaded.context.undeclared
    if own_hooks is not None:
        own_hooks.collect(collected.order)
    return collected


# These are imported only if a plugin uses them, which keeps other programs' start fast.


def _own_hooks(plugins: Sequence[Loaded]) -> OwnHooks | None:
    """Return the hooks that plugins declare."""
    declaring = [loaded for loaded in plugins if loaded.usable and _has(loaded.plugin, "codex_roles")]
    if not declaring:
        return None
    from codex_framework.loader.own_hooks import OwnHooks

    own_hooks = OwnHooks()
    for loaded in declaring:
        own_hooks.declare(loaded)
    return own_hooks


def _has(plugin: object, name: str) -> bool:
    """Whether an object has an attribute, without running code of the plugin."""
    return inspect.getattr_static(plugin, name, None) is not None


def _requirements(plugins: Sequence[Loaded]) -> Requirements | None:
    if not any(loaded.requires for loaded in plugins):
        return None
    from codex_framework.loader.requirements import Requirements

    return Requirements(plugins)


class _Implementations:
    """The hook implementations of a plugin and nothing else, because pluggy inspects every attribute of a registered object."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.__dict__.update(functions)


class _Manager(pluggy.PluginManager):
    """A plugin manager that does not search what every object inherits from ``object``: that took longer than everything else."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Return the options of a hook implementation, or None if the attribute is none."""
        return None if name.startswith("__") else super().parse_hookimpl_opts(plugin, name)


_ACCEPTED: dict[str, tuple[Callable[..., Any], ...]] = {}
"""The functions of bundled plugins that pluggy has accepted, by plugin. They are the same in every kernel of the process."""


class _Registration:
    """Turns the targets of entry points into hook implementations."""

    def __init__(self) -> None:
        self.declared: Sequence[str] = ()
        self._named: dict[int, tuple[object, str]] = {}

    @cached_property
    def _manager(self) -> _Manager:
        manager = _Manager(hookspecs.GROUP)
        manager.add_hookspecs(hookspecs)
        return manager

    def make(self, loaded: Loaded) -> None:
        """Import a plugin, and instantiate it if it is a class."""
        if not loaded.passed and not _imported(loaded):
            return
        if loaded.source.file:
            _choose(loaded)
            if not loaded.usable:
                return
        named = loaded.plugin
        _, other = self._named.setdefault(id(named), (named, loaded.name))
        if other != loaded.name:
            fact = f"it is the same object as plugin {other!r}"
            loaded.fail(PluginProblem(fact, "Remove one of the two entry points.", "plugin-name"))
            return
        if is_plugin_class(named):
            instantiate(loaded)

    def add(self, loaded: Loaded) -> None:
        """Check the hooks of a plugin and register them."""
        # The tests check the bundled ones, so that their users need not wait for it.
        problems = [] if loaded.source.bundled else hook_problems(loaded.plugin, self.declared)
        if problems:
            loaded.fail(*problems)
            return
        self._register(loaded)
        if loaded.usable and not loaded.hooks:
            loaded.fail(_no_hook(loaded))
        elif "codex_roles" in loaded.hooks and "codex_roles" not in loaded.asked:
            fact = "its codex_roles is a function with another name, but it is looked up by this name before hooks are registered"
            loaded.fail(PluginProblem(fact, "Rename the function to codex_roles.", "plugin-hook"))

    def _register(self, loaded: Loaded) -> None:
        functions = marked(loaded.plugin)
        same = tuple(getattr(function, "__func__", function) for function in functions.values())
        if not loaded.source.bundled or _ACCEPTED.get(loaded.name) != same:
            try:
                self._manager.register(_Implementations(functions), loaded.name)
            except Exception as error:  # pluggy's own checks; ours come first and have clearer messages
                loaded.fail(problem_of(error, loaded.source, "be registered"))
                return
            if loaded.source.bundled:
                _ACCEPTED[loaded.name] = same
        for hook in (*hooks(), *self.declared):
            if hook in functions:
                loaded.hooks[hook] = bound(functions[hook], loaded.context)


def _imported(loaded: Loaded) -> bool:
    imported = import_plugin(loaded.source)
    loaded.plugin, loaded.load_ms = imported.plugin, imported.load_ms
    if imported.problem is not None:
        loaded.fail(imported.problem)
    return imported.problem is None


def _choose(loaded: Loaded) -> None:
    """Use the module of a one-file plugin, or the class in it if the module itself has no hooks."""
    module = loaded.plugin
    version = vars(module).get("__version__")
    loaded.version = version if isinstance(version, str) else ""
    marked = (hasattr(value, f"{hookspecs.GROUP}_impl") for value in vars(module).values() if inspect.isroutine(value))
    classes = plugin_classes(module)
    if not classes or any(marked):
        return
    last = [kind for kind in classes if not any(other is not kind and issubclass(other, kind) for other in classes)]
    if len(last) == 1:
        loaded.plugin = last[0]
        return
    names = ", ".join(kind.__name__ for kind in last)
    hint = "Put each class into its own file."
    loaded.fail(PluginProblem(f"its file contains several plugins: {names}", hint, "plugin-file", *place_of(last[1])))


def _no_hook(loaded: Loaded) -> PluginProblem:
    plugin = loaded.plugin
    if getattr(plugin, "__file__", "") is None:
        fact = f"its package {loaded.source.target!r} has no __init__.py, so it contains no hooks"
        return PluginProblem(fact, "Add one that contains the hooks.", "plugin-hook")
    classes = plugin_classes(plugin) if inspect.ismodule(plugin) else []
    underived = next(_underived(plugin), None)
    if underived is not None:
        fact = f"its class {underived.__name__} has hooks, but it is not derived from Plugin"
        hint = f"Write `class {underived.__name__}(Plugin):`, with Plugin from codex_framework."
        return PluginProblem(fact, hint, "plugin-hook", *place_of(underived))
    if classes:
        hint = f"Change the entry point so that it names the class: {loaded.source.target}:{classes[0].__name__}."
    else:
        hint = f"Put `@codex_framework.hookimpl` above one of {', '.join(hooks())}."
    return PluginProblem("it implements no hook", hint, "plugin-hook", loaded.source.file)


def _underived(plugin: object) -> Iterator[type[Any]]:
    """Yield the classes of a module that have hook implementations, but do not derive from ``Plugin``."""
    for kind in list(vars(plugin).values()) if inspect.ismodule(plugin) else ():
        own = isinstance(kind, type) and kind.__module__ == getattr(plugin, "__name__", "")
        if own and not issubclass(kind, Plugin) and any(is_marked(value) for value in vars(kind).values()):
            yield kind


def _passed(plugins: Sequence[object]) -> Iterable[tuple[PluginSource, object]]:
    for plugin in plugins:
        kind = plugin if isinstance(plugin, type) else type(plugin)
        name = getattr(plugin, "__name__", None) or kind.__name__
        yield PluginSource(name=str(name), target=f"{getattr(plugin, '__module__', None) or name}"), plugin


def _rank(loaded: Loaded, selection: Selection, place: int) -> tuple[int, ...]:
    preferred = selection.prefer.index(loaded.name) if loaded.name in selection.prefer else len(selection.prefer)
    group = 0 if loaded.passed else 1 if loaded.source.bundled else 3 if loaded.source.file else 2
    return (preferred, group, place)


def _name_taken(loaded: Loaded, other: Loaded) -> PluginProblem:
    hint = "Uninstall one of the two, or rename its entry point."
    if loaded.source.file:
        hint = "Rename the file: a one-file plugin has the name of its file, without .py."
    place = (loaded.source.named_in or loaded.source.file, loaded.source.named_line)
    problem = PluginProblem(
        f"two plugins are called {loaded.name!r}: {other.label} and {loaded.label}; the first is used",
        hint,
        "plugin-name",
        *place,
    )
    if not loaded.source.file:
        other.problems.append(problem)
    return problem
