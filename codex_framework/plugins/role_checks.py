"""Checks that an object plays its role: members that are missing, or that cannot be called as they will be.

No type checker sees an object that lacks a method of its role, or an ``async`` method where a plain one is called; each of them would
be silence at run time.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from codex_framework.contract import hookspecs
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.value import Value
from codex_framework.toolkit.roles import overrides

__all__ = ["is_plain", "kind_name", "role_problems"]

_HARMLESS = frozenset({"__isabstractmethod__", f"{hookspecs.GROUP}_impl"})
"""Attributes of functions that say nothing of their parameters."""

_NOTHING = object()


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
    if not is_plain(function):
        return False
    code = function.__code__
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return (
        code.co_argcount == 1 + len(member.positional)
        and set(keywords) == set(member.keywords)
        and bool(code.co_flags & inspect.CO_COROUTINE) == member.is_async
    )


def is_plain(function: types.FunctionType) -> bool:
    """Whether a function's code tells its signature: nothing is wrapped or marked."""
    said = function.__dict__
    return not function.__code__.co_posonlyargcount and (not said or said.keys() <= _HARMLESS)


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


def _member(name: str, value: Any, *, required: bool) -> _Member:
    default = not required and value is not _NOTHING and not getattr(value, "__isabstractmethod__", False)
    if not isinstance(value, types.FunctionType):
        return _Member(name, method=False, default=default)
    if is_plain(value) and value.__code__.co_argcount:
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
    return not any(word in kind_name(said) for word in ("Awaitable", "Coroutine", "Future", "Task", "Any", "object"))


def _described(member: _Member) -> str:
    if not member.method:
        return f"attribute {member.name}"
    stars = ("*",) if member.keywords else ()
    keyword = "async def" if member.is_async else "def"
    return f"{keyword} {member.name}({', '.join(('self', *member.positional, *stars, *member.keywords))})"


def kind_name(kind: Any) -> str:
    """Return an annotation as people write it."""
    if isinstance(kind, str):
        return kind
    if typing.get_origin(kind) is None and isinstance(kind, type):
        return kind.__name__
    return (
        str(kind).replace("typing.", "").replace("collections.abc.", "").replace("codex_framework.contract.roles.", "")
    )
