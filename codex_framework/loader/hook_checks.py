"""Checks a plugin's hook implementations when it is loaded: names, parameters, annotated types.

pluggy does not report a hook with a misspelt name; at run time it would simply never be called.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_type_hints

from codex_framework.contract import hookspecs
from codex_framework.contract.roles.plugins import Plugin, PluginContext
from codex_framework.loader.loading import place_of
from codex_framework.loader.report import PluginProblem
from codex_framework.loader.role_checks import is_plain, kind_name

__all__ = ["hook_problems", "hooks", "implementation", "is_marked", "marked", "role_of"]

_MARK = f"{hookspecs.GROUP}_impl"
_PREFIX = "codex_"
_NOTHING = object()
_PUNCTUATION = str.maketrans("[],.|", "     ")
_NO_ROUTINES = (type, types.ModuleType, str)
"""The types of most module attributes, which are skipped because ``inspect.isroutine`` is slow."""
_ITERABLES = frozenset(
    "Iterable Iterator Generator Sequence Collection list tuple set frozenset List Tuple Set".split()  # noqa: SIM905
)


@cache
def hooks() -> Mapping[str, Callable[..., Any]]:
    """Return every hook by name, in the order of the reference."""
    return {hook.__name__: hook for hook in hookspecs.HOOKS}


@cache
def role_of(hook: str) -> Any:
    """Return the role of a hook's objects; None if it offers no objects, or objects of a foreign class (``codex_commands``)."""
    if hooks()[hook] in hookspecs.DECLARATIONS:
        return None
    try:
        (role,) = typing.get_args(get_type_hints(hooks()[hook])["return"])
    except NameError:
        return None
    return typing.get_origin(role) or role


def hook_problems(plugin: object, declared: Collection[str] = ()) -> list[PluginProblem]:
    """Return the problems of a plugin's hook implementations: names, parameters, annotated types.

    Args:
        declared: The names of hooks that plugins declare.
    """
    return [
        problem.evolve(path=path, line=line)
        for name, function, mark in _candidates(plugin, declared)
        for problem in _of_hook(name, function, mark, declared)
        for path, line in (place_of(function),)
    ]


def is_marked(value: object) -> bool:
    """Return whether a function is a hook implementation."""
    return isinstance(getattr(value, _MARK, None), Mapping)


def marked(plugin: object) -> dict[str, Callable[..., Any]]:
    """Return a plugin's hook implementations by hook."""
    return {name: function for name, function, mark in _candidates(plugin) if mark is not None}


def implementation(plugin: object, hook: str) -> Callable[..., Any] | None:
    """Return a plugin's implementation of a hook; None if there is none or if it is invalid."""
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


def _declared_hook(plugin: PluginContext) -> Any:
    """The signature of a hook that a plugin declares."""


def _of_hook(
    name: str, function: Callable[..., Any], mark: Mapping[str, Any] | None, declared: Collection[str]
) -> Iterator[PluginProblem]:
    spec = _declared_hook if name in declared else hooks().get(name)
    if spec is None:
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
        yield from _of_signature(name, spec, function)


def _definition(name: str, function: Callable[..., Any], *parameters: str) -> str:
    """Return the line that defines a hook implementation."""
    taken = (*(("self",) if inspect.ismethod(function) else ()), *parameters)
    return f"def {name}({', '.join(taken)}):"


def _unknown_hook(name: str, declared: Collection[str]) -> PluginProblem:
    near = _near(name, declared) or _near(_PREFIX + name, declared)
    hint = f"Did you mean {near[0]}?" if near else f"The hooks are: {', '.join((*hooks(), *sorted(declared)))}."
    return PluginProblem(f"there is no hook {name}", hint, "plugin-hook")


def _near(name: str, declared: Collection[str], cutoff: float = 0.75) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, (*hooks(), *declared), n=1, cutoff=cutoff)


def _of_signature(name: str, spec: Callable[..., Any], function: Callable[..., Any]) -> Iterator[PluginProblem]:
    if _lacks_self(function):
        yield PluginProblem(f"its method {name} has no parameter self", f"Write `def {name}(self):`.", "plugin-hook")
        return
    if _says_the_same(spec, function):
        return
    given = list(inspect.signature(spec).parameters)
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    extra = [parameter for parameter in needed if parameter not in given]
    if extra[:1] == ["self"]:
        yield PluginProblem(
            f"its entry point names a class that does not derive from Plugin, so there is no instance to call {name} on",
            "Derive the class from codex_framework.Plugin, or let the entry point name an instance.",
            "plugin-hook",
        )
    elif extra:
        ways = f"`{_definition(name, function)}` or `{_definition(name, function, *given)}`"
        yield PluginProblem(
            f"its {name} takes {', '.join(extra)}, but hooks are called with nothing but {', '.join(given)}",
            f"Write {ways}.",
            "plugin-hook",
        )
    yield from _of_annotations(name, spec, function)


def _lacks_self(function: Callable[..., Any]) -> bool:
    """Return whether a method cannot be called on its object."""
    code = getattr(getattr(function, "__func__", None), "__code__", None)
    return code is not None and not code.co_argcount and not code.co_flags & inspect.CO_VARARGS


def _says_the_same(spec: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Return whether an implementation has the same annotations as its hook, with the same meaning in both modules.

    Their evaluation is then unnecessary. Names that only a type checker can resolve in the implementation's module are not checked.
    """
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType) or not is_plain(plain):
        return False
    code, given = plain.__code__, spec.__code__
    names = code.co_varnames[1 if inspect.ismethod(function) else 0 : code.co_argcount + code.co_kwonlyargcount]
    if not set(names) <= set(given.co_varnames[: given.co_argcount]):
        return False
    here, there = plain.__globals__, spec.__globals__
    for name, text in plain.__annotations__.items():
        if not isinstance(text, str) or spec.__annotations__.get(name) != text:
            return False
        words = text.translate(_PUNCTUATION).split()
        if any(word in here and here[word] is not there.get(word, _NOTHING) for word in words):
            return False
    return True


def _of_annotations(name: str, spec: Callable[..., Any], function: Callable[..., Any]) -> Iterator[PluginProblem]:
    try:
        want, have = get_type_hints(spec), get_type_hints(function)
    except Exception:  # names under TYPE_CHECKING cannot be resolved; the objects are checked anyway
        return
    for parameter in sorted((want.keys() & have.keys()) - {"return"}):
        if want[parameter] != have[parameter]:
            yield PluginProblem(
                f"its {name} annotates {parameter} as {kind_name(have[parameter])}, but the hook passes {kind_name(want[parameter])}",
                f"Annotate {parameter} as {kind_name(want[parameter])}.",
                "plugin-hook",
            )
    if "return" in have and not _compatible(have["return"], want["return"]):
        yield PluginProblem(
            f"its {name} is annotated to return {kind_name(have['return'])}, but the hook requires {kind_name(want['return'])}",
            f"Return {kind_name(want['return'])} (a list is fine) and annotate it accordingly.",
            "plugin-hook",
        )


def _compatible(have: Any, want: Any) -> bool:
    """Return whether an annotated return type may fit the hook; only certain mismatches are refused."""
    if have is Any or have == want:
        return True
    if have is type(None) or have in (str, bytes, int, float, bool):
        return False
    origin = typing.get_origin(have) or have
    if not _is_iterable(want):
        return isinstance(origin, type) and issubclass(origin, typing.get_origin(want))
    if getattr(origin, "__name__", "") not in _ITERABLES:
        # A plugin's own class may be iterable; a role never is.
        return isinstance(origin, type) and hasattr(origin, "__iter__") and not issubclass(origin, (str, Mapping))
    roles = {role for role in map(role_of, hooks()) if role is not None}
    others = roles - set(typing.get_args(want))
    items = [part for part in typing.get_args(have) if part is not Ellipsis]
    return not (items and items[0] in others)


def _is_iterable(returned: Any) -> bool:
    """Return whether a hook returns an iterable; otherwise it returns a class or a dict."""
    return typing.get_origin(returned) is Iterable
