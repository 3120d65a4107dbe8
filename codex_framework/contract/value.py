"""The base of all values: frozen attrs classes that cost next to nothing until they are used.

attrs compiles code for each class it defines: about 0.3 ms each, and 150 of them were a third of the time to the first request,
most for classes that a run never makes an instance of. So a subclass is handed to attrs when it is first needed, and equality,
hash and repr are written once, here, over the fields. In all else subclasses are ordinary attrs classes: they may be generic and
derive from one another, and ``attrs.fields``, cattrs, ``inspect.signature`` and ``help()`` work on them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import attrs

if TYPE_CHECKING:
    import inspect

__all__ = ["Value"]


class _Fields:
    """``__attrs_attrs__`` of a class that attrs has not seen yet: reading it makes attrs define the class."""

    def __get__(self, instance: object, owner: type[Value]) -> Any:
        if owner is Value:
            return ()
        _define(owner)
        return owner.__dict__["__attrs_attrs__"]


class _Signature:
    """``__signature__`` of a class: that of the initialiser which attrs writes."""

    def __get__(self, instance: object, owner: type[Value]) -> inspect.Signature:
        if instance is not None or owner is Value:
            raise AttributeError("__signature__")
        import inspect

        _define(owner)
        whole = inspect.signature(owner.__init__)
        return whole.replace(parameters=list(whole.parameters.values())[1:], return_annotation=inspect.Signature.empty)


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
class Value:
    """A frozen value. Annotated names are its fields; ``class X(Value, kw_only=True)`` takes them by name only.

    Two values are equal if they are of the same class and their fields are equal (fields with ``eq=False`` do not count).
    Instances have no slots: a frozen class with a dict is defined faster, and its instances are made faster as well.
    """

    if TYPE_CHECKING:
        __attrs_attrs__: ClassVar[Any]
    else:
        __attrs_attrs__ = _Fields()
        __signature__ = _Signature()

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            _define(type(self))
            type(self).__init__(self, *args, **kwargs)

    _kw_only: ClassVar[bool] = False

    def __init_subclass__(cls, *, kw_only: bool = False, **others: Any) -> None:
        super().__init_subclass__(**others)
        cls._kw_only = kw_only
        # A class that derives from one in use must not inherit what attrs wrote for that one.
        type.__setattr__(cls, "__attrs_attrs__", _LAZY_FIELDS)
        if "__init__" not in cls.__dict__:
            type.__setattr__(cls, "__init__", _LAZY_INIT)

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed (what ``attrs.evolve`` does)."""
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


_LAZY_FIELDS = Value.__dict__["__attrs_attrs__"] if not TYPE_CHECKING else None
_LAZY_INIT = Value.__dict__["__init__"] if not TYPE_CHECKING else None
_DEFINING = threading.RLock()


def _define(cls: type[Value]) -> None:
    """Let attrs add the initialiser and the fields to the class itself; once, whichever thread needs it first."""
    with _DEFINING:
        if cls.__dict__.get("__attrs_attrs__") is not _LAZY_FIELDS:
            return
        # The class keeps all it has until attrs is done: another thread may be using it. Without `init`, attrs keeps the
        # initialiser that it finds in a class.
        replaced = {"init": True} if cls.__dict__.get("__init__") is _LAZY_INIT else {}
        attrs.frozen(cls, slots=False, eq=False, repr=False, kw_only=cls._kw_only, **replaced)  # type: ignore[call-overload]
