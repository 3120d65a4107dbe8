"""The sentences about who did what."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework.contract.roles.provenance import Actor, Provenance
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_provenance.session import Item, Note

__all__ = ["changes_of", "duration", "sentence", "shortened", "titled"]

_LONGEST = 160
_MOST = 8
"""How many places of a patch a sentence names."""

_INDEX = re.compile("[0-9]{1,15}")

_LISTS = {"items": "item", "context": "context text"}
"""The lists of documents whose elements a sentence counts."""

_WHAT = {
    "input": "the input",
    "request": "the request",
    "call": "the call",
    "output": "the output",
    "item": "the model's item",
    "stop": "the end of the turn",
    "compaction": "the compaction",
    "approval": "the call",
    "text": "texts",
    "context": "context",
}


def sentence(note: Note) -> str:
    """Return the sentence for a note, in one line."""
    record = note.record
    text = _clause(note)
    if record.reason:
        text += f": {shortened(record.reason)}"
    causes = record.by.causes
    if causes:
        text += f" [because of {'; '.join(map(shortened, causes))}]"
    if record.seconds is not None:
        text += f" ({duration(record.seconds)})"
    if not note.recorded:
        text += " (inferred; not recorded)" if record.did != "added" else ""
    return printable(text)


def _clause(note: Note) -> str:
    record = note.record
    match record.did:
        case "changed":
            return _change_sentence(note)
        case "refused":
            return f"{_who(record.by)} refused {_what(record)}"
        case "stopped":
            return f"{_who(record.by)} ended the turn at {_what(record)}"
        case "decided":
            return f"{_who(record.by)} answered {(record.decision or '').replace('_', ' ')!r} for {_what(record)}"
        case "redacted":
            return f"{_who(record.by)} redacted texts at {_places(record.withheld)}"
        case "added":
            return _addition_sentence(note)
        case "compacted":
            return f"{_who(record.by)} compacted the history"


def _who(by: Actor) -> str:
    if by.role == "user":
        return "the user"
    if by.role == "nobody":
        return "no user was there to answer, so the kernel"
    if by.role == "unknown":
        return "somebody"
    named = f"{by.role} {by.name}" if by.name else by.role if by.role != "component" else ""
    owner = "" if not by.plugin or by.role == "plugin" else f"plugin {by.plugin}"
    if not named:
        return owner or "the kernel"
    article = "the " if by.role in ("kernel", "sandbox", "permissions", "client") and not by.name else ""
    return f"{article}{named} ({owner})" if owner else f"{article}{named}"


def _what(record: Provenance) -> str:
    if record.what in ("call", "output", "approval") and record.tool:
        return f"{_WHAT[record.what]} of {record.tool}"
    return _WHAT.get(record.what, record.what)


def _change_sentence(note: Note) -> str:
    record = note.record
    if record.what == "stop":
        return f"{_who(record.by)} continued the turn with a message"
    if note.patch is None:
        return f"{_who(record.by)} changed {_what(record)}"
    since = f" from request {record.sample} of the turn on" if record.sample else ""
    if not note.patch:
        return f"{_who(record.by)} no longer changed the request{since}"
    return f"{_who(record.by)} {'; '.join(_patch_effects(record.what, note.patch))} in {_what(record)}{since}"


def _patch_effects(what: str, patch: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the effects of a patch: on tools, on items, and on other places."""
    groups: dict[str, list[str]] = {}
    for operation in patch:
        path = str(operation.get("path", ""))
        op = str(operation.get("op"))
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]] or [""]
        word = {"add": "added", "remove": "removed"}.get(op, "changed")
        if what == "request" and parts[:1] == ["tool_order"]:
            continue
        if what == "request" and parts[:1] == ["tools"] and len(parts) > 1:
            names = groups.setdefault(f"{word if len(parts) == 2 else 'changed'} tool", [])
            names += [parts[1]] if parts[1] not in names else []
        elif parts[0] in _LISTS and len(parts) > 1:
            numbers = groups.setdefault(f"{word if len(parts) == 2 else 'changed'} {_LISTS[parts[0]]}", [])
            numbers += [f"at {parts[1]}"] if f"at {parts[1]}" not in numbers else []
        else:
            groups.setdefault(word, []).append(path or "all of it")
    for head, names in groups.items():
        plural = "s" if head.endswith((" tool", " item", " text")) and len(names) > 1 else ""
        yield f"{head}{plural} {_places(names)}"
    if not groups:
        yield "changed the order of the tools"


def _addition_sentence(note: Note) -> str:
    record = note.record
    if not record.sources:
        count = len(record.items)
        what = {"delivery": "delivered", "record": "recorded"}.get(record.what, "added")
        return f"{_who(record.by)} {what} {count} item{'' if count == 1 else 's'}"
    names = [f"{_actor_name(source.by)} (part {source.part + 1}{_took(source.seconds)})" for source in record.sources]
    return f"context from {_places(names)}"


def _actor_name(by: Actor) -> str:
    return f"{by.name} of plugin {by.plugin}" if by.plugin else by.name or by.role


def _took(seconds: float | None) -> str:
    return "" if seconds is None else f", {duration(seconds)}"


def _places(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def changes_of(note: Note, before: Any) -> Iterator[str]:
    """Yield the replacements of a patch of a call or an item, as ``/place: old -> new``.

    Args:
        before: The document before the patch, if known.
    """
    withheld = set(note.record.withheld)
    for operation in note.patch or ():
        path = str(operation.get("path", ""))
        old = _value_at(before, path) if before is not None else None
        if operation.get("op") == "remove":
            yield printable(f"{path}: {_value(old)} removed" if old is not None else f"{path}: removed")
            continue
        new = (
            "(not recorded)" if path in withheld and operation.get("value") is None else _value(operation.get("value"))
        )
        change = f"{path}: {_value(old)} -> {new}" if old is not None else f"{path}: {new}"
        yield printable(f"{change} (redacted)" if path in withheld and operation.get("value") is not None else change)


def _value_at(document: Any, path: str) -> Any:
    for part in path.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list) and _INDEX.fullmatch(name) and int(name) < len(document):
            document = document[int(name)]
        else:
            return None
    return document


def _value(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False))


def duration(seconds: float) -> str:
    """Return a duration for people."""
    if seconds < 0.0095:
        return f"{seconds * 1000:.2g} ms" if seconds >= 0.00005 else "less than 0.1 ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return the first line of a text, and at most some characters of it."""
    line = text.strip().partition("\n")[0]
    whole = len(line) <= longest and line == text.strip()
    return line if whole else f"{line[:longest].rstrip()}..."


def titled(item: Item) -> str:
    """Return a title of an item, in one line."""
    if item.is_call:
        return f"call of {item.tool or item.kind} ({item.call_id})"
    if item.is_output:
        return f"output of {item.call_id}"
    return f"{item.role} message" if item.kind == "message" else item.kind
