"""Checks that an object fulfils its role: that no member is missing, and that each can be called as required.

A type checker may not see a plugin's objects. At run time, a missing method, or an ``async`` one that is called without
``await``, would go unnoticed.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

from codex_framework.contract.errors import described
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.tools import Tool
from codex_framework.contract.value import Value
from codex_framework.toolkit.roles import overrides

__all__ = ["described_member", "kind_name", "members", "role_problems"]

_NOTHING = object()


def role_problems(item: object, role: Any) -> list[str]:
    """Return why an object does not fulfil a role: members that are missing, or that cannot be called as required.

    A role is a protocol, all of whose members are required; a base class, whose members without a default are required; or a
    class of values, of which the object must be an instance.
    """
    if inspect.isclass(item):
        return [f"it is the class {item.__name__} itself: offer an instance, {item.__name__}()"]
    if role is Tool and inspect.isroutine(item):
        name = getattr(item, "__name__", "")
        write = f"offer `tool(self.{name})`" if inspect.ismethod(item) else f"put `@tool` above `def {name}`"
        return [f"it is the function {name}, not a tool: {write}, with tool from codex_framework"]
    if issubclass(role, Value):
        return [] if isinstance(item, role) else [f"it is {type(item).__name__}, not {role.__name__}"]
    return [fact for member in members(role) for fact in _member_problems(item, role, member)]


class _Member(Value):
    """A member of a role: an attribute, or a method with the parameters of its calls."""

    name: str
    method: bool
    default: bool = False
    is_async: bool = False
    positional: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


@cache
def members(role: Any) -> tuple[_Member, ...]:
    """Return the public members of a role."""
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
    parameters = list(inspect.signature(value).parameters.values())[1:]
    return _Member(
        name,
        method=True,
        default=default,
        is_async=inspect.iscoroutinefunction(value),
        positional=tuple(
            parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ),
        keywords=tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY),
    )


def _member_problems(item: object, role: Any, member: _Member) -> Iterable[str]:
    if not overrides(item, role, member.name):
        if member.default:
            return []
        if role in type(item).__mro__ and member.method:
            write = described_member(member)
            return [f"its {member.name} is inherited from {role.__name__} and does nothing: write `{write}`"]
        return [f"it has no {described_member(member)}"]
    try:
        value = getattr(item, member.name)
    except AttributeError:
        return [] if member.default else [f"it has no {described_member(member)}"]
    except Exception as error:  # a plugin's property may raise anything
        return [f"its {member.name} raises {described(error)}"]
    if not member.method:
        return [f"its {member.name} is a method: make it a property"] if inspect.ismethod(value) else []
    if not callable(value):
        return [f"its {member.name} is {type(value).__name__}, not a method: it has no {described_member(member)}"]
    function = getattr(value, "__func__", None)
    return _call_problems(value, role, member) if function is None else _method_problems(function, role, member)


@lru_cache(maxsize=2048)
def _method_problems(function: Callable[..., Any], role: Any, member: _Member) -> Sequence[str]:
    """Return the problems of a method of a class. They are kept, because threads create tools of the same class repeatedly."""
    return _call_problems(types.MethodType(function, object()), role, member)


_WITHOUT_TURN = ("request", "before_tool", "after_tool")
"""The methods of interceptors that may omit their last parameter, which did not exist up to version 0.1."""


def _call_problems(value: Callable[..., Any], role: type[Any], member: _Member) -> Sequence[str]:
    if inspect.iscoroutinefunction(value) and not member.is_async:
        return [f"its {member.name} is async, but it is called without await: write `{described_member(member)}`"]
    if member.is_async and _surely_plain(value):
        return [f"its {member.name} is not async: write `{described_member(member)}`"]
    if role is Interceptor and member.name in _WITHOUT_TURN and _fits(value, member.positional[:-1]):
        return []
    try:
        inspect.signature(value).bind(*member.positional, **dict.fromkeys(member.keywords))
    except TypeError as error:
        return [f"its {member.name} cannot be called as `{described_member(member)}`: {error}"]
    except ValueError:
        return []  # no signature to check (a builtin): it will show
    return []


def _fits(value: Callable[..., Any], arguments: tuple[str, ...]) -> bool:
    try:
        inspect.signature(value).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True


def _surely_plain(value: Callable[..., Any]) -> bool:
    """Return whether the annotation of a plain function shows that its result cannot be awaited."""
    function = inspect.unwrap(getattr(value, "__func__", value))
    if not isinstance(function, types.FunctionType) or inspect.iscoroutinefunction(function):
        return False
    returned = function.__annotations__.get("return", "Any")
    return not any(
        word in kind_name(returned) for word in ("Awaitable", "Coroutine", "Future", "Task", "Any", "object")
    )


def described_member(member: _Member) -> str:
    """Return a member in the syntax of a class."""
    if not member.method:
        return f"attribute {member.name}"
    stars = ("*",) if member.keywords else ()
    keyword = "async def" if member.is_async else "def"
    return f"{keyword} {member.name}({', '.join(('self', *member.positional, *stars, *member.keywords))})"


def kind_name(kind: Any) -> str:
    """Return an annotation in the syntax of code."""
    if isinstance(kind, str):
        return kind
    if typing.get_origin(kind) is None and isinstance(kind, type):
        return kind.__name__
    return (
        str(kind).replace("typing.", "").replace("collections.abc.", "").replace("codex_framework.contract.roles.", "")
    )
