"""Rows of arguments from a function's signature or a class, with descriptions from the docstring."""

from __future__ import annotations

import builtins
import collections.abc
import enum
import inspect
import json
import re
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from codex_framework.contract.roles.tools import ToolContext
from codex_framework.toolkit.arguments import Argument, Definition, schema_of

__all__ = ["ArgumentType", "CallForm", "argument_type", "call_form", "documentation"]

_SUPPORTED = (
    "str, int, float, bool, datetime, date, time, timedelta, Decimal, UUID, Path, Literal, Enum, list, tuple[X, ...], set,"
    " dict[str, X], X | Y, None, Any, Annotated, TypedDict, and classes made with attrs, dataclass or pydantic"
)
_SIMPLE: Mapping[Any, Argument] = {
    str: Argument("string"),
    bool: Argument("boolean"),
    int: Argument("integer", convert=int),  # 2.0 is an integer, as in JSON Schema
    float: Argument("number", convert=float),
    Any: Argument("any", nullable=True),
    object: Argument("any", nullable=True),
    Path: Argument("string", convert=Path),
    PurePath: Argument("string", convert=PurePath),
}
_ARRAYS: Mapping[Any, Callable[[list[Any]], Any] | None] = {
    list: None,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: tuple,
    collections.abc.Iterable: tuple,
    collections.abc.Collection: tuple,
    collections.abc.MutableSequence: None,
    collections.abc.Set: frozenset,
}
_TABLES = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SECTION = r"(Args|Arguments|Parameters|Params|Attributes|Returns?|Yields?|Raises|Examples?|Notes?|Warnings?|See Also|Todo):\s*$"
_ENTRY = r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)$"
_REQUIRED = inspect.Parameter.empty
_CONTEXT = r"(^|[.\s\[|])ToolContext\b"
_CONTEXT_NAMES = ("context", "ctx")


class ArgumentType(NamedTuple):
    """The row of a type, and the definitions that it refers to."""

    row: Argument
    definitions: tuple[Definition, ...]

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """Return the JSON Schema.

        Raises:
            TypeError: ``strict`` is set, and the strict subset of JSON Schema cannot express this type.
        """
        from codex_framework.toolkit.json_schemas import strict_schema, with_definitions

        schema = schema_of(self.row)
        if self.definitions:
            schema["$defs"] = {each.name: schema_of(each.row) for each in self.definitions if each.row is not None}
        schema = with_definitions(schema)
        return strict_schema(schema) if strict else schema


class CallForm(NamedTuple):
    """The form of the calls to a function.

    Attributes:
        arguments: The object with the keyword arguments.
        context: The name of the :class:`ToolContext` parameter, if the function has one.
        description: The text of the docstring before its sections.
    """

    arguments: ArgumentType
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
    fields: dict[str, Argument] = {}
    types_ = _Definitions()
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
        builder = _Builder(names, where, types_)
        text = documented.pop(parameter.name, "")
        try:
            row = builder.row(builder.resolve(parameter.annotation))
        except AnnotationError as error:
            if parameter.name not in _CONTEXT_NAMES:
                raise
            raise AnnotationError(
                f"{error}. For the context of the call, write `{parameter.name}: ToolContext`"
            ) from None
        fields[parameter.name] = _field(row, parameter.default, text)
    documented.pop(context or "", None)
    if documented:
        raise TypeError(
            f"the docstring of {function.__name__} describes {', '.join(documented)}, which it has no parameter for"
        )
    whole = Argument("object", fields=fields, closed=True)
    return CallForm(ArgumentType(whole, types_.referenced_definitions()), context, description)


def argument_type(annotation: Any, where: str) -> ArgumentType:
    """Return the row of an annotation.

    Args:
        where: The annotated object, for errors.

    Raises:
        TypeError: The annotation is unsupported; the text names it.
    """
    types_ = _Definitions()
    return ArgumentType(
        _Builder({}, where, types_).row(annotation)._replace(required=True), types_.referenced_definitions()
    )


def documentation(docstring: str, sections: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into the text before its sections and the entries of the given sections."""
    text: list[str] = []
    entries: dict[str, str] = {}
    section = ""
    indent = entry = None
    for line in inspect.cleandoc(docstring).splitlines():
        header = re.match(_SECTION, line)
        if header:
            section, indent, entry = header[1], None, None
        elif not section:
            text.append(line)
        elif section in sections and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            found = re.match(_ENTRY, line.strip()) if depth <= indent else None
            if found:
                entry = found["name"]
                entries[entry] = found["text"].strip()
            elif entry is not None:
                entries[entry] = f"{entries[entry]} {line.strip()}".strip()
    return "\n".join(text).strip(), entries


def _is_context(annotation: Any, names: Mapping[str, Any]) -> bool:
    if isinstance(annotation, str):
        # The name is enough, because plugins may import ToolContext only for the type checker.
        return bool(re.search(_CONTEXT, annotation)) or names.get(annotation) is ToolContext
    return annotation is ToolContext or ToolContext in typing.get_args(annotation)


def _check_kind(parameter: inspect.Parameter, where: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(
            f"{where} takes any number of arguments, which cannot be described to a model; use a list or a dict"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(f"{where} is positional-only, but a model passes arguments by name")
    if parameter.annotation is parameter.empty:
        if parameter.name in _CONTEXT_NAMES:
            raise TypeError(f"{where} has no annotation: write `{parameter.name}: ToolContext`")
        raise TypeError(f"{where} has no annotation; supported are {_SUPPORTED}, and ToolContext")


class AnnotationError(TypeError):
    """An annotation is unsupported. The message names the parameter."""


class _Definitions:
    """The classes and aliases of one tool that may contain themselves."""

    def __init__(self) -> None:
        self._known: dict[Any, Definition] = {}
        self._referenced: dict[Any, Definition] = {}
        self._building: set[Any] = set()

    def referenced_definitions(self) -> tuple[Definition, ...]:
        """Return the definitions that something refers to."""
        return tuple(self._referenced.values())

    def reference(self, kind: Any) -> Argument:
        """Return a reference to a class or alias that has been begun."""
        target = self._referenced[kind] = self._known[kind]
        return Argument("reference", target=target)

    def build(self, kind: Any, build: Callable[[], Argument]) -> Argument:
        """Return the row of a class or alias, or a reference to it if a part of it refers to it."""
        if kind in self._building or kind in self._referenced:
            return self.reference(kind)
        same = sum(other.__name__ == kind.__name__ for other in self._known if other is not kind)
        definition = self._known[kind] = Definition(kind.__name__ if not same else f"{kind.__name__}_{same + 1}")
        self._building.add(kind)
        row = build()
        self._building.remove(kind)
        if kind not in self._referenced:
            return row
        definition.row = row
        return self.reference(kind)


class _Builder:
    """The builder for the row of one annotation. Errors name the parameter."""

    def __init__(self, names: Mapping[str, Any], where: str, types_: _Definitions) -> None:
        self._names = names
        self._where = where
        self._types = types_

    def resolve(self, annotation: Any) -> Any:
        if isinstance(annotation, typing.ForwardRef):
            annotation = annotation.__forward_arg__
        if not isinstance(annotation, str):
            return annotation
        if annotation in self._names:
            return self._names[annotation]
        try:
            return eval(annotation, {}, self._names)  # noqa: S307  # the author's own annotation; typing.get_type_hints does the same
        except Exception as error:
            raise AnnotationError(
                f"{self._where} is annotated {annotation!r}, which cannot be resolved ({type(error).__name__}: {error});"
                " import the type at run time, above the function"
            ) from error

    def row(self, annotation: Any) -> Argument:
        annotation = self._plain(self.resolve(annotation))
        if typing.get_origin(annotation) is typing.Annotated:
            return self._annotated_row(annotation)
        if type(annotation).__name__ == "TypeAliasType":
            return self._types.build(annotation, lambda: self.row(annotation.__value__))
        try:
            simple = _SIMPLE.get(annotation)
        except TypeError:  # not hashable, so not one of the simple types
            raise self._unsupported_error(annotation) from None
        if simple is not None:
            return simple
        origin, parts = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(parts)
        if origin is typing.Literal:
            return _choice([(part.value if isinstance(part, enum.Enum) else part, part) for part in parts])
        if origin in _ARRAYS:
            return self._array(origin, parts, annotation)
        if origin in _TABLES:
            return self._table(parts, annotation)
        if isinstance(annotation, type):
            return self._class(annotation)
        raise self._unsupported_error(annotation)

    def _annotated_row(self, annotation: Any) -> Argument:
        inner, *extras = typing.get_args(annotation)
        if all(isinstance(extra, str) for extra in extras):
            return _add_description(self.row(inner), extras[0])
        from codex_framework.toolkit.bounds import add_bounds, bounds_of
        from codex_framework.toolkit.model_types import is_of_pydantic

        try:
            bounds, description = bounds_of(extras)
            if any(is_of_pydantic(extra) for extra in extras):
                return _add_description(self._model(typing.Annotated[(self.resolve(inner), *extras)]), description)
            return _add_description(add_bounds(self.row(inner), bounds), description)
        except AnnotationError:
            raise
        except TypeError as error:
            raise self._unsupported_error(annotation, str(error)) from None

    def _union(self, parts: Iterable[Any]) -> Argument:
        rows = [self.row(part) for part in parts if part is not type(None)]
        row = rows[0] if len(rows) == 1 else Argument("union", any_of=tuple(rows))
        return row._replace(nullable=row.nullable or type(None) in parts)

    def _plain(self, annotation: Any) -> Any:
        """Remove wrappers that do not change the JSON value: ``NotRequired``, ``Final``, ``NewType``."""
        while True:
            if typing.get_origin(annotation) in (typing.Required, typing.NotRequired, typing.Final):
                annotation = self.resolve(typing.get_args(annotation)[0])
            elif isinstance(annotation, typing.NewType):
                annotation = annotation.__supertype__
            elif isinstance(annotation, typing.ForwardRef):
                annotation = self.resolve(annotation.__forward_arg__)
            else:
                return annotation

    def _array(self, origin: Any, parts: tuple[Any, ...], annotation: Any) -> Argument:
        if origin is tuple and (len(parts) != 2 or parts[1] is not Ellipsis):
            raise self._unsupported_error(
                annotation, "write tuple[X, ...] for any number of X, or a class with a field for each part"
            )
        if not parts:
            raise self._unsupported_error(annotation, f"specify the type of its elements: {origin.__name__}[str]")
        return Argument("list", items=self.row(parts[0]), convert=_ARRAYS[origin])

    def _table(self, parts: tuple[Any, ...], annotation: Any) -> Argument:
        if not parts:
            raise self._unsupported_error(annotation, "specify the types of keys and values: dict[str, int]")
        if parts[0] is not str:
            raise self._unsupported_error(annotation, "keys are always str in JSON")
        return Argument("map", items=self.row(parts[1]))

    def _class(self, kind: type) -> Argument:
        from codex_framework.toolkit.model_types import is_of_pydantic
        from codex_framework.toolkit.text_types import text_type

        if issubclass(kind, enum.Enum):
            wires = [member.value for member in kind]
            if not wires or not all(isinstance(wire, (str, int, float)) for wire in wires):
                raise self._unsupported_error(kind, "its values must be strings or numbers")
            return _choice(list(zip(wires, kind, strict=True)))
        if (text := text_type(kind)) is not None:
            return text.row()
        if typing.is_typeddict(kind):
            return self._types.build(kind, lambda: self._typed_dict(kind))
        if hasattr(kind, "__attrs_attrs__"):
            return self._types.build(kind, lambda: self._attrs_class(kind))
        if hasattr(kind, "__dataclass_fields__"):
            return self._types.build(kind, lambda: self._dataclass(kind))
        if is_of_pydantic(kind):
            return self._model(kind)
        raise self._unsupported_error(kind)

    def _model(self, annotation: Any) -> Argument:
        from codex_framework.toolkit.model_types import model_row

        try:
            return model_row(annotation)
        except TypeError as error:
            raise self._unsupported_error(annotation, str(error)) from None

    def _attrs_class(self, kind: Any) -> Argument:
        from attrs import NOTHING

        fields = [
            (field.alias or field.name, field.name, _REQUIRED if field.default is NOTHING else field.default)
            for field in kind.__attrs_attrs__
            if field.init
        ]
        return self._record(kind, fields, lambda found: kind(**found))

    def _dataclass(self, kind: Any) -> Argument:
        from dataclasses import MISSING, fields

        found = []
        for field in fields(kind):
            default = field.default_factory if field.default is MISSING else field.default
            if field.init:
                found.append((field.name, field.name, _REQUIRED if default is MISSING else default))
        return self._record(kind, found, lambda found: kind(**found))

    def _typed_dict(self, kind: Any) -> Argument:
        # With postponed annotations, __required_keys__ does not recognise NotRequired, so the annotation itself is checked.
        fields = []
        for name, hint in kind.__annotations__.items():
            wrapper = typing.get_origin(self._within_class(kind, kind, name).resolve(hint))
            optional = wrapper is typing.NotRequired or (
                name in kind.__optional_keys__ and wrapper is not typing.Required
            )
            fields.append((name, name, ... if optional else _REQUIRED))
        return self._record(kind, fields, None)

    def _record(
        self, kind: Any, fields: Iterable[tuple[str, str, Any]], convert: Callable[[Any], Any] | None
    ) -> Argument:
        """Return the row of a class. ``fields`` are names for JSON, attributes, and defaults."""
        hints = {
            name: (hint, owner)
            for owner in reversed(kind.__mro__)
            for name, hint in inspect.get_annotations(owner).items()
        }
        _, documented = documentation(kind.__doc__ or "", ("Attributes", "Args", "Arguments"))
        rows = {}
        for name, attribute, default in fields:
            if attribute not in hints:
                raise AnnotationError(f"{self._where}: field {attribute!r} of {kind.__name__} has no annotation")
            hint, owner = hints[attribute]
            row = self._within_class(kind, owner, attribute).row(hint)
            rows[name] = _field(row, default, documented.get(attribute, ""))
        return Argument("object", fields=rows, closed=True, convert=convert)

    def _within_class(self, kind: type, owner: type, attribute: str) -> _Builder:
        """Return the builder for a field of a class. Its annotations are resolved in the module of the class that defines them."""
        module = sys.modules.get(owner.__module__)
        names = ChainMap({kind.__name__: kind}, vars(module) if module is not None else {}, self._names)  # type: ignore[arg-type]  # only read
        return _Builder(names, f"{self._where}: field {attribute!r} of {kind.__name__}", self._types)

    def _unsupported_error(self, annotation: Any, reason: str = "") -> TypeError:
        shown = annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
        return AnnotationError(
            f"{self._where} is annotated {shown}, which cannot be described to a model"
            f"{f': {reason}' if reason else ''}; supported are {_SUPPORTED}"
        )


def _field(row: Argument, default: Any, description: str) -> Argument:
    """Return the row of a parameter or field."""
    if not row.description:
        row = _add_description(row, description)
    if default is _REQUIRED:
        return row._replace(required=True)
    if default is None:  # omitting an optional property is simpler for a model than sending null
        return row._replace(nullable=False)
    return row._replace(default=_json_default(default))


def _add_description(row: Argument, description: str) -> Argument:
    inner = row.description or row.schema.get("description", "")
    return row._replace(description=f"{description} {inner}".strip())


def _choice(members: list[tuple[Any, Any]]) -> Argument:
    """Return the row of a choice between Python values, each given with its JSON value."""
    wires = tuple(wire for wire, _ in members)

    def convert(value: Any) -> Any:
        return next(
            member for wire, member in members if wire == value and isinstance(wire, bool) is isinstance(value, bool)
        )

    return Argument(
        "string" if all(isinstance(wire, str) for wire in wires) else "choice", choices=wires, convert=convert
    )


def _json_default(default: Any) -> Any:
    """Return a default as JSON data, or None if it cannot be shown to a model."""
    shown = default.value if isinstance(default, enum.Enum) else default
    if not isinstance(shown, (str, int, float)):
        from codex_framework.toolkit.text_types import to_text

        return to_text(shown)
    return shown if _is_json(shown) else None


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _names_of(function: Any, namespace: Mapping[str, Any] | None) -> Mapping[str, Any]:
    inner = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    cells: dict[str, Any] = {}
    if hasattr(inner, "__code__"):
        for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:
                continue  # not assigned yet
    return ChainMap(cells, namespace or {}, getattr(inner, "__globals__", {}), vars(builtins))  # type: ignore[arg-type]  # only read
