"""Checks that a plugin keeps the contract: its hooks when it is loaded, its objects when they are offered.

Neither pluggy nor a type checker sees a hook whose name is misspelt, an object that lacks a method of its role, or an ``async``
method where a plain one is called; each of them would be silence at run time.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

from codex_framework.contract import hookspecs
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.plugins import Plugin, PluginContext
from codex_framework.contract.value import Value
from codex_framework.plugins.loading import place_of
from codex_framework.plugins.report import PluginProblem
from codex_framework.toolkit.roles import overrides

__all__ = ["hook_problems", "hooks", "implementation", "marked", "role_of", "role_problems"]

_MARK = f"{hookspecs.GROUP}_impl"
_PREFIX = "codex_"
_HARMLESS = frozenset({"__isabstractmethod__", _MARK})
"""Attributes of functions that say nothing of their parameters."""

_PUNCTUATION = str.maketrans("[],.|", "     ")
_NO_ROUTINES = (type, types.ModuleType, str)
"""What most names of modules stand for; ``inspect.isroutine`` takes long to say no."""
_ITERABLES = frozenset(
    "Iterable Iterator Generator Sequence Collection list tuple set frozenset List Tuple Set".split()  # noqa: SIM905
)


@cache
def hooks() -> Mapping[str, Callable[..., Any]]:
    """Every hook by name, in the order of the reference."""
    return {hook.__name__: hook for hook in hookspecs.HOOKS}


@cache
def role_of(hook: str) -> Any:
    """The protocol that what a hook offers must satisfy; None if it offers no objects, or a foreign class (``codex_commands``)."""
    if hooks()[hook] in hookspecs.DECLARATIONS:
        return None
    try:
        (role,) = typing.get_args(get_type_hints(hooks()[hook])["return"])
    except NameError:
        return None
    return typing.get_origin(role) or role


def hook_problems(plugin: object, declared: Collection[str] = ()) -> list[PluginProblem]:
    """What is wrong with a plugin's hook implementations: names, parameters, annotated types.

    Args:
        declared: The names of hooks that plugins declare.
    """
    return [
        problem.evolve(path=path, line=line)
        for name, function, mark in _candidates(plugin, declared)
        for problem in _of_hook(name, function, mark, declared)
        for path, line in (place_of(function),)
    ]


def marked(plugin: object) -> dict[str, Callable[..., Any]]:
    """Return a plugin's hook implementations by hook."""
    return {name: function for name, function, mark in _candidates(plugin) if mark is not None}


def implementation(plugin: object, hook: str) -> Callable[..., Any] | None:
    """Return a plugin's implementation of a hook; None if there is none, or if something is wrong with it."""
    for name, function, mark in _candidates(plugin):
        if name == hook and mark is not None and not [*_of_hook(name, function, mark, ())]:
            return function
    return None


def role_problems(item: object, role: Any) -> list[str]:
    """Why an object does not play a role: members that are missing, or cannot be called as they will be.

    A role is a protocol, whose members are all required; a base class, whose members without a default are; or a class of values,
    which cannot be played by anything else.
    """
    if inspect.isclass(item):
        return [f"it is the class {item.__name__} itself: offer an instance, {item.__name__}()"]
    if issubclass(role, Value):
        return [] if isinstance(item, role) else [f"it is {type(item).__name__}, not {role.__name__}"]
    own = getattr(item, "__dict__", {})
    methods = _method_problems(type(item), role)
    return [
        fact
        for member in _members(role)
        for fact in (
            methods[member.name]
            if member.name in methods and member.name not in own
            else _of_member(item, role, member)
        )
    ]


_KNOWN: WeakKeyDictionary[type[Any], dict[Any, Mapping[str, Sequence[str]]]] = WeakKeyDictionary()
"""Class to role to what is wrong with each method. Threads make tools of one class again and again."""


def _method_problems(kind: type[Any], role: Any) -> Mapping[str, Sequence[str]]:
    """What is wrong with the members that all instances of a class share: its methods, and the role's defaults."""
    known = _KNOWN.setdefault(kind, {})
    if role not in known:
        known[role] = dict(_of_class(kind, role))
    return known[role]


def _of_class(kind: type[Any], role: Any) -> Iterator[tuple[str, Sequence[str]]]:
    for member in _members(role):
        value = _static(kind, member.name)
        if member.default and value is _static(role, member.name):
            yield member.name, ()
        elif member.method and isinstance(value, types.FunctionType) and value is not _static(role, member.name):
            called = () if _is_plainly(value, member) else _of_method(types.MethodType(value, object()), role, member)
            yield member.name, tuple(called)


def _static(kind: type[Any], name: str) -> object:
    """What ``inspect.getattr_static`` returns, which takes many times as long."""
    for owner in kind.__mro__:
        if name in owner.__dict__:
            return owner.__dict__[name]
    return inspect.getattr_static(kind, name, _NOTHING)


def _is_plainly(function: types.FunctionType, member: _Member) -> bool:
    """Whether a function has just the parameters that its role's method has, without a look at its signature."""
    if not _speaks_for_itself(function):
        return False
    code = function.__code__
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return (
        code.co_argcount == 1 + len(member.positional)
        and set(keywords) == set(member.keywords)
        and bool(code.co_flags & inspect.CO_COROUTINE) == member.is_async
    )


def _speaks_for_itself(function: types.FunctionType) -> bool:
    """Whether a function's code tells its signature: nothing is wrapped or marked."""
    said = function.__dict__
    return not function.__code__.co_posonlyargcount and (not said or said.keys() <= _HARMLESS)


def _candidates(
    plugin: object, declared: Collection[str] = ()
) -> Iterator[tuple[str, Callable[..., Any], Mapping[str, Any] | None]]:
    """Functions that are hook implementations, or look as if they were meant to be."""
    for name in dir(plugin):
        try:
            value = getattr(plugin, name)
        except Exception:  # noqa: S112  # a property of the plugin's own that raises is none of our business
            continue
        if not isinstance(value, types.FunctionType) and (
            isinstance(value, _NO_ROUTINES) or not inspect.isroutine(value)
        ):
            continue
        mark = getattr(value, _MARK, None)
        if isinstance(mark, Mapping):
            yield str(mark.get("specname") or name), value, mark
        elif (name.startswith(_PREFIX) or name in declared) and _of_its_own(value, plugin):
            yield name, value, None


def _of_its_own(function: Callable[..., Any], plugin: object) -> bool:
    """Whether a plugin defines a function itself, so that a hook's name without a mark is a slip."""
    if isinstance(plugin, Plugin):
        return inspect.ismethod(function) or inspect.isfunction(function)
    return getattr(function, "__module__", "") == getattr(plugin, "__name__", None)


def _declared_hook(plugin: PluginContext) -> Any:
    """What a hook of a plugin looks like."""


def _of_hook(
    name: str, function: Callable[..., Any], mark: Mapping[str, Any] | None, declared: Collection[str]
) -> Iterator[PluginProblem]:
    spec = _declared_hook if name in declared else hooks().get(name)
    if spec is None:
        # A function of the plugin's own may be called codex_something; only what looks like a slip of the pen is one.
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
            f"its {name} is a hook wrapper, and hooks that only offer objects cannot be wrapped",
            f"Write a plain `{_definition(name, function)}` that returns what the plugin offers.",
            "plugin-hook",
        )
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield PluginProblem(
            f"its {name} is async, and hooks are called before there is an event loop",
            f"Write `{_definition(name, function)}`; the objects it offers may have async methods.",
            "plugin-hook",
        )
    else:
        yield from _of_signature(name, spec, function)


def _definition(name: str, function: Callable[..., Any], *parameters: str) -> str:
    """How a plugin should define a hook implementation."""
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
            f"its entry point names a class that is no Plugin, so {name} has no self to be called with",
            "Derive the class from codex_framework.Plugin, or let the entry point name an instance of it.",
            "plugin-hook",
        )
    elif extra:
        ways = f"`{_definition(name, function)}` or `{_definition(name, function, *given)}`"
        yield PluginProblem(
            f"its {name} takes {', '.join(extra)}, and a hook is given nothing but {', '.join(given)}",
            f"Write {ways}.",
            "plugin-hook",
        )
    yield from _of_annotations(name, spec, function)


def _says_the_same(spec: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Whether an implementation repeats the words of its hook, and they mean the same in both modules.

    Annotations are then not evaluated. A word that only a type checker knows in the implementation's module is not checked anyway.
    """
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType) or not _speaks_for_itself(plain):
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
                f"its {name} takes {parameter} as {_named(have[parameter])}, and the hook gives {_named(want[parameter])}",
                f"Annotate {parameter} as {_named(want[parameter])}.",
                "plugin-hook",
            )
    if "return" in have and not _compatible(have["return"], want["return"]):
        yield PluginProblem(
            f"its {name} says it returns {_named(have['return'])}, and the hook wants {_named(want['return'])}",
            f"Return {_named(want['return'])} (a list will do) and annotate it so.",
            "plugin-hook",
        )


def _compatible(have: Any, want: Any) -> bool:
    """Whether an annotated return type can be what the hook wants; only what is surely wrong is refused."""
    if have is Any or have == want:
        return True
    if have is type(None) or have in (str, bytes, int, float, bool):
        return False
    origin = typing.get_origin(have) or have
    if not _is_iterable(want):
        return isinstance(origin, type) and issubclass(origin, typing.get_origin(want))
    if getattr(origin, "__name__", "") not in _ITERABLES:
        # A class of the plugin's own may be iterable; a role never is.
        return isinstance(origin, type) and hasattr(origin, "__iter__") and not issubclass(origin, (str, Mapping))
    roles = {role for role in map(role_of, hooks()) if role is not None}
    others = roles - set(typing.get_args(want))
    items = [part for part in typing.get_args(have) if part is not Ellipsis]
    return not (items and items[0] in others)


def _is_iterable(returned: Any) -> bool:
    """Whether a hook returns any iterable; else it returns one class or one table."""
    return typing.get_origin(returned) is Iterable


class _Member(NamedTuple):
    """A member of a role: an attribute, or a method with the parameters it is called with."""

    name: str
    method: bool
    default: bool = False
    is_async: bool = False
    positional: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


@cache
def _members(role: Any) -> tuple[_Member, ...]:
    found: dict[str, _Member] = {}
    for owner in reversed(role.__mro__):
        if owner in (object, typing.Generic, typing.Protocol):
            continue
        required = bool(getattr(owner, "_is_protocol", False))
        for name in (*inspect.get_annotations(owner), *vars(owner)):
            if not name.startswith("_"):
                found[name] = _member(name, vars(owner).get(name, _NOTHING), required=required)
    return tuple(found.values())


_NOTHING = object()


def _member(name: str, value: Any, *, required: bool) -> _Member:
    default = not required and value is not _NOTHING and not getattr(value, "__isabstractmethod__", False)
    if not isinstance(value, types.FunctionType):
        return _Member(name, method=False, default=default)
    if _speaks_for_itself(value) and value.__code__.co_argcount:
        code = value.__code__
        end = code.co_argcount + code.co_kwonlyargcount
        return _Member(
            name,
            method=True,
            default=default,
            is_async=bool(code.co_flags & inspect.CO_COROUTINE),
            positional=code.co_varnames[1 : code.co_argcount],
            keywords=code.co_varnames[code.co_argcount : end],
        )
    parameters = list(inspect.signature(value).parameters.values())[1:]
    return _Member(
        name,
        method=True,
        default=default,
        is_async=inspect.iscoroutinefunction(value),
        positional=tuple(one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD),
        keywords=tuple(one.name for one in parameters if one.kind is one.KEYWORD_ONLY),
    )


def _of_member(item: object, role: type[Any], member: _Member) -> Iterable[str]:
    inherits = role in type(item).__mro__ and hasattr(role, member.name)
    if not member.default and inherits and not overrides(item, role, member.name):
        derived = f"its {member.name} is that of {role.__name__}, which does nothing: write `{_described(member)}`"
        return [derived if member.method else f"it has no {_described(member)}"]
    try:
        value = getattr(item, member.name)
    except AttributeError:
        return [] if member.default else [f"it has no {_described(member)}"]
    except Exception as error:  # a plugin's property may raise anything
        return [f"its {member.name} raises {type(error).__name__}: {error}"]
    if not member.method:
        return [f"its {member.name} is a method: make it a property"] if inspect.ismethod(value) else []
    if not callable(value):
        return [f"its {member.name} is {type(value).__name__}, not a method: it has no {_described(member)}"]
    return _of_method(value, role, member)


_WITHOUT_TURN = ("request", "before_tool", "after_tool")
"""The methods of interceptors that may leave out their last parameter, which they did not have up to version 0.1."""


def _of_method(value: Callable[..., Any], role: type[Any], member: _Member) -> Iterable[str]:
    if inspect.iscoroutinefunction(value) and not member.is_async:
        return [f"its {member.name} is async, and it is called without await: write `{_described(member)}`"]
    if member.is_async and _surely_plain(value):
        return [f"its {member.name} is not async: write `{_described(member)}`"]
    if role is Interceptor and member.name in _WITHOUT_TURN and _fits(value, member.positional[:-1]):
        return []
    try:
        inspect.signature(value).bind(*member.positional, **dict.fromkeys(member.keywords))
    except TypeError as error:
        return [f"its {member.name} cannot be called as `{_described(member)}`: {error}"]
    except ValueError:
        return []  # no signature to look at (a builtin): it will show
    return []


def _fits(value: Callable[..., Any], arguments: tuple[str, ...]) -> bool:
    try:
        inspect.signature(value).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True


def _surely_plain(value: Callable[..., Any]) -> bool:
    """Whether a plain function says itself that it returns something that cannot be awaited."""
    function = inspect.unwrap(getattr(value, "__func__", value))
    if not isinstance(function, types.FunctionType) or inspect.iscoroutinefunction(function):
        return False
    said = function.__annotations__.get("return")
    if said is None:
        return "return" in function.__annotations__
    return not any(word in _named(said) for word in ("Awaitable", "Coroutine", "Future", "Task", "Any", "object"))


def _described(member: _Member) -> str:
    if not member.method:
        return f"attribute {member.name}"
    stars = ("*",) if member.keywords else ()
    keyword = "async def" if member.is_async else "def"
    return f"{keyword} {member.name}({', '.join(('self', *member.positional, *stars, *member.keywords))})"


def _named(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    if typing.get_origin(kind) is None and isinstance(kind, type):
        return kind.__name__
    return (
        str(kind).replace("typing.", "").replace("collections.abc.", "").replace("codex_framework.contract.roles.", "")
    )
