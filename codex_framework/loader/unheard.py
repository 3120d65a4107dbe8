"""Members of a plugin's object that nobody calls, although its author probably expects it: misspelt and forgotten names."""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import cache
from typing import Any

from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.value import Value
from codex_framework.loader.role_checks import members
from codex_framework.toolkit.faults import source_of
from codex_framework.toolkit.roles import overrides

__all__ = ["Unheard", "unheard"]

_NEAR = 0.8
"""Similarity from which a name is probably a misspelt one (``difflib``)."""

_LONGER = 3
"""How much longer or shorter a misspelt name may be."""


class Unheard(Value):
    """A member that has no effect.

    Attributes:
        fact: What has no effect, without the object's name.
        hint: What to do, as sentences.
        path: The file. Empty if it is unknown.
    """

    fact: str
    hint: str
    path: str
    line: int | None


def unheard(item: object, role: Any) -> tuple[Unheard, ...]:
    """Return the members of an object that have no effect, although they look like members of its role."""
    kind = type(item)
    misspelt = _misspelt(kind, role)  # type: ignore[arg-type]  # classes are hashable
    return (*misspelt, *_redaction(item)) if role is Interceptor else misspelt


@cache
def _misspelt(kind: type[Any], role: Any) -> tuple[Unheard, ...]:
    own = {
        name: value
        for owner in reversed(kind.__mro__)
        if owner not in role.__mro__ and owner is not object
        for name, value in vars(owner).items()
        if not name.startswith("_")
    }
    known = {member.name: member.method for member in members(role)}
    left = {name: method for name, method in known.items() if name not in own}
    found = []
    for name, value in own.items():
        if hasattr(role, name) or name in known:
            continue
        is_method = isinstance(value, types.FunctionType)
        near = _nearest(name, [other for other, method in left.items() if method == is_method])
        if near is not None:
            hint = f"Did you mean {near}? If not, begin its name with an underscore."
            fact = f"its {name} has no effect: {role.__name__} has no member of this name"
            found.append(Unheard(fact, hint, *_place(value, kind)))
    return tuple(found)


def _place(value: object, kind: type[Any]) -> tuple[str, int | None]:
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    return source_of(function if isinstance(function, types.FunctionType) else kind)


def _nearest(name: str, others: list[str]) -> str | None:
    """Return the nearest of other names, if one is near."""
    plain = _letters(name)
    near = [
        other
        for other in others
        if abs(len(other) - len(name)) <= _LONGER and len(set(plain) ^ set(_letters(other))) <= _LONGER
    ]
    if not near:
        return None  # without importing difflib
    import difflib

    letters = {_letters(other): other for other in near}
    matches = difflib.get_close_matches(plain, letters, n=1, cutoff=_NEAR)
    return letters[matches[0]] if matches else None


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def _redaction(item: Any) -> Iterator[Unheard]:
    decided = overrides(item, Interceptor, "redacts")
    redacts = overrides(item, Interceptor, "redact")
    if redacts and not decided:
        fact = "its redact is not called, because its `redacts` is False"
        yield Unheard(fact, "Set the class attribute `redacts = True`.", *source_of(item.redact))
    elif getattr(item, "redacts", False) and not redacts:
        fact = "its `redacts` is True, but it has no redact of its own, so nothing is redacted"
        yield Unheard(fact, "Write `def redact(self, text, turn)`.", *source_of(type(item)))
