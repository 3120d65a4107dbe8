"""Reading and writing protocol values as JSON.

Writing is a plain walk over attrs fields (no code generation, so it costs nothing at start-up). Reading is cattrs (in
``structuring``), imported at first use. Items, of which every response consists, are read by hand. Rules of the wire: the
variant's tag is ``type``; absent optional fields are omitted, except the fields that an op names in ``nulls``; tuples are
arrays; bytes are base64; ``extra`` fields are written back where they were.

A field's metadata ``wire`` is its name in JSON, or False for a field that JSON does not have. A union of values that all have a
tag is read by the tag.
"""

from __future__ import annotations

import base64
import enum
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar, cast

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol import events, items, ops, permissions, policies
from codex_framework.contract.protocol.variants import variants_of, wire_fields
from codex_framework.contract.value import Value, fields_of

__all__ = [
    "WireError",
    "encode_item",
    "encode_json",
    "item_fault",
    "packed_item",
    "read",
    "read_event",
    "read_item",
    "read_op",
    "to_wire",
]

T = TypeVar("T")

_NO_KINDS: Mapping[str, type[Any]] = {}

_DEEPEST = 128
"""As many lists and objects as programs in Rust read nested in one another (``serde_json``)."""


class WireError(CodexError):
    """A JSON value does not have the expected form. The fact names the place."""

    slug = "wire"


_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
"""Made once: ``json.dumps`` makes one for every call with options. :func:`to_wire` copies, so nothing is circular."""

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""The classes whose values are plain JSON data."""


def to_wire(value: Any) -> Any:
    """Convert a protocol value to plain JSON data (dict, list, str, int, float, bool, None)."""
    kind = type(value)
    if kind in _PLAIN:  # by the exact class first: this is called for every field of every event
        return value
    if kind is dict:
        return {str(key): part if type(part) in _PLAIN else to_wire(part) for key, part in value.items()}
    if isinstance(value, Value):
        writer = _WRITERS.get(kind)
        return _object_to_wire(value) if writer is None else writer(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): to_wire(part) for key, part in value.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [to_wire(part) for part in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(kind, "__attrs_attrs__"):
        return _object_to_wire(value)
    raise TypeError(f"{type(value).__name__} is not a value of the protocol")


def encode_item(item: items.ResponseItem) -> bytes:
    """Encode an item as compact JSON in UTF-8, as in a request. Lone surrogates become U+FFFD."""
    packed: bytes | None = item.__dict__.get(items.PACKED)
    if packed is not None:
        return packed
    text = encode_json(item)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def encode_json(value: Any) -> str:
    """Encode a protocol value, or plain JSON data, as compact JSON text.

    Values that are nested too deeply become null, so that the rest of a record is still written.
    """
    try:
        return _encode(value)
    except RecursionError:
        return _encode(_flatten(value))


def _flatten(value: Any, room: int = _DEEPEST) -> Any:
    """Return a value of the protocol in which everything that is nested more deeply is None.

    Args:
        room: How many lists, objects and values may be nested in one another.
    """
    if not isinstance(value, (Value, Mapping, tuple, list, set, frozenset)):
        return value
    if not room:
        return None
    if isinstance(value, Value):
        import copy  # most runs need it never

        slim = copy.copy(value)
        slim.__dict__.update({name: _flatten(part, room - 1) for name, part in value.__dict__.items()})
        return slim
    if isinstance(value, Mapping):
        return {key: _flatten(part, room - 1) for key, part in value.items()}
    return tuple(_flatten(part, room - 1) for part in value)


def _encode(value: Any) -> str:
    return _ENCODER.encode(to_wire(value))


_LARGE = 512
"""Length in characters from which texts are packed."""

_WIDE = 1.5
"""Bytes per character from which a text is wide. Latin-1 takes one byte, the rest of the Basic Multilingual Plane two."""


def packed_item(item: items.ResponseItem) -> items.ResponseItem:
    """Return an equal item that needs less memory: long texts are kept only as the item's JSON, which a request needs anyway.

    A text with a single character beyond the Basic Multilingual Plane takes four bytes for each of its characters. Outputs are
    always packed. Other items are read more often, so they are packed only if their texts are wide.
    """
    if isinstance(item, items.UnknownItem | items.LocalShellCall | items.Reasoning) or items.PACKED in item.__dict__:
        return item
    is_output = isinstance(item, items.OutputItem)
    texts = [text for name in item.long_fields for text in _long_texts(item.__dict__[name])]
    length = sum(map(len, texts))
    if not length or _has_image(item) or not (is_output or sum(map(sys.getsizeof, texts)) > _WIDE * length):
        return item
    import copy

    slim = copy.copy(item)
    for name in item.long_fields:
        del slim.__dict__[name]
    slim.__dict__[items.PACKED] = encode_item(item)
    return slim


def _has_image(item: items.ResponseItem) -> bool:
    """Return whether an item has an image, whose size is not estimated by its length."""
    parts = item.__dict__.get("content") or item.__dict__.get("output")
    return isinstance(parts, tuple) and any(isinstance(part, items.InputImage) for part in parts)


def _long_texts(value: Any) -> Iterator[str]:
    """Return the long texts in a field of an item."""
    if isinstance(value, str):
        if len(value) >= _LARGE:
            yield value
    elif isinstance(value, Value):
        yield from _long_texts(value.__dict__)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _long_texts(part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _long_texts(part)


def read_item(raw: Mapping[str, Any]) -> items.ResponseItem:
    """Read a ``ResponseItem`` from its JSON object. Never fails: an object that does not fit becomes an :class:`UnknownItem`.

    Items are read by hand, not by cattrs, because this happens between the first response and the first tool call, and importing
    cattrs takes longer than most tools.
    """
    kind = _item_variants().get(str(raw.get("type")))
    item = None if kind is None else _by_hand(kind, raw)
    return items.UnknownItem(dict(raw)) if item is None else cast("items.ResponseItem", item)


items.Packable.unpack = staticmethod(lambda packed: read_item(json.loads(packed)))

_NEEDED = ("message", "function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
"""The kinds of items that a complete response must not lack: the model's messages and calls."""


def item_fault(item: items.UnknownItem) -> str | None:
    """Return why an item of a response cannot be used, such as ``a function_call without `call_id```, or None if it can.

    Items of unknown kinds can be used. An item without a kind, and a message or call that cannot be read, cannot: the
    conversation would be incomplete, and no server would accept it.
    """
    tag = item.kind
    if not tag:
        return "an item without a type"
    if tag not in _NEEDED:
        return None
    if tag == "tool_search_call":
        is_whole = item.raw.get("execution") != "client" or isinstance(item.raw.get("call_id"), str)
        return None if is_whole else f"a {tag} without `call_id`"
    for name, reader in _field_readers(_item_variants()[tag]).items():  # type: ignore[arg-type]  # classes are hashable
        part = item.raw.get(name)
        if part is not None and reader(part) is None:
            return f"a {tag} with a wrong `{name}`"
    missing = [name for name in _required_names(_item_variants()[tag]) if item.raw.get(name) is None]  # type: ignore[arg-type]
    return f"a {tag} without `{missing[0]}`" if missing else f"a {tag} that cannot be read"


def read_event(raw: Mapping[str, Any], more: Mapping[str, type[events.EventMsg]] = _NO_KINDS) -> events.EventMsg:
    """Read an ``EventMsg`` from its JSON object. An object that does not fit becomes an :class:`UnknownEvent`.

    Args:
        more: Events of plugins, by tag.
    """
    kinds = _event_variants()
    kind = kinds.get(str(raw.get("type"))) or more.get(str(raw.get("type")))
    return events.UnknownEvent(dict(raw)) if kind is None else _lenient(raw, kind)


def read_op(raw: Mapping[str, Any], more: Mapping[str, type[ops.Op]] = _NO_KINDS) -> ops.Op:
    """Read an ``Op`` from its JSON object.

    Args:
        more: Ops of plugins, by tag. Built-in tags cannot be replaced.

    Raises:
        WireError: The variant is unknown or its fields do not fit.
    """
    variants = {**more, **variants_of(ops.KernelOp)}
    kind = variants.get(str(raw.get("type")))
    if kind is None:
        raise WireError(f"unknown op {raw.get('type')!r}", hint=f"use one of: {', '.join(sorted(variants))}")
    return cast("ops.Op", read(kind, raw))


def read(kind: type[T], raw: Any, *, where: str = "$") -> T:
    """Read a value of an attrs class (or any type that cattrs can structure) from plain JSON data.

    Raises:
        WireError: The data do not fit. The fact has one line per fault, with its path.
    """
    import cattrs

    from codex_framework.contract.protocol.structuring import converter, fault

    try:
        return cast("T", converter().structure(raw, kind))
    except Exception as error:
        lines = cattrs.transform_error(error, path=where, format_exception=fault)
        raise WireError("; ".join(lines)) from error


def _object_to_wire(value: Any) -> dict[str, Any]:
    kind = type(value)
    tag = getattr(kind, "type", None)
    wire: dict[str, Any] = {"type": tag} if isinstance(tag, str) and tag else {}
    for name, word in wire_fields(kind):  # type: ignore[arg-type]  # classes are hashable
        part = getattr(value, name)
        if part is None:
            if name in getattr(kind, "nulls", ()):
                wire[word] = None
            continue
        if name == "extra":
            for key, kept in part.items():
                wire.setdefault(key, kept)
        else:
            wire[word] = part if type(part) in _PLAIN else to_wire(part)
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


def _envelope_to_wire(value: events.Event) -> dict[str, Any]:
    """Return Codex's envelope with the event's number, and with the request's id, which has different names in the events."""
    wire = {"id": value.id, "msg": to_wire(value.msg), "number": value.number}
    if value.thread_id:
        wire["thread_id"] = value.thread_id
    if isinstance(value.msg, events.Request | events.RequestResolvedEvent):
        wire["request_id"] = value.msg.request_id
    return wire


def _command_end_to_wire(value: events.ExecCommandEndEvent) -> dict[str, Any]:
    wire = _object_to_wire(value)
    seconds = wire.pop("duration_s")
    wire["duration"] = {"secs": int(seconds), "nanos": int((seconds % 1) * 1e9)}
    return wire


def _sandbox_request_to_wire(
    value: events.ExecApprovalRequestEvent | events.ApplyPatchApprovalRequestEvent,
) -> dict[str, Any]:
    wire = _object_to_wire(value)
    if not value.without_sandbox:  # Codex's form, which has no such field
        del wire["without_sandbox"]
    return wire


def _by_hand(kind: type[Any], raw: Mapping[str, Any]) -> Any:
    """Return a value of an item or content class, or None if the object does not fit it."""
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


@cache
def _required_names(kind: type[Any]) -> list[str]:
    return [field.name for field in fields_of(kind) if field.required]


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
"""Readers for the fields of an item, by annotation. A reader returns None if the value does not fit."""


_WRITERS: dict[type, Callable[[Any], Any]] = {
    items.UnknownItem: _raw_to_wire,
    items.UnknownContent: _raw_to_wire,
    ops.UnknownInput: _raw_to_wire,
    events.UnknownEvent: _raw_to_wire,
    events.Event: _envelope_to_wire,
    policies.ReviewDecision: _decision_to_wire,
    policies.GranularApproval: lambda value: {"granular": _object_to_wire(value)},
    events.ExecCommandEndEvent: _command_end_to_wire,
    events.ExecApprovalRequestEvent: _sandbox_request_to_wire,
    events.ApplyPatchApprovalRequestEvent: _sandbox_request_to_wire,
    permissions.SpecialPath: _special_to_wire,
}


@cache
def _content_variants() -> dict[str, type[Any]]:
    return variants_of(items.ContentItem)


@cache
def _item_variants() -> dict[str, type[Any]]:
    return variants_of(items.ResponseItem)


@cache
def _event_variants() -> dict[str, type[Any]]:
    return variants_of(events.KernelEvent) | {
        "turn_started": events.TurnStartedEvent,
        "turn_complete": events.TurnCompleteEvent,
    }


def _lenient(raw: Mapping[str, Any], kind: type[events.EventMsg]) -> events.EventMsg:
    from codex_framework.contract.protocol.structuring import converter

    try:
        return cast("events.EventMsg", converter().structure(raw, kind))
    except Exception:  # cattrs raises groups of many kinds; whatever does not fit is kept as it came
        return events.UnknownEvent(dict(raw))
