"""The base of all values: frozen attrs classes that cost almost nothing until their first use.

To attrs they are ordinary attrs classes: ``attrs.fields``, ``attrs.evolve``, cattrs, ``inspect.signature`` and ``help()`` work
on them. But attrs compiles code for each class that it defines: about 0.3 ms each, and 150 of them were a third of the time to
the first request, most of it for classes with few or no instances in a run. Importing attrs takes 10 ms more. So attrs defines
a subclass only when code needs something that only attrs provides. The first ``_FEW`` instances are filled by a loop over the
fields; then an initialiser is generated. Equality, hash and repr are written once, here, over the fields. Subclasses may be
generic and derive from one another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

from codex_framework.contract.fields import MISSING, Field, field, fill, initialiser, own_fields

if TYPE_CHECKING:
    import inspect

    from attrs import field as attrs_field
else:
    attrs_field = field

__all__ = ["Value", "field", "fields_of"]

_FEW = 32
"""Number of instances after which an initialiser is generated. Generating it pays off after 34 to 44 instances of a class with
five fields.
"""


class _Fields:
    """A descriptor for ``__attrs_attrs__`` of a class that attrs has not defined yet: reading it defines the class."""

    def __get__(self, instance: object, owner: type[Value]) -> Any:
        if owner is Value:
            return ()
        _define(owner)
        return owner.__dict__["__attrs_attrs__"]


class _Signature:
    """A descriptor for ``__signature__`` of a class: the signature of the initialiser that attrs generates."""

    def __get__(self, instance: object, owner: type[Value]) -> inspect.Signature:
        if instance is not None or owner is Value:
            raise AttributeError("__signature__")
        import inspect

        _define(owner)
        whole = inspect.signature(owner.__init__)
        return whole.replace(parameters=list(whole.parameters.values())[1:], return_annotation=inspect.Signature.empty)


class _MatchArgs:
    """``__match_args__`` of a class: the fields that can be given by position."""

    def __get__(self, instance: object, owner: type[Value]) -> tuple[str, ...]:
        names = tuple(each.name for each in fields_of(owner) if each.init and not each.kw_only)
        if owner is not Value:
            type.__setattr__(owner, "__match_args__", names)
        return names


@dataclass_transform(frozen_default=True, field_specifiers=(field, attrs_field))
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
        __match_args__ = _MatchArgs()

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            cls = type(self)
            fields = _known_fields(cls)
            if fields is None:
                _define(cls)
            elif cls._instances[0] < _FEW and fill(self, fields, args, kwargs):
                cls._instances[0] += 1
                if hasattr(cls, "__attrs_post_init__"):
                    self.__attrs_post_init__()
                return
            else:
                self.__dict__.clear()
                _write(cls, fields)
            cls.__init__(self, *args, **kwargs)

    _kw_only: ClassVar[bool] = False
    _instances: ClassVar[
        list[int]
    ]  # a list, because to set an attribute of a class makes Python forget what it knows of it
    _own_fields: ClassVar[tuple[Field, ...] | None] = ()
    _all_fields: ClassVar[tuple[Field, ...] | None] = ()

    def __init_subclass__(cls, *, kw_only: bool = False, **others: Any) -> None:
        super().__init_subclass__(**others)
        cls._kw_only = kw_only
        # A class that derives from one in use must not inherit what attrs wrote for that one.
        type.__setattr__(cls, "__attrs_attrs__", _LAZY_FIELDS)
        for name, lazy in _LAZY.items():
            if name not in cls.__dict__:
                type.__setattr__(cls, name, lazy)

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed (what ``attrs.evolve`` does)."""
        values = {each.alias: getattr(self, each.name) for each in fields_of(type(self)) if each.init}
        return type(self)(**(values | changes))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields_of(type(self)) if each.eq)

    def __hash__(self) -> int:
        fields = (getattr(self, each.name) for each in fields_of(type(self)) if each.eq)
        return hash((type(self), *fields))

    def __repr__(self) -> str:
        fields = ", ".join(f"{each.alias}={getattr(self, each.name)!r}" for each in fields_of(type(self)) if each.repr)
        return f"{type(self).__qualname__}({fields})"

    if not TYPE_CHECKING:  # a type checker refuses an assignment by itself

        def __setattr__(self, name: str, value: Any) -> None:
            from attrs.exceptions import FrozenInstanceError

            raise FrozenInstanceError

        def __delattr__(self, name: str) -> None:
            from attrs.exceptions import FrozenInstanceError

            raise FrozenInstanceError

        __replace__ = evolve


_LAZY_FIELDS = Value.__dict__["__attrs_attrs__"] if not TYPE_CHECKING else None
_LAZY: dict[str, Any] = (
    {name: Value.__dict__[name] for name in ("__init__", "__match_args__")} if not TYPE_CHECKING else {}
)
_DEFINING = threading.RLock()
_BY_ATTRS = ("__attrs_pre_init__", "__attrs_init_subclass__")


def fields_of(cls: type[Value]) -> tuple[Field, ...]:
    """Return the fields of a class of values, in order.

    Raises:
        Exception: The error of attrs about a class with wrong fields.
    """
    fields = _known_fields(cls)
    if fields is None:
        fields = cls.__dict__.get("_attrs_fields")
    if fields is None:
        fields = tuple(map(Field.of_attrs, cls.__attrs_attrs__))
        type.__setattr__(cls, "_attrs_fields", fields)
    return fields


def _known_fields(cls: type[Value]) -> tuple[Field, ...] | None:
    """Return the fields of a class as far as they can be read without attrs, or None."""
    fields: tuple[Field, ...] | None = cls.__dict__.get("_all_fields", MISSING)
    if fields is MISSING:
        with _DEFINING:
            fields = _collect_fields(cls)
            type.__setattr__(cls, "_instances", [0])
            type.__setattr__(cls, "_all_fields", fields)
    return fields


def _collect_fields(cls: type[Value]) -> tuple[Field, ...] | None:
    if issubclass(cls, BaseException) or any(hasattr(cls, name) for name in _BY_ATTRS):
        return None
    found: dict[str, Field] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, Value):
            if "__attrs_attrs__" in base.__dict__:
                return None
            continue
        own = _own_of(base)
        if own is None:
            return None
        for each in own:
            found.pop(each.name, None)
            found[each.name] = each
    return tuple(found.values()) if _is_ordered(found.values()) else None


def _own_of(cls: type[Value]) -> tuple[Field, ...] | None:
    """Return the fields that a class declares. attrs removes the declarations when it defines the class."""
    own: tuple[Field, ...] | None = cls.__dict__.get("_own_fields", MISSING)
    if own is MISSING:
        with _DEFINING:
            own = own_fields(cls, kw_only=cls._kw_only)
            type.__setattr__(cls, "_own_fields", own)
    return own


def _is_ordered(fields: Iterable[Field]) -> bool:
    """Whether no field that must be given comes after one with a default."""
    default = False
    for each in fields:
        if each.init and not each.kw_only:
            if default and each.required:
                return False
            default = default or not each.required
    return True


def _write(cls: type[Value], fields: tuple[Field, ...]) -> None:
    """Generate an initialiser for a class."""
    with _DEFINING:
        if cls.__dict__["__init__"] is _LAZY["__init__"]:
            type.__setattr__(cls, "__init__", initialiser(cls, fields))
            type.__setattr__(cls, "_written", True)


def _define(cls: type[Value]) -> None:
    """Let attrs add the initialiser and the fields to the class. This happens once, in the first thread that needs it."""
    import attrs

    with _DEFINING:
        if cls.__dict__.get("__attrs_attrs__") is not _LAZY_FIELDS:
            return
        # The class keeps all it has until attrs is done: another thread may be using it. Without `init`, attrs keeps the
        # initialiser that it finds in a class; without `these`, it removes the declarations.
        more: dict[str, Any] = {}
        if cls.__dict__["__init__"] is _LAZY["__init__"] or cls.__dict__.get("_written"):
            more["init"] = True
        own = _own_of(cls)
        if own is not None:
            more["these"] = {each.name: each.for_attrs() for each in own}
        else:
            for name, value in list(cls.__dict__.items()):
                if isinstance(value, Field):
                    type.__setattr__(cls, name, value.for_attrs())
        attrs.frozen(cls, slots=False, eq=False, repr=False, kw_only=cls._kw_only, **more)
