"""Checks a plugin's hook implementations when it is loaded: names and parameters.

A hook with a misspelt name would otherwise simply never be called.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from codex_framework.contract import hookspecs
from codex_framework.contract.roles.plugins import Plugin
from codex_framework.loader.imports import place_of
from codex_framework.loader.report import PluginProblem

__all__ = ["HOOKS", "find_implementations", "hook_problems", "implementation", "is_marked"]

_MARK = f"{hookspecs.GROUP}_impl"
_PREFIX = "codex_"
_PARAMETER = "plugin"
"""The only parameter that a hook implementation can have."""

_NO_ROUTINES = (type, types.ModuleType, str)
"""The types of most module attributes, which are skipped because ``inspect.isroutine`` is slow."""

HOOKS: Mapping[str, Callable[..., Any]] = {hook.__name__: hook for hook in hookspecs.HOOKS}
"""Every hook by name, in the order of the reference."""


def hook_problems(plugin: object, declared: Collection[str] = ()) -> list[PluginProblem]:
    """Return the problems of a plugin's hook implementations: names and parameters.

    Args:
        declared: The names of hooks that plugins declare.
    """
    return [
        problem.evolve(path=path, line=line)
        for name, function, mark in _candidates(plugin, declared)
        if not _is_of_framework(function)
        for problem in _of_hook(name, function, mark, declared)
        for path, line in (place_of(function),)
    ]


def _is_of_framework(function: object) -> bool:
    """Return whether the framework defines a function, which a plugin then inherits. Such functions are valid hooks."""
    return str(getattr(function, "__module__", "")).startswith("codex_framework.")


def is_marked(value: object) -> bool:
    """Return whether a function is a hook implementation."""
    return isinstance(getattr(value, _MARK, None), Mapping)


def find_implementations(plugin: object) -> dict[str, Callable[..., Any]]:
    """Return a plugin's hook implementations by hook."""
    return {name: function for name, function, mark in _candidates(plugin) if mark is not None}


def implementation(plugin: object, hook: str) -> Callable[..., Any] | None:
    """Return a plugin's valid implementation of a hook, if it has one."""
    for name, function, mark in _candidates(plugin):
        if name == hook and mark is not None and not [*_of_hook(name, function, mark, ())]:
            return function
    return None


def _candidates(
    plugin: object, declared: Collection[str] = ()
) -> Iterator[tuple[str, Callable[..., Any], Mapping[str, Any] | None]]:
    """Yield functions that are hook implementations or seem to be meant as such."""
    for name in dir(plugin):
        try:
            value = getattr(plugin, name)
        except Exception:  # noqa: S112  # a property of the plugin's own that raises is none of our business
            continue
        if not isinstance(value, types.FunctionType) and (
            not callable(value) or isinstance(value, _NO_ROUTINES) or not inspect.isroutine(value)
        ):
            continue
        mark = getattr(value, _MARK, None)
        if isinstance(mark, Mapping):
            yield str(mark.get("specname") or name), value, mark
        elif (name.startswith(_PREFIX) or name in declared) and _of_its_own(value, plugin):
            yield name, value, None


def _of_its_own(function: Callable[..., Any], plugin: object) -> bool:
    """Return whether a plugin defines a function itself, so that a hook's name without the decorator is a mistake."""
    if isinstance(plugin, Plugin):
        return inspect.ismethod(function) or inspect.isfunction(function)
    return getattr(function, "__module__", "") == getattr(plugin, "__name__", None)


def _of_hook(
    name: str, function: Callable[..., Any], mark: Mapping[str, Any] | None, declared: Collection[str]
) -> Iterator[PluginProblem]:
    if name not in HOOKS and name not in declared:
        # A plugin may have functions of its own called codex_something; only names similar to a hook's are reported.
        if _near(name, (), cutoff=0.85) if mark is None else not mark.get("optionalhook"):
            yield _unknown_hook(name, declared)
    elif mark is None:
        yield PluginProblem(
            f"its function {name} is not marked as a hook implementation",
            f"Put `@codex_framework.hookimpl` above `def {name}`.",
            "plugin-hook",
        )
    elif mark.get("wrapper") or mark.get("hookwrapper"):
        yield PluginProblem(
            f"its {name} is a hook wrapper, but hooks that offer objects cannot be wrapped",
            f"Write a plain `{_definition(name, function)}` that returns the objects of the plugin.",
            "plugin-hook",
        )
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield PluginProblem(
            f"its {name} is async, but hooks are called before the event loop starts",
            f"Write `{_definition(name, function)}`; the objects it offers may have async methods.",
            "plugin-hook",
        )
    else:
        yield from _of_signature(name, function)


def _definition(name: str, function: Callable[..., Any], *parameters: str) -> str:
    """Return the line that defines a hook implementation."""
    taken = (*(("self",) if inspect.ismethod(function) else ()), *parameters)
    return f"def {name}({', '.join(taken)}):"


def _unknown_hook(name: str, declared: Collection[str]) -> PluginProblem:
    near = _near(name, declared) or _near(_PREFIX + name, declared)
    hint = f"Did you mean {near[0]}?" if near else f"The hooks are: {', '.join((*HOOKS, *sorted(declared)))}."
    return PluginProblem(f"there is no hook {name}", hint, "plugin-hook")


def _near(name: str, declared: Collection[str], cutoff: float = 0.75) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, (*HOOKS, *declared), n=1, cutoff=cutoff)


def _of_signature(name: str, function: Callable[..., Any]) -> Iterator[PluginProblem]:
    if _lacks_self(function):
        yield PluginProblem(f"its method {name} has no parameter self", f"Write `def {name}(self):`.", "plugin-hook")
        return
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    extra = [parameter for parameter in needed if parameter != _PARAMETER]
    if extra[:1] == ["self"]:
        yield PluginProblem(
            f"its entry point names a class that does not derive from Plugin, so there is no instance to call {name} on",
            "Derive the class from codex_framework.Plugin, or let the entry point name an instance.",
            "plugin-hook",
        )
    elif extra:
        ways = f"`{_definition(name, function)}` or `{_definition(name, function, _PARAMETER)}`"
        yield PluginProblem(
            f"its {name} takes {', '.join(extra)}, but hooks are called with nothing but {_PARAMETER}",
            f"Write {ways}.",
            "plugin-hook",
        )


def _lacks_self(function: Callable[..., Any]) -> bool:
    """Return whether a method cannot be called on its object."""
    code = getattr(getattr(function, "__func__", None), "__code__", None)
    return code is not None and not code.co_argcount and not code.co_flags & inspect.CO_VARARGS
