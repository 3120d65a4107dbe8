"""Reading and writing protocol values as JSON. The only module that knows cattrs.

Writing is a plain walk over attrs fields (no code generation, so it costs nothing at start-up). Reading is cattrs, imported at
first use; items, which every response is made of, are read by hand. Rules of the wire: the variant's tag is ``type``; absent
optional fields are left out; tuples are arrays; bytes are base64; ``extra`` fields are written back where they came from.
"""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar, cast, get_args

from codex_framework.errors import CodexError
from codex_framework.protocol import events, items, ops, permissions, policies

__all__ = ["WireError", "encode_item", "encode_json", "read", "read_event", "read_item", "read_op", "to_wire"]

T = TypeVar("T")


class WireError(CodexError):
    """A JSON value does not have the form it should have; the fact names the place."""

    slug = "wire"


def to_wire(value: Any) -> Any:
    """A protocol value as plain JSON data (dict, list, str, int, float, bool, None)."""
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return value.value
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    if isinstance(value, Mapping):
        return {str(key): to_wire(part) for key, part in value.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [to_wire(part) for part in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(type(value), "__attrs_attrs__"):
        return _object_to_wire(value)
    raise TypeError(f"{type(value).__name__} is not a value of the protocol")


def encode_item(item: items.ResponseItem) -> bytes:
    """An item as compact JSON in UTF-8, as it stands in a request. Lone surrogates become U+FFFD."""
    text = encode_json(item)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def encode_json(value: Any) -> str:
    """A protocol value, or plain JSON data, as compact JSON text."""
    return json.dumps(to_wire(value), ensure_ascii=False, separators=(",", ":"))


def read_item(raw: Mapping[str, Any]) -> items.ResponseItem:
    """A ``ResponseItem`` from its JSON object. Never fails: what does not fit its variant is kept as :class:`UnknownItem`.

    Read by hand, not by cattrs: this stands between the first response and the first tool, and importing cattrs takes longer
    than most tools.
    """
    kind = _item_variants().get(str(raw.get("type")))
    item = None if kind is None else _by_hand(kind, raw)
    return items.UnknownItem(dict(raw)) if item is None else cast("items.ResponseItem", item)


def read_event(raw: Mapping[str, Any]) -> events.EventMsg:
    """An ``EventMsg`` from its JSON object. Never fails: what does not fit its variant is kept as :class:`UnknownEvent`."""
    return cast("events.EventMsg", _lenient(raw, _event_variants(), events.UnknownEvent))


def read_op(raw: Mapping[str, Any]) -> ops.Op:
    """An ``Op`` from its JSON object.

    Raises:
        WireError: The variant is unknown or its fields do not fit.
    """
    variants = _variants(ops.Op)
    kind = variants.get(str(raw.get("type")))
    if kind is None:
        raise WireError(f"unknown op {raw.get('type')!r}", hint=f"use one of: {', '.join(sorted(variants))}")
    return cast("ops.Op", read(kind, raw))


def read(kind: type[T], raw: Any, *, where: str = "$") -> T:
    """A value of an attrs class (or any type cattrs can structure) from plain JSON data.

    Raises:
        WireError: With one line for each thing that does not fit, and its path.
    """
    import cattrs

    try:
        return cast("T", _converter().structure(raw, kind))
    except Exception as error:
        lines = cattrs.transform_error(error, path=where)
        raise WireError("; ".join(lines)) from error


def _object_to_wire(value: Any) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    tag = getattr(type(value), "type", None)
    if isinstance(tag, str) and tag:
        wire["type"] = tag
    for field in type(value).__attrs_attrs__:
        part = getattr(value, field.name)
        if part is None:
            continue
        if field.name == "extra":
            for key, kept in part.items():
                wire.setdefault(key, kept)
        else:
            wire[field.name] = to_wire(part)
    return wire


def _raw_to_wire(value: Any) -> Any:
    return dict(value.raw)


def _decision_to_wire(value: policies.ReviewDecision) -> Any:
    if value.execpolicy_amendment is not None:
        return {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": list(value.execpolicy_amendment)}}
    if value.network_amendment is not None:
        return {"network_policy_amendment": {"network_policy_amendment": dict(value.network_amendment)}}
    return value.decision.value


def _special_to_wire(value: permissions.SpecialPath) -> dict[str, Any]:
    inner = {"kind": value.kind.value, "subpath": value.subpath, "path": value.path}
    return {"type": value.type, "value": {key: part for key, part in inner.items() if part is not None}}


def _command_end_to_wire(value: events.ExecCommandEndEvent) -> dict[str, Any]:
    wire = _object_to_wire(value)
    seconds = wire.pop("duration_s")
    wire["duration"] = {"secs": int(seconds), "nanos": int((seconds % 1) * 1e9)}
    return wire


def _by_hand(kind: type[Any], raw: Mapping[str, Any]) -> Any:
    """A value of an item or content class, or None where the object does not fit it."""
    readers = _field_readers(kind)  # type: ignore[arg-type]  # classes are hashable
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, part in raw.items():
        reader = readers.get(key)
        if reader is None:
            if key != "type":
                extra[key] = part
        elif part is not None:
            fields[key] = reader(part)
            if fields[key] is None:
                return None
    if extra:
        fields["extra"] = extra
    try:
        return kind(**fields)
    except TypeError:  # a field is missing, or there is one more than the class can keep
        return None


@cache
def _field_readers(kind: type[Any]) -> dict[str, Callable[[Any], Any]]:
    return {name: _READERS[text] for name, text in kind.__annotations__.items() if name not in ("type", "extra")}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _objects(value: Any) -> tuple[Any, ...] | None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(part, Mapping) for part in value):
        return None
    return tuple(value)


def _content(value: Any) -> tuple[Any, ...] | None:
    parts = _objects(value)
    return None if parts is None else tuple(_content_part(part) for part in parts)


def _content_part(raw: Mapping[str, Any]) -> items.ContentItem:
    kind = _content_variants().get(str(raw.get("type")))
    part = None if kind is None else _by_hand(kind, raw)
    return items.UnknownContent(dict(raw)) if part is None else cast("items.ContentItem", part)


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "str | None": _text,
    "Extra": _object,
    "tuple[Extra, ...]": _objects,
    "tuple[Extra, ...] | None": _objects,
    "tuple[ContentItem, ...]": _content,
    "str | tuple[ContentItem, ...]": lambda value: value if isinstance(value, str) else _content(value),
}
"""How a field of an item is read, by its annotation; None where the value does not fit."""


_WRITERS: dict[type, Callable[[Any], Any]] = {
    items.UnknownItem: _raw_to_wire,
    items.UnknownContent: _raw_to_wire,
    ops.UnknownInput: _raw_to_wire,
    events.UnknownEvent: _raw_to_wire,
    policies.ReviewDecision: _decision_to_wire,
    policies.GranularApproval: lambda value: {"granular": _object_to_wire(value)},
    events.ExecCommandEndEvent: _command_end_to_wire,
    permissions.SpecialPath: _special_to_wire,
}


def _variants(union: Any) -> dict[str, type[Any]]:
    return {kind.type: kind for kind in get_args(union) if kind.type}


@cache
def _content_variants() -> dict[str, type[Any]]:
    return _variants(items.ContentItem)


@cache
def _item_variants() -> dict[str, type[Any]]:
    return _variants(items.ResponseItem)


@cache
def _event_variants() -> dict[str, type[Any]]:
    return _variants(events.EventMsg) | {
        "turn_started": events.TurnStartedEvent,
        "turn_complete": events.TurnCompleteEvent,
    }


def _lenient(raw: Mapping[str, Any], variants: Mapping[str, type[Any]], unknown: Callable[[Any], Any]) -> Any:
    kind = variants.get(str(raw.get("type")))
    if kind is None:
        return unknown(dict(raw))
    try:
        return _converter().structure(raw, kind)
    except Exception:  # cattrs raises groups of many kinds; whatever does not fit is kept as it came
        return unknown(dict(raw))


@cache
def _converter() -> Any:
    """The one converter: strict about strings and numbers, keeping unknown variants and fields."""
    import attrs
    import cattrs

    converter = cattrs.Converter(detailed_validation=True)
    for kind, also in ((str, ()), (int, ()), (bool, ()), (float, (int,))):
        converter.register_structure_hook(kind, _exactly(kind, *also))
    converter.register_structure_hook(bytes, lambda value, _: base64.b64decode(value, validate=True))
    converter.register_structure_hook(policies.ReviewDecision, lambda value, _: _read_decision(value))
    for union, unknown in (
        (items.ContentItem, items.UnknownContent),
        (items.ResponseItem, items.UnknownItem),
        (ops.UserInputItem, ops.UnknownInput),
        (events.EventMsg, events.UnknownEvent),
    ):
        _hook(converter, union, _tagged(converter, union, unknown))
    for closed in (policies.SandboxPolicy, events.FileChange):
        _hook(converter, closed, _closed(converter, closed))
    for closed in (permissions.FilePath, permissions.FileSystemPermissions, permissions.PermissionProfile):
        _hook(converter, closed, _closed(converter, closed))
    special = permissions.SpecialPath
    converter.register_structure_hook(special, lambda value, _: _read_special(value))
    converter.register_structure_hook(
        permissions.AccessMode, lambda value, _: permissions.AccessMode("deny" if value == "none" else value)
    )
    # Fields of a type that cannot be told apart by structure are taken as they come.
    _hook(converter, str | Mapping[str, Any], lambda value, _: value)
    _hook(converter, str | tuple[items.ContentItem, ...], _text_or(converter, tuple[items.ContentItem, ...]))
    _hook(converter, policies.ApprovalPolicy | policies.GranularApproval, _approval_policy(converter))
    converter.register_structure_hook_factory(
        lambda kind: attrs.has(kind) and any(field.name == "extra" for field in attrs.fields(kind)),
        lambda kind: _with_extra(converter, kind),
    )
    converter.register_structure_hook(events.ExecCommandEndEvent, _command_end(converter))
    return converter


_Structure = Callable[[Any, Any], Any]


def _hook(converter: Any, union: Any, structure: _Structure) -> None:
    """Read a union this way, and the union with None as well."""
    converter.register_structure_hook_func(lambda kind: kind == union, structure)
    converter.register_structure_hook_func(
        lambda kind: kind == (union | None), lambda value, kind: None if value is None else structure(value, kind)
    )


def _exactly(kind: type[Any], *also: type[Any]) -> _Structure:
    """A number is no string, and a boolean no number, whatever Python thinks of it."""

    def structure(value: Any, _: Any) -> Any:
        if (isinstance(value, bool) and kind is not bool) or not isinstance(value, (kind, *also)):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return kind(value)

    return structure


def _tagged(converter: Any, union: Any, unknown: Callable[[Any], Any]) -> _Structure:
    """A union by its ``type``; a variant that is not known is kept."""
    variants = _variants(union)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(f"expected an object, got {type(value).__name__}")
        kind = variants.get(str(value.get("type")))
        return unknown(dict(value)) if kind is None else converter.structure(value, kind)

    return structure


def _closed(converter: Any, union: Any) -> _Structure:
    """A union by its ``type``, or by a bare word where the variant has no fields to give."""
    variants = _variants(union)

    def structure(value: Any, _: Any) -> Any:
        tag = value if isinstance(value, str) else value.get("type") if isinstance(value, Mapping) else None
        kind = variants.get(str(tag))
        if kind is None:
            raise ValueError(f"unknown variant {tag!r}, expected one of {', '.join(sorted(variants))}")
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


def _with_extra(converter: Any, kind: type[Any]) -> _Structure:
    """Fields the class does not name go into its ``extra``."""
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
    """A place of a newer version is kept as ``unknown``: it permits nothing."""
    inner = value.get("value") if isinstance(value, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("kind"), str):
        raise ValueError("a special path needs a value with a kind")  # cattrs reports it by its text
    kind, subpath = inner["kind"], inner.get("subpath")
    if not all(isinstance(part, str | None) for part in (subpath, inner.get("path"))):
        raise ValueError("subpath and path of a special path have to be strings")
    if subpath is not None and (subpath.startswith("/") or ".." in subpath.split("/")):
        raise ValueError(f"the subpath {subpath!r} does not lie below its place")
    if kind == "current_working_directory":  # the older name
        kind = permissions.Special.WORKSPACE_ROOTS
    if kind in tuple(permissions.Special):
        return permissions.SpecialPath(permissions.Special(kind), subpath, inner.get("path"))
    return permissions.SpecialPath(permissions.Special.UNKNOWN, subpath, kind)


def _read_decision(value: Any) -> policies.ReviewDecision:
    if isinstance(value, str):
        return policies.ReviewDecision(policies.Decision(value))
    if isinstance(value, Mapping):
        amendment = value.get("approved_execpolicy_amendment")
        if isinstance(amendment, Mapping):
            prefix = tuple(str(word) for word in amendment["proposed_execpolicy_amendment"])
            return policies.ReviewDecision(policies.Decision.APPROVED, execpolicy_amendment=prefix)
        network = value.get("network_policy_amendment")
        if isinstance(network, Mapping):
            rule = network["network_policy_amendment"]
            allowed = rule.get("action") == "allow"
            return policies.ReviewDecision(
                policies.Decision.APPROVED if allowed else policies.Decision.DENIED, network_amendment=dict(rule)
            )
    raise ValueError(f"unknown review decision {value!r}")
