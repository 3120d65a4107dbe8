"""Mistakes of plugin authors that break no run: misspelt members, methods that should be async, wrong annotations of hooks."""

from __future__ import annotations

import dis
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_type_hints

from codex_framework.contract import hookspecs
from codex_framework.loader.hook_checks import HOOKS, find_implementations
from codex_framework.loader.role_checks import described_member, kind_name, members
from codex_framework.toolkit.faults import source_place
from codex_framework.toolkit.roles import overrides

__all__ = ["annotation_mistakes", "member_mistakes"]

_NEAR = 0.8
"""Similarity from which a name is probably a misspelt one (``difflib``)."""

_LONGER = 3
"""How much longer or shorter a misspelt name may be."""

_ITERABLES = frozenset(
    "Iterable Iterator Generator Sequence Collection list tuple set frozenset List Tuple Set".split()  # noqa: SIM905
)


def member_mistakes(item: object, role: Any) -> list[str]:
    """Return the mistakes in the members of an object, as sentences: misspelt ones, and plain methods that should be async."""
    return [*_misspelt_members(type(item), role), *_plain_methods(item, role)]


def _misspelt_members(kind: type[Any], role: Any) -> Iterator[str]:
    own = {
        name: value
        for owner in reversed(kind.__mro__)
        if owner not in role.__mro__ and owner is not object
        for name, value in vars(owner).items()
        if not name.startswith("_")
    }
    known = {member.name: member.method for member in members(role)}
    left = {name: method for name, method in known.items() if name not in own}
    for name, value in own.items():
        if hasattr(role, name) or name in known:
            continue
        is_method = isinstance(value, types.FunctionType)
        near = _nearest(name, [other for other, method in left.items() if method == is_method])
        if near is not None:
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            place = source_place(function if isinstance(function, types.FunctionType) else kind)
            yield (
                f"its {name} has no effect: {role.__name__} has no member of this name{place}."
                f" Did you mean {near}? If not, begin its name with an underscore."
            )


def _nearest(name: str, others: list[str]) -> str | None:
    """Return the nearest of other names, if one is near."""
    import difflib

    plain = _letters(name)
    letters = {
        _letters(other): other
        for other in others
        if abs(len(other) - len(name)) <= _LONGER and len(set(plain) ^ set(_letters(other))) <= _LONGER
    }
    matches = difflib.get_close_matches(plain, letters, n=1, cutoff=_NEAR)
    return letters[matches[0]] if matches else None


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def _plain_methods(item: object, role: Any) -> Iterator[str]:
    """Yield methods that should be async and whose code shows that they do not return an awaitable."""
    for member in members(role):
        if member.is_async and overrides(item, role, member.name):
            value = getattr(item, member.name)
            function = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else None
            if not isinstance(function, types.FunctionType) or inspect.iscoroutinefunction(function):
                continue
            if _returns_none(function):
                write = described_member(member)
                yield f"its {member.name} is not async: write `{write}`{source_place(function)}."


def _returns_none(function: types.FunctionType) -> bool:
    """Return whether every ``return`` of a function returns None, and there is one."""
    code = list(dis.get_instructions(function))
    returned = [
        step.argval if step.opname == "RETURN_CONST" else before.argval if before.opname == "LOAD_CONST" else step
        for before, step in itertools.pairwise(code)
        if step.opname in ("RETURN_VALUE", "RETURN_CONST")
    ]
    return bool(returned) and all(value is None for value in returned)


def annotation_mistakes(plugin: object) -> Iterator[tuple[str, str]]:
    """Yield the annotations of a plugin's hook implementations that differ from the hook's: the fact with its place, and a hint."""
    for name, function in find_implementations(plugin).items():
        if name in HOOKS:
            for fact, hint in _annotation_mistakes(name, HOOKS[name], function):
                yield f"{fact}{source_place(function)}", hint


def _annotation_mistakes(
    name: str, spec: Callable[..., Any], function: Callable[..., Any]
) -> Iterator[tuple[str, str]]:
    try:
        want, have = get_type_hints(spec), get_type_hints(function)
    except Exception:  # names under TYPE_CHECKING cannot be resolved; the objects are checked anyway
        return
    for parameter in sorted((want.keys() & have.keys()) - {"return"}):
        if want[parameter] != have[parameter]:
            needed = kind_name(want[parameter])
            fact = f"its {name} annotates {parameter} as {kind_name(have[parameter])}, but the hook passes {needed}"
            yield fact, f"Annotate {parameter} as {needed}."
    if "return" in have and not _compatible(have["return"], want["return"]):
        needed = kind_name(want["return"])
        fact = f"its {name} is annotated to return {kind_name(have['return'])}, but the hook requires {needed}"
        yield fact, f"Return {needed} (a list is fine) and annotate it accordingly."


def _compatible(have: Any, want: Any) -> bool:
    """Return whether an annotated return type may fit the hook; only certain mismatches are refused."""
    if have is Any or have == want:
        return True
    if have is type(None) or have in (str, bytes, int, float, bool):
        return False
    origin = typing.get_origin(have) or have
    if typing.get_origin(want) is not Iterable:
        return isinstance(origin, type) and issubclass(origin, typing.get_origin(want))
    if getattr(origin, "__name__", "") not in _ITERABLES:
        # A plugin's own class may be iterable; a role never is.
        return isinstance(origin, type) and hasattr(origin, "__iter__") and not issubclass(origin, (str, Mapping))
    others = {hook.role for hook in hookspecs.OFFERING if hook.role is not None} - set(typing.get_args(want))
    items = [part for part in typing.get_args(have) if part is not Ellipsis]
    return not (items and items[0] in others)
