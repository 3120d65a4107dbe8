"""The cattrs rules that read protocol values from JSON data. Imported at first use."""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from codex_framework.contract.protocol import environments, events, items, ops, permissions, policies
from codex_framework.contract.protocol.variants import variants_of, wire_fields
from codex_framework.contract.value import Value

__all__ = ["converter", "fault"]


class _UnknownVariantError(ValueError):
    """An object's tag names no variant of its union."""


def fault(error: BaseException, kind: type[Any] | None) -> str:
    """Return the fault of one part, without its place."""
    from cattrs.v import format_exception

    return str(error) if isinstance(error, _UnknownVariantError) else format_exception(error, kind)


@cache
def converter() -> Any:
    """Return the converter for reading protocol values.

    It is strict about strings and numbers, and keeps unknown variants and fields.
    """
    import attrs
    import cattrs

    converter = cattrs.Converter(detailed_validation=True)
    converter.register_structure_hook_factory(attrs.has, lambda kind: _of_class(converter, kind))
    for kind, also in ((str, ()), (int, ()), (bool, ()), (float, (int,))):
        converter.register_structure_hook(kind, _exactly(kind, *also))
    converter.register_structure_hook_func(
        _is_tagged_union,
        lambda value, kind: (
            None if value is None and NoneType in get_args(kind) else _closed_union_reader(converter, kind)(value, kind)
        ),
    )
    converter.register_structure_hook_func(_is_literal, _one_of)
    converter.register_structure_hook(bytes, lambda value, _: base64.b64decode(value, validate=True))
    converter.register_structure_hook(policies.ReviewDecision, lambda value, _: _read_decision(value))
    for union, unknown in (
        (items.ContentItem, items.UnknownContent),
        (items.ResponseItem, items.UnknownItem),
        (ops.UserInputItem, ops.UnknownInput),
    ):
        _hook(converter, union, _open_union_reader(converter, union, unknown))
    for closed in (policies.SandboxPolicy, events.FileChange):
        _hook(converter, closed, _closed_union_reader(converter, closed))
    for closed in (permissions.FilePath, permissions.FileSystemPermissions, permissions.PermissionProfile):
        _hook(converter, closed, _closed_union_reader(converter, closed))
    special = permissions.SpecialPath
    converter.register_structure_hook(special, lambda value, _: _read_special(value))
    converter.register_structure_hook(
        permissions.AccessMode, lambda value, _: permissions.AccessMode("deny" if value == "none" else value)
    )
    network = permissions.NetworkPermission  # it is a str, whose hook would leave the text as it is
    converter.register_structure_hook(network, lambda value, _: network(value))
    # Fields of a type that cannot be told apart by structure are taken as they come.
    _hook(converter, str | Mapping[str, Any], lambda value, _: value)
    _hook(converter, str | tuple[items.ContentItem, ...], _text_or(converter, tuple[items.ContentItem, ...]))
    _hook(converter, policies.ApprovalPolicy | policies.GranularApproval, _approval_policy(converter))
    converter.register_structure_hook_factory(
        lambda kind: attrs.has(kind) and any(field.name == "extra" for field in attrs.fields(kind)),
        lambda kind: _with_extra(converter, kind),
    )
    converter.register_structure_hook(events.ExecCommandEndEvent, _command_end(converter))
    converter.register_structure_hook(ops.ThreadSettingsOverrides, _settings_overrides(converter))
    plain = converter.get_structure_hook(environments.EnvironmentSelections)
    converter.register_structure_hook(
        environments.EnvironmentSelections,
        lambda value, kind: plain({"environments": value} if isinstance(value, list) else value, kind),
    )
    return converter


_Structure = Callable[[Any, Any], Any]


def _hook(converter: Any, union: Any, structure: _Structure) -> None:
    """Use this hook for a union, and for the union with None."""
    converter.register_structure_hook_func(lambda kind: kind == union, structure)
    converter.register_structure_hook_func(
        lambda kind: kind == (union | None), lambda value, kind: None if value is None else structure(value, kind)
    )


def _exactly(kind: type[Any], *also: type[Any]) -> _Structure:
    """Accept only the exact type: a number is not a string, and a boolean is not a number.

    A text for an enumeration becomes its member. A word that only newer versions know stays a text.
    """

    def structure(value: Any, wanted: Any) -> Any:
        if (isinstance(value, bool) and kind is not bool) or not isinstance(value, (kind, *also)):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        if kind is str and isinstance(wanted, type) and issubclass(wanted, enum.StrEnum):
            return wanted._value2member_map_.get(value, value)
        return kind(value)

    return structure


def _is_literal(kind: Any) -> bool:
    origin: object = get_origin(kind)
    return origin is Literal


def _one_of(value: Any, kind: Any) -> Any:
    if value not in get_args(kind):
        raise _UnknownVariantError(f"expected one of {', '.join(map(str, get_args(kind)))}, got {str(value)[:100]!r}")
    return value


def _open_union_reader(converter: Any, union: Any, unknown: Callable[[Any], Any]) -> _Structure:
    """Read a union by its ``type``. An unknown variant is kept."""
    variants = variants_of(union)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(f"expected an object, got {type(value).__name__}")
        kind = variants.get(str(value.get("type")))
        return unknown(dict(value)) if kind is None else converter.structure(value, kind)

    return structure


def _closed_union_reader(converter: Any, union: Any) -> _Structure:
    """Read a union by its ``type``, or by a bare string for a variant without fields."""
    variants = variants_of(union)

    def structure(value: Any, _: Any) -> Any:
        tag = value if isinstance(value, str) else value.get("type") if isinstance(value, Mapping) else None
        kind = variants.get(str(tag))
        if kind is None:
            raise _UnknownVariantError(f"unknown variant {tag!r}, expected one of {', '.join(sorted(variants))}")
        return converter.structure({} if isinstance(value, str) else value, kind)

    return structure


def _text_or(converter: Any, other: Any) -> _Structure:
    return lambda value, _: value if isinstance(value, str) else converter.structure(value, other)


def _approval_policy(converter: Any) -> _Structure:
    def structure(value: Any, _: Any) -> Any:
        if isinstance(value, Mapping) and "granular" in value:
            return converter.structure(value["granular"], policies.GranularApproval)
        return policies.ApprovalPolicy(value)

    return structure


def _is_tagged_union(kind: Any) -> bool:
    """Return whether every part of a union is a tagged value or None."""
    if get_origin(kind) not in (Union, UnionType):
        return False
    parts = [part for part in get_args(kind) if part is not NoneType]
    return len(parts) > 1 and all(
        isinstance(part, type) and issubclass(part, Value) and getattr(part, "type", "") for part in parts
    )


def _of_class(converter: Any, kind: type[Any]) -> _Structure:
    """Read an attrs class. If all its fields have defaults, cattrs alone would accept a text as an empty object."""
    from cattrs.gen import make_dict_structure_fn, override

    names: Any = {name: override(rename=word) for name, word in wire_fields(kind) if word != name}  # type: ignore[arg-type]
    plain = make_dict_structure_fn(kind, converter, **names)
    lists = _lists(kind)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(f"expected an object, got {type(value).__name__}")
        for name in lists:
            if isinstance(value.get(name), str):
                raise _no_list(kind, name)
        return plain(value, kind)

    return structure


def _lists(kind: type[Any]) -> tuple[str, ...]:
    """Return the JSON names of a class's lists. cattrs alone would take a text for a list of its characters."""
    import attrs

    whole: Any = kind
    types = {field.name: str(field.type) for field in attrs.fields(whole)}
    return tuple(word for name, word in wire_fields(whole) if types[name].startswith(("tuple[", "Sequence[")))


def _no_list(kind: type[Any], name: str) -> Exception:
    """Return cattrs's error for a field whose value is a text and no list."""
    from cattrs.errors import AttributeValidationNote, ClassValidationError

    error = TypeError("expected a list, got str")
    error.add_note(AttributeValidationNote(f"Structuring class {kind.__qualname__} @ attribute {name}", name, kind))
    group = cast("Any", ClassValidationError)  # pyright confuses its initialiser with the one of ExceptionGroup
    found: Exception = group(f"While structuring {kind.__name__}", [error], kind)
    return found


def _with_extra(converter: Any, kind: type[Any]) -> _Structure:
    """Read a class and put unknown fields into its ``extra``."""
    import attrs
    from cattrs.gen import make_dict_structure_fn

    names = {field.name for field in attrs.fields(kind)} - {"extra"} | {"type"}
    plain = make_dict_structure_fn(kind, converter)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(f"expected an object, got {type(value).__name__}")
        known = {key: part for key, part in value.items() if key in names and part is not None}
        rest = {key: part for key, part in value.items() if key not in names}
        return plain({**known, "extra": rest} if rest else known, kind)

    return structure


_TRI_STATE = ("effort", "service_tier")
"""Settings for which null is a value: the default."""


def _settings_overrides(converter: Any) -> _Structure:
    """Read null as the default where Codex does, and not as a field that is missing."""
    plain = converter.get_structure_hook(ops.ThreadSettingsOverrides)

    def structure(value: Any, kind: Any) -> Any:
        if isinstance(value, Mapping):
            value = {**value, **{name: "" for name in _TRI_STATE if name in value and value[name] is None}}
        return plain(value, kind)

    return structure


def _command_end(converter: Any) -> _Structure:
    """``duration`` is ``{"secs", "nanos"}`` on the wire."""
    from cattrs.gen import make_dict_structure_fn

    plain = make_dict_structure_fn(events.ExecCommandEndEvent, converter)

    def structure(value: Any, kind: Any) -> Any:
        known = dict(value)
        duration = known.pop("duration", None) or {}
        return plain({**known, "duration_s": duration.get("secs", 0) + duration.get("nanos", 0) / 1e9}, kind)

    return structure


def _read_special(value: Mapping[str, Any]) -> permissions.SpecialPath:
    """Read a special path. A location of a newer version is kept as ``unknown``, which grants nothing."""
    inner = value.get("value") if isinstance(value, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("kind"), str):
        raise ValueError("a special path needs a value with a kind")  # cattrs reports it by its text
    kind, subpath = inner["kind"], inner.get("subpath")
    if not all(isinstance(part, str | None) for part in (subpath, inner.get("path"))):
        raise ValueError("subpath and path of a special path must be strings")
    if subpath is not None and (subpath.startswith("/") or ".." in subpath.split("/")):
        raise ValueError(f"the subpath {subpath!r} is not inside its base path")
    if kind == "current_working_directory":  # the older name
        kind = permissions.Special.WORKSPACE_ROOTS
    if kind in tuple(permissions.Special):
        return permissions.SpecialPath(permissions.Special(kind), subpath, inner.get("path"))
    return permissions.SpecialPath(permissions.Special.UNKNOWN, subpath, kind)


def _read_decision(value: Any) -> policies.ReviewDecision:
    simple, approved, denied = tuple(policies.Decision), policies.Decision.APPROVED, policies.Decision.DENIED
    match value:
        case str() if value in simple:
            return policies.ReviewDecision(policies.Decision(value))
        case {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": [str(), *_] as words}} if all(
            isinstance(word, str) for word in words
        ):
            return policies.ReviewDecision(approved, execpolicy_amendment=tuple(words))
        case {
            "network_policy_amendment": {
                "network_policy_amendment": {"host": str(), "action": "allow" | "deny"} as rule
            }
        }:
            return policies.ReviewDecision(
                approved if rule["action"] == "allow" else denied, network_amendment=dict(rule)
            )
    raise _UnknownVariantError(
        f"unknown decision {str(value)[:100]!r}, expected one of {', '.join(simple)}, an approved_execpolicy_amendment with a list"
        " of words, or a network_policy_amendment with host and action"
    )
