"""The base of all values: frozen attrs classes that cost next to nothing until they are used.

attrs compiles code for each class it defines: about 0.3 ms each, and 150 of them were a third of the time to the first request,
most for classes that a run never makes an instance of. So a subclass is handed to attrs when it is first needed, and equality,
hash and repr are written once, here, over the fields. In all else subclasses are ordinary attrs classes: ``attrs.fields``
and cattrs work on them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import attrs

__all__ = ["Value"]


class _Fields:
    """``__attrs_attrs__`` of a class that attrs has not seen yet: asking for it is what makes attrs see it."""

    def __get__(self, instance: object, owner: type[Value]) -> Any:
        if owner is Value:
            return ()
        _define(owner)
        return owner.__dict__["__attrs_attrs__"]


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
class Value:
    """A frozen value. Annotated names are its fields; ``class X(Value, kw_only=True)`` takes them by name only.

    Equal are values of one class whose fields are equal (those with ``eq=False`` left out). Instances have no slots: a frozen
    class with a dict is defined faster, and its instances are made faster as well.
    """

    if TYPE_CHECKING:
        __attrs_attrs__: ClassVar[Any]
    else:
        __attrs_attrs__ = _Fields()

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            _define(type(self))
            type(self).__init__(self, *args, **kwargs)

    _kw_only: ClassVar[bool] = False

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        cls._kw_only = kw_only

    def evolve(self, **changes: Any) -> Self:
        """A copy with some fields changed (what ``attrs.evolve`` does)."""
        return attrs.evolve(self, **changes)  # type: ignore[misc]  # mypy knows attrs classes by their decorator only

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            getattr(self, field.name) == getattr(other, field.name) for field in self.__attrs_attrs__ if field.eq
        )

    def __hash__(self) -> int:
        fields = (getattr(self, field.name) for field in self.__attrs_attrs__ if field.eq)
        return hash((type(self), *fields))

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{field.alias}={getattr(self, field.name)!r}" for field in self.__attrs_attrs__ if field.repr
        )
        return f"{type(self).__qualname__}({fields})"


_DEFINING = threading.RLock()


def _define(cls: type[Value]) -> None:
    """Let attrs add the initialiser and the fields to the class itself; once, whichever thread needs it first."""
    with _DEFINING:
        if "__attrs_attrs__" not in cls.__dict__:
            attrs.frozen(cls, slots=False, eq=False, repr=False, kw_only=cls._kw_only)
