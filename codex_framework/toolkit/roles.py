"""Roles are base classes, but an object that has the members without deriving from them works as well; this module adds defaults."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, TypeVar, cast

__all__ = ["add_defaults", "overrides"]

T = TypeVar("T")


def overrides(item: object, role: type[Any], member: str) -> bool:
    """Return whether an object has its own member instead of its role's default."""
    if type(item) is _Completed:
        return overrides(item._item, role, member)  # noqa: SLF001  # of the class below
    if member in getattr(item, "__dict__", ()):
        return True
    for owner in type(item).__mro__:
        if member in owner.__dict__:
            return owner not in role.__mro__
    return hasattr(item, member)  # by __getattr__


def add_defaults(item: T, role: Any) -> T:
    """Return an object that has every member of its role: ``item`` itself, or ``item`` with defaults for missing members.

    Call it once, when the object is registered. For a class that derives from the role there is no further cost.
    """
    if role in type(item).__mro__ or all(hasattr(item, name) for name in _defaults(role)):
        return item
    return cast("T", _Completed(item, role))


@cache
def _defaults(role: Any) -> tuple[str, ...]:
    """Return the members for which a role has a default."""
    names = (name for name in dir(role) if not name.startswith("_"))
    return tuple(name for name in names if not getattr(getattr(role, name), "__isabstractmethod__", False))


class _Completed:
    """An object with the defaults of a role. It has all other attributes of the object."""

    __slots__ = ("_item", "_role")

    def __init__(self, item: object, role: type[Any]) -> None:
        object.__setattr__(self, "_item", item)
        object.__setattr__(self, "_role", role)

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]  # for isinstance()
        return type(self._item)

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._item, name)
        except AttributeError:
            if name.startswith("_") or not hasattr(self._role, name) or hasattr(self._item, name):
                raise
        default = getattr(self._role, name)
        if isinstance(default, property) and default.fget is not None:
            return default.fget(self)
        return types.MethodType(default, self) if isinstance(default, types.FunctionType) else default

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._item, name, value)

    def __eq__(self, other: object) -> bool:
        return bool(self._item == (other._item if isinstance(other, _Completed) else other))

    def __hash__(self) -> int:
        return hash(self._item)

    def __repr__(self) -> str:
        return repr(self._item)
