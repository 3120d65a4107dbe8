"""Hooks that plugins declare (``codex_roles``), and the objects that other plugins offer to them."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from codex_framework.loader.hook_checks import HOOKS, implementation
from codex_framework.loader.imports import place_of
from codex_framework.loader.plugin import BROKEN, LoadedPlugin
from codex_framework.loader.report import PluginProblem
from codex_framework.loader.role_checks import role_problems
from codex_framework.toolkit.roles import add_defaults

__all__ = ["OwnHooks"]

T = TypeVar("T")
_HOOK = "codex_roles"


class _OwnHook(NamedTuple):
    """A hook of a plugin, and the class that it collects."""

    owner: LoadedPlugin
    role: type[Any]


class OwnHooks:
    """The hooks that plugins declare, by name."""

    def __init__(self) -> None:
        self._hooks: dict[str, _OwnHook] = {}
        self._offers: dict[str, list[tuple[LoadedPlugin, Any]]] = {}

    @property
    def names(self) -> Collection[str]:
        """The names of the hooks."""
        return self._hooks.keys()

    def declare(self, loaded: LoadedPlugin) -> None:
        """Read the own hooks of a plugin. An invalid declaration disables the plugin."""
        function = implementation(loaded.object, _HOOK)
        if function is None:
            return
        loaded.asked.add(_HOOK)
        declared = loaded.ask(_HOOK, function)
        if declared is BROKEN:
            return
        problem = self._fault(declared)
        if problem is not None:
            path, line = place_of(function)
            loaded.fail(problem.evolve(path=path, line=line))
            return
        for hook, role in declared.items():
            self._hooks[hook] = _OwnHook(loaded, role)

    def collect(self, plugins: Iterable[LoadedPlugin]) -> None:
        """Call the hooks, in the order of the plugins, and give each plugin access to the objects for its own hooks."""
        plugins = list(plugins)
        for hook, own in self._hooks.items():
            self._offers[hook] = []
            if own.owner.usable:
                own.owner.contributes.setdefault("hooks", []).append(hook)
                self._ask(hook, own, plugins)
        for loaded in plugins:
            loaded.context.collected = lambda role, loaded=loaded: self._find_offers(loaded, role)

    def _ask(self, hook: str, own: _OwnHook, plugins: Iterable[LoadedPlugin]) -> None:
        for loaded in plugins:
            if hook not in loaded.hooks:
                continue
            for item in loaded.offers(hook) or ():
                problems = role_problems(item, own.role)
                if problems:
                    loaded.leave_out(_left_out(hook, own, item, problems))
                    continue
                self._offers[hook].append((loaded, add_defaults(item, own.role)))
                loaded.contributes.setdefault(hook, []).append(_name_of(item))

    def _find_offers(self, loaded: LoadedPlugin, role: type[T]) -> Sequence[T]:
        own = [hook for hook, declared in self._hooks.items() if declared.owner is loaded and declared.role is role]
        if not own:
            return loaded.context.refuse_role(role)
        return tuple(item for hook in own for owner, item in self._offers[hook] if owner.usable)

    def _fault(self, declared: Any) -> PluginProblem | None:
        if not isinstance(declared, Mapping):
            fact = f"its codex_roles returned {declared!r}, not a dict of hook names and classes"
            return PluginProblem(fact, 'Return a dict, such as {"acme_linters": Linter}.', "plugin-hook")
        for hook, role in declared.items():
            if not isinstance(hook, str) or not hook.isidentifier() or keyword.iskeyword(hook) or hook[0] == "_":
                return PluginProblem(
                    f"its hook {hook!r} is not a valid name of a function",
                    "Use a name that a function can have.",
                    "plugin-hook",
                )
            if hook in HOOKS:
                return PluginProblem(
                    f"its hook {hook!r} is a hook of the framework", "Choose another name.", "plugin-hook"
                )
            if hook in self._hooks:
                owner = self._hooks[hook].owner.label
                return PluginProblem(
                    f"its hook {hook!r} is also declared by {owner}", "Choose another name.", "plugin-name"
                )
            if not isinstance(role, type):
                return PluginProblem(
                    f"its hook {hook!r} collects {role!r}, which is not a class",
                    "Use a class or a protocol.",
                    "plugin-hook",
                )
        return None


def _left_out(hook: str, own: _OwnHook, item: Any, problems: Sequence[str]) -> PluginProblem:
    return PluginProblem(
        f"its object {_name_of(item)} for {hook} of plugin {own.owner.name!r} is ignored: {'; '.join(problems)}",
        f"See {own.role.__module__}.{own.role.__qualname__} for the required members.",
        "plugin-role",
        *place_of(item),
    )


def _name_of(item: Any) -> str:
    try:
        name = item.name
    except Exception:  # noqa: S110  # no such attribute, or a property that raises
        pass
    else:
        if isinstance(name, str) and name:
            return name
    return type(item).__name__
