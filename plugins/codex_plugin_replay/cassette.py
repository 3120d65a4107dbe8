"""Cassettes: the requests to a model provider and its answers, as JSON lines.

    {"cassette": 1, "provider": "openai"}
    {"part": "3f9a...", "value": {...}}
    {"request": {"model", "properties", "instructions", "tools", "input": [digests]}, "events": [...], "error"?: {...}}

A ``part`` is an item, the instructions, the tools or the properties of the model. It is written once, and requests refer to it
by its digest.

The kernel records them where a provider's table says ``record = "path"`` (see ``recording.py``); the ``replay`` plugin
plays them. A request finds its answer by its content, not by its position. Differences between runs (ids, times, temporary paths)
are ignored.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from codex_framework.contract.errors import ConfigError, ModelError, described
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.wire import read_item, to_wire
from codex_framework.contract.roles.models import (
    AnsweredBy,
    Completed,
    ItemAdded,
    ItemDone,
    LeftOut,
    ModelEvent,
    ModelInfo,
    ModelNotice,
    ModelPrices,
    ModelRequest,
    ModelWarning,
    RateLimits,
    ReasoningDelta,
    ReasoningPartAdded,
    TextDelta,
    ToolInputDelta,
)
from codex_framework.contract.value import Value, fields_of
from codex_framework.testing.scripted import pieces
from codex_framework.toolkit.regular_files import open_regular

__all__ = ["MATCHES", "Cassette", "CassetteMissError", "Exchange", "digest", "events_from_wire", "events_to_wire"]

T = TypeVar("T")

VERSION = 1
MATCHES = ("input", "strict", "order")
"""The parts that must match: the words of user, model and tools; the whole request; nothing (answers in recorded order)."""

KNOWN_SHAPES = (
    r"\bsk-[\w-]{16,}|\bgh[opsur]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[abpr]-[\w-]{10,}|(?<=Bearer )[\w.~+/=-]{16,}"
)
"""Patterns of texts that count as secrets because of their form."""

_DIFF_LINES = 60


class CassetteMissError(ModelError):
    """No recorded request matches this one."""

    slug = "cassette-miss"


class Exchange(Value):
    """A recorded request and its answer.

    Attributes:
        properties: The properties of the model. None if an older recording does not have them.
    """

    model: str
    instructions: str
    tools: Sequence[Any]
    items: Sequence[Mapping[str, Any]]
    events: Sequence[ModelEvent]
    error: ModelError | None = None
    properties: ModelInfo | None = None


class Cassette:
    """The exchanges of one file. Each is played once; threads may share a cassette.

    Args:
        match: One of :data:`MATCHES`.

    Attributes:
        compacts: Whether the server was asked to compact a conversation (``compaction_trigger``).
    """

    def __init__(self, path: Path, exchanges: Iterable[Exchange], *, match: str = "input") -> None:
        self.path = path
        self._match = match
        self._texts: dict[int, tuple[object, str]] = {}
        self._unplayed = [(exchange, self._request_texts(exchange, exchange.items)) for exchange in exchanges]
        self._count = len(self._unplayed)
        self.compacts = any(
            one.items and one.items[-1].get("type") == "compaction_trigger" for one, _ in self._unplayed
        )
        self._models = {one.model: one.properties for one, _ in self._unplayed if one.properties is not None}
        self._lock = threading.Lock()

    @classmethod
    def read(cls, path: Path, *, match: str = "input") -> Cassette:
        """Read a cassette from its file.

        Raises:
            ConfigError: The file cannot be read or is not a cassette, or ``match`` is unknown.
        """
        if match not in MATCHES:
            raise ConfigError(f"match = {match!r} is unknown", key="match", hint=f"Use one of: {', '.join(MATCHES)}.")
        try:
            with open(path, encoding="utf-8", opener=open_regular) as file:
                text = file.read()
        except (OSError, ValueError) as error:
            hint = 'Write the path of a recorded file; record one by record = "PATH" in the table of another provider.'
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"the cassette {path} cannot be read: {reason}", path=str(path), hint=hint) from error
        exchanges = _exchanges(path, text)
        try:
            return cls(path, exchanges, match=match)
        except RecursionError as error:  # some depths can be read but not compared
            fact = f"{path} is not a cassette: a value in it is nested too deeply"
            raise ConfigError(fact, path=str(path), hint="Record it again.") from error

    @property
    def unplayed(self) -> int:
        """The number of exchanges that have not been played yet."""
        return len(self._unplayed)

    def model(self, slug: str) -> ModelInfo | None:
        """Return the recorded properties of a model, or None."""
        return self._models.get(slug)

    def play(self, request: ModelRequest) -> Exchange:
        """Return the answer to a request.

        Raises:
            CassetteMissError: No answer was recorded. The text shows the differences to the most similar recorded request.
        """
        tools = [to_wire(spec) for spec in request.tools]
        asked = self._request_texts(
            Exchange(request.model.slug, request.instructions, tools, (), ()), request.prompt.items
        )
        with self._lock:
            for index, (exchange, said) in enumerate(self._unplayed):
                if self._match == "order" or said == asked:
                    del self._unplayed[index]
                    return exchange
            raise self._miss(asked)

    def _request_texts(self, exchange: Exchange, items: Iterable[object]) -> list[str]:
        """Return the relevant parts of a request, as texts."""
        if self._match == "order":
            return []
        texts = [text for item in items if (text := self._text(item))]
        if self._match == "input":
            return texts
        return [exchange.model, _neutral(exchange.instructions), _comparable(list(exchange.tools)), *texts]

    def _text(self, item: object) -> str:
        """Return the text of an item, empty if it is not relevant. Items stay the same objects, so each is converted once.

        The item is kept, so that no other one gets its id.
        """
        known = self._texts.get(id(item))
        if known is None:
            wire = to_wire(item)
            counts = self._match == "strict" or not _is_setting(wire)
            known = (item, _comparable(wire) if counts else "")
            self._texts[id(item)] = known
        return known[1]

    def _miss(self, asked: list[str]) -> CassetteMissError:
        hint = f"If the change is intended, delete {self.path} and record it again."
        if not self._unplayed:
            fact = f"the cassette {self.path} has {self._count} answers, and all of them are played"
            return CassetteMissError(fact, info="bad_request", hint=hint)
        import difflib

        nearest = max((said for _, said in self._unplayed), key=lambda said: _agreement(said, asked))
        lines = list(
            difflib.unified_diff(
                "\n".join(nearest).split("\n"), "\n".join(asked).split("\n"), "recorded", "asked", n=2, lineterm=""
            )
        )
        shown = lines[:_DIFF_LINES]
        if len(lines) > _DIFF_LINES:
            shown.append(f"... {len(lines) - _DIFF_LINES} more lines differ")
        fact = f"the cassette {self.path} has no answer to this request; the nearest recorded one differs:\n"
        return CassetteMissError(fact + "\n".join(shown), info="bad_request", hint=hint)


def _agreement(said: Sequence[str], asked: Sequence[str]) -> tuple[int, int]:
    """Return how similar two requests are: first by the length of their common start, then by the number of common parts."""
    same = 0
    while same < min(len(said), len(asked)) and said[same] == asked[same]:
        same += 1
    return same, len(set(said) & set(asked)) - abs(len(said) - len(asked))


def digest(value: Any) -> str:
    """Return the name of a part, which is the same for the same JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def _exchanges(path: Path, text: str) -> list[Exchange]:
    parts: dict[str, Any] = {}
    found: list[Exchange] = []
    # Text after the last line end is the rest of an interrupted write.
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict):
                raise TypeError("it is not an object")
            if number == 1 and entry["cassette"] != VERSION:
                raise ValueError(f"version {entry['cassette']} is not supported")
            if "part" in entry:
                parts[entry["part"]] = entry["value"]
            elif "request" in entry:
                found.append(_exchange(entry, parts))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = described(error)
            raise ConfigError(
                f"{path} is not a cassette: line {number}: {reason}",
                path=str(path),
                line=number,
                hint="Record it again.",
            ) from error
    if not found:
        raise ConfigError(f"the cassette {path} contains no answer", path=str(path), hint="Record it again.")
    return found


def _exchange(entry: Mapping[str, Any], parts: Mapping[str, Any]) -> Exchange:
    request = entry["request"]
    error = entry.get("error")
    return Exchange(
        _a(str, request["model"]),
        _a(str, parts[request["instructions"]]),
        _a(list, parts[request["tools"]]),
        [_a(dict, parts[name]) for name in request["input"]],
        list(events_from_wire(entry["events"])),
        None if error is None else _error(error),
        _properties(parts[request["properties"]]) if "properties" in request else None,
    )


def _error(fields: Mapping[str, Any]) -> ModelError:
    """Return the error with which a response ended."""
    for name in ("fact", "slug", "hint"):
        _a(str, fields.get(name) or "")
    wait = fields.get("retry_after_s")
    if wait is not None and (not isinstance(wait, int | float) or not 0 <= wait < math.inf):
        raise ValueError("retry_after_s must be a number of seconds")
    return ModelError(**fields)


def _a(kind: type[T], value: Any) -> T:
    """Return a value of the file.

    Raises:
        TypeError: It is of another kind.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} expected, found {type(value).__name__}")
    return value


def _properties(value: Mapping[str, Any]) -> ModelInfo:
    """Return the properties of a model. Properties that only another version has are left out."""
    known = {field.name for field in fields_of(ModelInfo)}
    given = {name: part for name, part in value.items() if name in known}
    if isinstance(given.get("prices"), Mapping):
        given["prices"] = ModelPrices(**given["prices"])
    fields: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in given.items()}
    return ModelInfo(**fields)


def _is_setting(item: Mapping[str, Any]) -> bool:
    """Return whether an item is context about the model's environment and therefore not part of the conversation."""
    if item.get("role") == "developer":
        return True
    content = item.get("content")
    first = content[0] if item.get("role") == "user" and isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, Mapping) else None
    return str(text).startswith(("<environment_context>", "# AGENTS.md instructions"))


def _comparable(value: Any) -> str:
    return _neutral(json.dumps(_without_ids(value), indent=1, ensure_ascii=False, sort_keys=True).replace("\\n", "\n"))


def _without_ids(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: part
            for key, part in value.items()
            if key not in ("id", "encrypted_content", "internal_chat_message_metadata_passthrough")
        }
    return value


_NEUTRAL = [
    (re.compile(pattern), word)
    for pattern, word in (
        (rf"<secret:[^<>\n]{{0,200}}>|{KNOWN_SHAPES}", "<secret>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
        (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<date>"),
        (r"Chunk ID: \w+", "Chunk ID: <id>"),
        (r"session ID \d+", "session ID <id>"),
        (r"(?<!\d)\d{1,20}(?:\.\d{1,20})? ?(?:ms|seconds|s)\b", "<time>"),
        # pytest's folders have the number of the run in their names, and that of the process if tests run in parallel.
        (
            r"(?:/private)?(?:/tmp|/var/folders/\w\w/\w+/T)/(?:pytest-of-[\w.-]+/pytest-\d+/(?:popen-gw\d+/)?)?[\w.-]+",
            "<tmp>",
        ),
    )
]


def _neutral(text: str) -> str:
    """Return the text without details that differ between runs."""
    for pattern, word in _NEUTRAL:
        text = pattern.sub(word, text)
    return text


Recorded: TypeAlias = (
    ItemAdded | ItemDone | TextDelta | ReasoningDelta | ReasoningPartAdded | ToolInputDelta | RateLimits | Completed
)

_DELTAS: dict[str, type[TextDelta | ReasoningDelta | ToolInputDelta]] = {
    "text_deltas": TextDelta,
    "reasoning_deltas": ReasoningDelta,
    "tool_input_deltas": ToolInputDelta,
}


def events_to_wire(events: Iterable[ModelEvent]) -> list[dict[str, Any]]:
    """Return events as JSON.

    Consecutive deltas become one text with the number of pieces, which are played back with equal lengths.
    """
    found: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, (LeftOut, AnsweredBy, ModelNotice, ModelWarning)):
            continue  # about the request and its provider, not about the answer
        wire = _event_to_wire(event)
        last = found[-1] if found else {}
        if "pieces" in wire and {**wire, "text": "", "pieces": 0} == {**last, "text": "", "pieces": 0}:
            last["text"] += wire["text"]
            last["pieces"] += 1
        else:
            found.append(wire)
    return found


def _event_to_wire(event: Recorded) -> dict[str, Any]:
    match event:
        case ItemAdded(item):
            return {"type": "item_added", "item": to_wire(item)}
        case ItemDone(item):
            return {"type": "item_done", "item": to_wire(item)}
        case TextDelta(item_id, delta):
            return {"type": "text_deltas", "item_id": item_id, "text": delta, "pieces": 1}
        case ToolInputDelta(item_id, delta):
            return {"type": "tool_input_deltas", "item_id": item_id, "text": delta, "pieces": 1}
        case ReasoningDelta(item_id, delta, index, raw):
            rest = {"index": index, "raw": raw, "text": delta, "pieces": 1}
            return {"type": "reasoning_deltas", "item_id": item_id, **rest}
        case ReasoningPartAdded(item_id, index):
            return {"type": "reasoning_part_added", "item_id": item_id, "index": index}
        case RateLimits(snapshot):
            return {"type": "rate_limits", "snapshot": dict(snapshot)}
        case Completed(response_id, usage, end_turn):
            end = {} if end_turn is None else {"end_turn": end_turn}
            counted = {} if usage is None else {"usage": to_wire(usage)}
            return {"type": "completed", "response_id": response_id, **counted, **end}


def events_from_wire(wires: Iterable[Mapping[str, Any]]) -> Iterator[ModelEvent]:
    """Return the events that :func:`events_to_wire` wrote.

    Raises:
        ValueError, KeyError, TypeError: One of them is not an event.
    """
    for wire in wires:
        kind = wire["type"]
        if kind in _DELTAS:
            rest = {key: wire[key] for key in ("index", "raw") if key in wire}
            for piece in pieces(_a(str, wire["text"]), wire["pieces"]):
                yield _DELTAS[kind](_a(str, wire["item_id"]), piece, **rest)
        else:
            yield _event_from_wire(kind, wire)


def _event_from_wire(kind: str, wire: Mapping[str, Any]) -> ModelEvent:
    match kind:
        case "item_added":
            return ItemAdded(_item(wire))
        case "item_done":
            return ItemDone(_item(wire))
        case "reasoning_part_added":
            return ReasoningPartAdded(wire["item_id"], wire["index"])
        case "rate_limits":
            return RateLimits(_a(dict, wire["snapshot"]))
        case "completed":
            usage = wire.get("usage")
            counted = None if usage is None else TokenUsage(**{key: _a(int, count) for key, count in usage.items()})
            return Completed(wire["response_id"], counted, wire.get("end_turn"))
        case _:
            raise ValueError(f"unknown event {kind!r}")


def _item(wire: Mapping[str, Any]) -> ResponseItem:
    return read_item(_a(dict, wire["item"]))
