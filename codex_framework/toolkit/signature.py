"""Conversion of a function's signature or a class to an argument type, with descriptions from the docstring."""

from __future__ import annotations

import collections.abc
import enum
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

import attrs

from codex_framework.contract.roles.tools import ToolContext
from codex_framework.contract.value import Value
from codex_framework.toolkit.argument_types import (
    Anything,
    ArgumentType,
    Array,
    Choice,
    Converted,
    Either,
    Field,
    Number,
    Record,
    Simple,
    Table,
)
from codex_framework.toolkit.bounds import bounded, bounds_of
from codex_framework.toolkit.named_types import NamedTypes
from codex_framework.toolkit.text_types import text_type, written

__all__ = ["CallForm", "argument_type", "call_form", "documentation"]

_SUPPORTED = (
    "str, int, float, bool, datetime, date, time, timedelta, Decimal, UUID, Path, Literal, Enum, list, tuple[X, ...], set,"
    " dict[str, X], X | Y, None, Any, Annotated, TypedDict, and classes made with attrs, dataclass or pydantic"
)
_SIMPLE: Mapping[Any, ArgumentType] = {
    str: Simple(str, "a string"),
    bool: Simple(bool, "true or false"),
    int: Number(whole=True),
    float: Number(whole=False),
    Any: Anything(),
    object: Anything(),
    Path: Converted(Simple(str, "a string"), Path),
    PurePath: Converted(Simple(str, "a string"), PurePath),
}
_ARRAYS: Mapping[Any, Callable[[list[Any]], Any]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: tuple,
    collections.abc.Iterable: tuple,
    collections.abc.Collection: tuple,
    collections.abc.MutableSequence: list,
    collections.abc.Set: frozenset,
}
_TABLES = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Params|Attributes|Returns?|Yields?|Raises|Examples?|Notes?|Warnings?|See Also|Todo):\s*$"
)
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)$")
_CONTEXT = re.compile(r"(^|[.\s\[|])ToolContext\b")


class CallForm(Value):
    """The form of the calls to a function.

    Attributes:
        arguments: Converts arguments to keyword arguments.
        context: The name of the :class:`ToolContext` parameter, or None if there is none.
        description: The text of the docstring before its sections.
    """

    arguments: Record
    context: str | None
    description: str


def call_form(function: Callable[..., Any], namespace: Mapping[str, Any] | None = None) -> CallForm:
    """Return the form of the calls to a function.

    Args:
        function: The function.
        namespace: The local names where the function is defined, for annotations that use local classes.

    Raises:
        TypeError: A parameter has no annotation, or one that is unsupported; the message names it.
    """
    names = _names_of(function, namespace)
    description, documented = documentation(
        inspect.getdoc(function) or "", ("Args", "Arguments", "Parameters", "Params")
    )
    context: str | None = None
    fields: list[Field] = []
    named = NamedTypes()
    for parameter in inspect.signature(function).parameters.values():
        where = f"parameter {parameter.name!r} of {function.__name__}"
        if _is_context(parameter.annotation, names):
            if context is not None:
                raise TypeError(
                    f"{function.__name__} has two ToolContext parameters, {context!r} and {parameter.name!r}"
                )
            context = parameter.name
            continue
        _check_kind(parameter, where)
        builder = _Builder(names, where, named)
        shape, described = builder.annotated(builder.resolved(parameter.annotation))
        fields.append(
            _field(
                parameter.name,
                shape,
                parameter.default,
                described or documented.pop(parameter.name, ""),
                inspect.Parameter.empty,
            )
        )
        documented.pop(parameter.name, None)
    documented.pop(context or "", None)
    if documented:
        raise TypeError(
            f"the docstring of {function.__name__} describes {', '.join(documented)}, which it has no parameter for"
        )
    return CallForm(Record(dict, tuple(fields)), context, description)


def argument_type(annotation: Any, where: str) -> ArgumentType:
    """Return the form of JSON data that an annotation stands for.

    Args:
        where: What is annotated, for errors.

    Raises:
        TypeError: The annotation is unsupported; the text names it.
    """
    return _Builder({}, where, NamedTypes()).annotated(annotation)[0]


def documentation(docstring: str, sections: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into the text before its sections and the entries of the given sections."""
    text: list[str] = []
    entries: dict[str, str] = {}
    section = ""
    indent = entry = None
    for line in inspect.cleandoc(docstring).splitlines():
        header = _SECTION.match(line)
        if header:
            section, indent, entry = header[1], None, None
        elif not section:
            text.append(line)
        elif section in sections and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            found = _ENTRY.match(line.strip()) if depth <= indent else None
            if found:
                entry = found["name"]
                entries[entry] = found["text"].strip()
            elif entry is not None:
                entries[entry] = f"{entries[entry]} {line.strip()}".strip()
    return "\n".join(text).strip(), entries


def _is_context(annotation: Any, names: Mapping[str, Any]) -> bool:
    if isinstance(annotation, str):
        # The name is enough, because plugins may import ToolContext only for the type checker.
        return bool(_CONTEXT.search(annotation)) or names.get(annotation) is ToolContext
    return annotation is ToolContext or ToolContext in typing.get_args(annotation)


def _check_kind(parameter: inspect.Parameter, where: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(
            f"{where} takes any number of arguments, which cannot be described to a model; use a list or a dict"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(f"{where} is positional-only, but a model passes arguments by name")
    if parameter.annotation is parameter.empty:
        raise TypeError(f"{where} has no annotation; supported are {_SUPPORTED}, and ToolContext")


class AnnotationError(TypeError):
    """An annotation is unsupported. The message names the parameter."""


class _Builder:
    """The builder for the type of one annotation. Errors name the parameter."""

    def __init__(self, names: Mapping[str, Any], where: str, named: NamedTypes, within: tuple[Any, ...] = ()) -> None:
        self._names = names
        self._where = where
        self._named = named
        self._within = within

    def resolved(self, annotation: Any) -> Any:
        if isinstance(annotation, typing.ForwardRef):
            annotation = annotation.__forward_arg__
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, dict(self._names))  # noqa: S307  # the author's own annotation; typing.get_type_hints does the same
        except Exception as error:
            raise AnnotationError(
                f"{self._where} is annotated {annotation!r}, which cannot be resolved ({type(error).__name__}: {error});"
                " import what it names at run time, above the function"
            ) from error

    def annotated(self, annotation: Any) -> tuple[ArgumentType, str]:
        """Return the type, and the description in ``Annotated``."""
        if typing.get_origin(annotation) is not typing.Annotated:
            return self.shape(annotation), ""
        inner, *extras = typing.get_args(annotation)
        from codex_framework.toolkit.model_types import is_of_pydantic

        try:
            bounds, description = bounds_of(extras)
            if any(is_of_pydantic(extra) for extra in extras):
                return self._model(typing.Annotated[(self.resolved(inner), *extras)]), description
            return bounded(self.shape(inner), bounds), description
        except AnnotationError:
            raise
        except TypeError as error:
            raise self._unsupported(annotation, str(error)) from None

    def shape(self, annotation: Any) -> ArgumentType:
        annotation = self._plain(self.resolved(annotation))
        if typing.get_origin(annotation) is typing.Annotated:
            shape, description = self.annotated(annotation)
            return bounded(shape, (), description)
        if type(annotation).__name__ == "TypeAliasType":
            return self._recursive(annotation, lambda builder: builder.shape(annotation.__value__))
        try:
            simple = _SIMPLE.get(annotation)
        except TypeError:  # not hashable, so not one of the simple types
            raise self._unsupported(annotation) from None
        if simple is not None:
            return simple
        origin, parts = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
        if origin is typing.Union or origin is types.UnionType:
            return Either(tuple(None if part is type(None) else self.shape(part) for part in parts))
        if origin is typing.Literal:
            return Choice(tuple((part.value if isinstance(part, enum.Enum) else part, part) for part in parts))
        if origin in _ARRAYS:
            return self._array(origin, parts, annotation)
        if origin in _TABLES:
            return self._table(parts, annotation)
        if isinstance(annotation, type):
            return self._class(annotation)
        raise self._unsupported(annotation)

    def _plain(self, annotation: Any) -> Any:
        """Remove wrappers that do not change the JSON value: ``NotRequired``, ``Final``, ``NewType``."""
        while True:
            if typing.get_origin(annotation) in (typing.Required, typing.NotRequired, typing.Final):
                annotation = self.resolved(typing.get_args(annotation)[0])
            elif isinstance(annotation, typing.NewType):
                annotation = annotation.__supertype__
            elif isinstance(annotation, typing.ForwardRef):
                annotation = self.resolved(annotation.__forward_arg__)
            else:
                return annotation

    def _array(self, origin: Any, parts: tuple[Any, ...], annotation: Any) -> ArgumentType:
        if origin is tuple and (len(parts) != 2 or parts[1] is not Ellipsis):
            raise self._unsupported(
                annotation, "write tuple[X, ...] for any number of X, or a class with a field for each part"
            )
        if not parts:
            raise self._unsupported(annotation, f"specify the type of its elements: {origin.__name__}[str]")
        return Array(self.shape(parts[0]), _ARRAYS[origin])

    def _table(self, parts: tuple[Any, ...], annotation: Any) -> ArgumentType:
        if not parts:
            raise self._unsupported(annotation, "specify the types of keys and values: dict[str, int]")
        if parts[0] is not str:
            raise self._unsupported(annotation, "keys are always str in JSON")
        return Table(self.shape(parts[1]))

    def _class(self, kind: type) -> ArgumentType:
        if issubclass(kind, enum.Enum):
            wires = [member.value for member in kind]
            if not wires or not all(isinstance(wire, (str, int, float)) for wire in wires):
                raise self._unsupported(kind, "its values must be strings or numbers")
            return Choice(tuple((wire, member) for wire, member in zip(wires, kind, strict=True)))
        if (text := text_type(kind)) is not None:
            return text
        if typing.is_typeddict(kind):
            return self._recursive(kind, lambda builder: builder.typed_dict(kind))
        if attrs.has(kind):
            return self._recursive(kind, lambda builder: builder.attrs_class(kind))
        if hasattr(kind, "__dataclass_fields__"):
            return self._recursive(kind, lambda builder: builder.dataclass(kind))
        from codex_framework.toolkit.model_types import is_of_pydantic

        if is_of_pydantic(kind):
            return self._model(kind)
        raise self._unsupported(kind)

    def _recursive(self, kind: Any, build: Callable[[_Builder], ArgumentType]) -> ArgumentType:
        """Build a type whose parts may refer to it."""
        if kind in self._within:
            return self._named.reference(kind)
        known = self._named.known(kind)
        if known is not None:
            return known
        self._named.open(kind)
        return self._named.close(kind, build(_Builder(self._names, self._where, self._named, (*self._within, kind))))

    def _model(self, annotation: Any) -> ArgumentType:
        from codex_framework.toolkit.model_types import model_type

        try:
            return model_type(annotation)
        except TypeError as error:
            raise self._unsupported(annotation, str(error)) from None

    def attrs_class(self, kind: Any) -> ArgumentType:
        fields = [(field.alias or field.name, field.name, field.default) for field in attrs.fields(kind) if field.init]
        return self._record(kind, kind, fields, attrs.NOTHING)

    def dataclass(self, kind: Any) -> ArgumentType:
        import dataclasses

        fields = []
        for field in dataclasses.fields(kind):
            made = field.default_factory if field.default is dataclasses.MISSING else field.default
            if field.init:
                fields.append((field.name, field.name, made))
        return self._record(kind, kind, fields, dataclasses.MISSING)

    def typed_dict(self, kind: Any) -> ArgumentType:
        # With postponed annotations, __required_keys__ does not recognise NotRequired, so the annotation itself is checked.
        fields = []
        for name, hint in kind.__annotations__.items():
            wrapper = typing.get_origin(self._within_class(kind, kind, name).resolved(hint))
            optional = wrapper is typing.NotRequired or (
                name in kind.__optional_keys__ and wrapper is not typing.Required
            )
            fields.append((name, name, ... if optional else attrs.NOTHING))
        return self._record(kind, dict, fields, attrs.NOTHING)

    def _record(
        self, kind: Any, make: Callable[..., Any], fields: list[tuple[str, str, Any]], nothing: Any
    ) -> ArgumentType:
        hints = {
            name: (hint, owner)
            for owner in reversed(kind.__mro__)
            for name, hint in inspect.get_annotations(owner).items()
        }
        _, documented = documentation(kind.__doc__ or "", ("Attributes", "Args", "Arguments"))
        built = []
        for name, attribute, default in fields:
            if attribute not in hints:
                raise AnnotationError(f"{self._where}: field {attribute!r} of {kind.__name__} has no annotation")
            hint, owner = hints[attribute]
            builder = self._within_class(kind, owner, attribute)
            resolved = builder.resolved(hint)
            if typing.get_origin(resolved) in (typing.Required, typing.NotRequired):
                resolved = builder.resolved(typing.get_args(resolved)[0])
            shape, described = builder.annotated(resolved)
            built.append(_field(name, shape, default, described or documented.get(attribute, ""), nothing))
        return Record(make, tuple(built))

    def _within_class(self, kind: type, owner: type, attribute: str) -> _Builder:
        """Return the builder for a field of a class. Its annotations are resolved in the module of the class that defines them."""
        names = {**self._names, **_module_names(owner), kind.__name__: kind}
        return _Builder(names, f"{self._where}: field {attribute!r} of {kind.__name__}", self._named, self._within)

    def _unsupported(self, annotation: Any, reason: str = "") -> TypeError:
        shown = annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
        return AnnotationError(
            f"{self._where} is annotated {shown}, which cannot be described to a model"
            f"{f': {reason}' if reason else ''}; supported are {_SUPPORTED}"
        )


def _field(name: str, shape: ArgumentType, default: Any, description: str, nothing: Any) -> Field:
    if default is nothing:
        return Field(name=name, shape=shape, description=description)
    shown = default.value if isinstance(default, enum.Enum) else written(default) or default
    plain = isinstance(shown, (str, int, float)) and _is_json(shown)
    return Field(
        name=name,
        shape=shape,
        required=False,
        default=shown if plain else None,
        null_is_default=default is None,
        description=description,
    )


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _names_of(function: Any, namespace: Mapping[str, Any] | None) -> dict[str, Any]:
    inner = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    found = dict(getattr(inner, "__globals__", {}))
    found.update(namespace or {})
    cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True) if hasattr(inner, "__code__") else ()
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    return found


def _module_names(kind: type) -> dict[str, Any]:
    module = sys.modules.get(kind.__module__)
    return dict(vars(module)) if module is not None else {}
