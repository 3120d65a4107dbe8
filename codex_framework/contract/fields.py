"""The fields of values: how a class declares them, and how they are read and filled without attrs.

Importing attrs takes 10 ms, and compiling a class with it 0.3 ms; most runs need neither. attrs defines a class with the same
fields when code asks attrs about it (``attrs.fields``, cattrs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

__all__ = ["MISSING", "Field", "field", "fill", "initialiser", "own_fields"]

T = TypeVar("T")

MISSING: Any = object()
"""Marks a field without a default."""

_NO_METADATA: Mapping[str, Any] = MappingProxyType({})
_CLASS_VARIABLES = ("ClassVar", "typing.ClassVar", "t.ClassVar", "typing_extensions.ClassVar")


class Field:
    """One field of a class of values. The attributes have the names of ``attrs.Attribute``, as far as values use them."""

    __slots__ = ("alias", "default", "eq", "factory", "init", "kw_only", "metadata", "name", "repr", "takes_self")

    def __init__(
        self,
        *,
        default: Any = MISSING,
        factory: Callable[..., Any] | None = None,
        takes_self: bool = False,
        init: bool = True,
        repr: bool = True,  # noqa: A002  # attrs' name
        eq: bool = True,
        kw_only: bool = False,
        alias: str = "",
        metadata: Mapping[str, Any] = _NO_METADATA,
    ) -> None:
        self.name = ""
        self.default = default
        self.factory = factory
        self.takes_self = takes_self
        self.init = init
        self.repr = repr
        self.eq = eq
        self.kw_only = kw_only
        self.alias = alias
        self.metadata = metadata

    @property
    def required(self) -> bool:
        """Whether the field must be given."""
        return self.init and self.default is MISSING and self.factory is None

    def made(self, instance: object) -> Any:
        """Return the default for an instance, or MISSING."""
        if self.factory is None:
            return self.default
        return self.factory(instance) if self.takes_self else self.factory()

    @classmethod
    def of_attrs(cls, attribute: Any) -> Field:
        """Return the field that attrs read."""
        import attrs

        found = cls(
            init=attribute.init,
            repr=bool(attribute.repr),
            eq=bool(attribute.eq),
            kw_only=attribute.kw_only,
            alias=attribute.alias,
            metadata=attribute.metadata,
        )
        found.name = attribute.name
        default = attribute.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class, whatever its stub says
            found.factory, found.takes_self = default.factory, default.takes_self
        elif default is not attrs.NOTHING:
            found.default = default
        return found

    def for_attrs(self) -> Any:
        """Return the declaration of this field for attrs."""
        import attrs

        default = attrs.NOTHING if self.default is MISSING else self.default
        if self.factory is not None:
            default = attrs.Factory(self.factory, takes_self=self.takes_self)  # type: ignore[call-overload]  # a flag
        return attrs.field(
            default=default,
            init=self.init,
            repr=self.repr,
            eq=self.eq,
            kw_only=self.kw_only,
            alias=None if self.alias == self.name.lstrip("_") else self.alias,
            metadata=dict(self.metadata),
        )


if TYPE_CHECKING:

    class _Options(TypedDict, total=False):
        init: bool
        repr: bool
        eq: bool
        kw_only: bool
        alias: str
        metadata: Mapping[str, Any]


@overload
def field(*, default: T, **options: Unpack[_Options]) -> T: ...
@overload
def field(*, factory: Callable[[], T], **options: Unpack[_Options]) -> T: ...
@overload
def field(*, factory: Callable[[Any], T], takes_self: Literal[True], **options: Unpack[_Options]) -> T: ...
@overload
def field(**options: Unpack[_Options]) -> Any: ...
def field(**options: Any) -> Any:
    """Declare a field that needs more than a default value.

    Args:
        default: The default value.
        factory: Makes the default value of each instance.
        takes_self: The factory takes the instance, whose earlier fields are filled.
        init: Whether the field can be given.
        repr: Whether ``repr`` shows the field.
        eq: Whether the field counts for equality and hash.
        kw_only: Whether the field can be given by name only.
        alias: The name of the parameter. By default the field's name without leading underscores.
        metadata: Notes on the field for other code.
    """
    return Field(**options)


def own_fields(cls: type[Any], *, kw_only: bool) -> tuple[Field, ...] | None:
    """Return the fields that a class adds to its bases, or None if only attrs can read them."""
    own = cls.__dict__
    try:
        annotations = cls.__annotations__
    except Exception:  # annotations that are evaluated may do anything; attrs reports it
        return None
    found: list[Field] = []
    for name, annotation in annotations.items():
        if str(annotation).strip("'\"").startswith(_CLASS_VARIABLES):
            continue
        declared = own.get(name, MISSING)
        if type(declared) is not Field:
            declared = Field(default=declared)
        declared.name = name
        declared.alias = declared.alias or name.lstrip("_")
        declared.kw_only = declared.kw_only or kw_only
        found.append(declared)
    declarations = [name for name, value in own.items() if type(value) is Field or _by_attrs(value)]
    if any(name not in annotations or _by_attrs(own[name]) for name in declarations):
        return None
    for name in declarations:
        type.__delattr__(cls, name)
    return tuple(found)


def _by_attrs(declared: object) -> bool:
    """Return whether a class attribute is a declaration made with attrs, which only attrs can interpret."""
    return type(declared).__module__.startswith("attr.")


def fill(instance: Any, fields: tuple[Field, ...], args: tuple[Any, ...], given: dict[str, Any]) -> bool:
    """Fill the fields of an instance from the arguments of a call. Returns False if the arguments do not fit."""
    values = instance.__dict__
    positional = iter(args)
    left = len(args)
    used = 0
    for each in fields:
        if not each.init:
            value = each.made(instance)
            if value is MISSING:
                continue
        elif left and not each.kw_only:
            value = next(positional)
            left -= 1
        elif each.alias in given:
            value = given[each.alias]
            used += 1
        else:
            value = each.default if each.factory is None else each.made(instance)
            if value is MISSING:
                return False
        values[each.name] = value
    return not left and used == len(given)


def initialiser(cls: type[Any], fields: tuple[Field, ...]) -> Callable[..., None]:
    """Write the initialiser of a class. It is faster than ``fill``, and refuses arguments that do not fit as Python does."""
    names: dict[str, Any] = {"_missing": MISSING}
    by_position: list[str] = []
    by_name: list[str] = []
    lines = ["_values = self.__dict__"]
    for number, each in enumerate(fields):
        value = each.alias
        if each.factory is not None:
            names[f"_factory{number}"] = each.factory
            made = f"_factory{number}({'self' if each.takes_self else ''})"
            lines.append(
                f"_values[{each.name!r}] = {made}" + (f" if {value} is _missing else {value}" if each.init else "")
            )
        elif each.init:
            lines.append(f"_values[{each.name!r}] = {value}")
        elif each.default is not MISSING:
            lines.append(f"_values[{each.name!r}] = _default{number}")
        if each.default is not MISSING:
            names[f"_default{number}"] = each.default
        if each.init:
            default = f"=_default{number}" if each.default is not MISSING else "=_missing" if each.factory else ""
            (by_name if each.kw_only else by_position).append(f"{each.alias}{default}")
    if hasattr(cls, "__attrs_post_init__"):
        lines.append("self.__attrs_post_init__()")
    parameters = ", ".join(["self", *by_position, *(["*", *by_name] if by_name else [])])
    body = "\n    ".join(lines)
    exec(f"def __init__({parameters}):\n    {body}", names)  # noqa: S102  # names of fields, from the class itself
    written: Callable[..., None] = names["__init__"]
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    written.__module__ = cls.__module__
    return written
