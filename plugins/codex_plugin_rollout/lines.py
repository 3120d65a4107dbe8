"""The lines of a rollout file. Each is a JSON object ``{"timestamp", "type", "payload"}`` (spec: rollout files)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from codex_framework.contract.protocol.events import EventMsg, UnknownEvent
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.contract.protocol.wire import encode_item, encode_json
from codex_framework.contract.roles.stores import (
    CompactedEntry,
    EventEntry,
    ItemEntry,
    MetaEntry,
    PluginEntry,
    ThreadEntry,
    ThreadMeta,
)

__all__ = ["entry_line", "event_line", "meta_from_wire", "meta_line", "numbered_line", "timestamp"]

_PERSISTED_UNKNOWN = frozenset(
    {
        "agent_reasoning_raw_content",
        "context_compacted",
        "entered_review_mode",
        "exited_review_mode",
        "image_generation_end",
        "mcp_tool_call_end",
        "sub_agent_activity",
        "thread_goal_updated",
        "thread_rolled_back",
        "web_search_end",
    }
)
"""Types of events that are saved although the framework has no class for them. Event classes decide for themselves."""

_SOURCE_DETAIL = "source_detail"
"""The key of ``ThreadMeta.extra`` for a source that is more than a name, such as ``{"subagent": "review"}``."""

_SOURCES = frozenset({"cli", "vscode", "exec", "mcp", "appServer", "unknown"})
"""The sources that Codex knows by a word. It cannot read a file with the word ``custom``: others are ``{"custom": NAME}``."""

_STAMP_LENGTH = len('{"timestamp":"2026-11-20T18:27:41.623Z",')
_OMITTED_ITEMS = frozenset({"compaction_trigger", "other"})
_META_FIELDS = frozenset(
    {
        "id",
        "forked_from_id",
        "timestamp",
        "cwd",
        "originator",
        "cli_version",
        "source",
        "model_provider",
        "base_instructions",
        "git",
    }
)


def timestamp(seconds: float) -> str:
    """Format Unix seconds as RFC 3339 in UTC with milliseconds: ``2026-11-20T18:27:41.623Z``."""
    millis = int(seconds * 1000)
    return f"{_whole_second(millis // 1000)}.{millis % 1000:03d}Z"


@lru_cache(maxsize=2)
def _whole_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def entry_line(entry: ThreadEntry, now: float) -> bytes | None:
    """Return the line for an entry, with its newline, or None if entries of this kind are not written."""
    if isinstance(entry, ItemEntry):
        if isinstance(entry.item, UnknownItem) and entry.item.kind in _OMITTED_ITEMS:
            return None
        payload = entry.encoded if entry.encoded is not None else encode_item(entry.item)
        return _line(now, "response_item", payload)
    if isinstance(entry, EventEntry):
        return event_line(entry.msg, now) if _is_persisted(entry.msg) else None
    if isinstance(entry, PluginEntry):
        return _line(now, "plugin_entry", _encode_value(entry))
    if isinstance(entry, CompactedEntry):
        replaced = {"message": entry.message, "replacement_history": list(entry.items)}
        return _line(now, "compacted", _encode_value(replaced))
    if isinstance(entry, MetaEntry):
        return None  # `Head` has the whole head, which a line of this kind repeats
    return _line(now, "turn_context", _encode_value(entry.payload))


def event_line(event: EventMsg | Mapping[str, Any], now: float) -> bytes:
    """Return the line for an event, with its newline."""
    return _line(now, "event_msg", _encode_value(event))


def numbered_line(line: bytes, ordinal: int) -> bytes:
    """Add an ``ordinal`` to a line, as newer Codex versions do."""
    return b'%b"ordinal":%d,%b' % (line[:_STAMP_LENGTH], ordinal, line[_STAMP_LENGTH:])


def meta_line(meta: ThreadMeta, git: Mapping[str, Any] | None, now: float) -> bytes:
    """Return the first line of a file."""
    payload: dict[str, Any] = {"session_id": meta.id, "id": meta.id}
    if meta.forked_from_id is not None:
        payload["forked_from_id"] = meta.forked_from_id
    payload |= {
        "timestamp": timestamp(meta.created_at),
        "cwd": meta.cwd,
        "originator": meta.originator,
        "cli_version": meta.cli_version,
        "source": _source(meta),
        "model_provider": meta.model_provider,
    }
    if meta.base_instructions is not None:
        payload["base_instructions"] = {"text": meta.base_instructions}
    payload |= {key: value for key, value in meta.extra.items() if key not in _META_FIELDS | {_SOURCE_DETAIL}}
    if git:
        payload["git"] = git
    return _line(now, "session_meta", _encode_value(payload))


def meta_from_wire(payload: Mapping[str, Any], fallback_time: float) -> ThreadMeta:
    """Return the metadata of a thread from a ``session_meta`` payload that has an ``id``.

    Fields of the wrong type get defaults. Unknown fields go to ``extra``.
    """
    extra = {key: value for key, value in payload.items() if key not in _META_FIELDS}
    source = payload.get("source")
    if isinstance(source, Mapping) and isinstance(source.get("custom"), str):
        source = source["custom"]
    if isinstance(source, Mapping):  # the key of {"subagent": ...} is the kind
        extra[_SOURCE_DETAIL] = source
        source = next(iter(source), "unknown")
    instructions = payload.get("base_instructions")
    git = payload.get("git")
    return ThreadMeta(
        id=str(payload["id"]),
        cwd=_text(payload, "cwd"),
        created_at=_seconds(_text(payload, "timestamp"), fallback_time),
        originator=_text(payload, "originator"),
        source=source if isinstance(source, str) else "unknown",
        cli_version=_text(payload, "cli_version"),
        model_provider=_text(payload, "model_provider"),
        base_instructions=(_text(instructions, "text") or None) if isinstance(instructions, Mapping) else None,
        forked_from_id=_text(payload, "forked_from_id") or None,
        git=git if isinstance(git, Mapping) else None,
        extra=extra,
    )


def _source(meta: ThreadMeta) -> str | Mapping[str, Any]:
    """Return the source as Codex writes it: a word, ``{"subagent": ...}`` for a sub-agent, or ``{"custom": NAME}``."""
    detail = meta.extra.get(_SOURCE_DETAIL)
    if isinstance(detail, Mapping):
        return detail
    if meta.source != "subagent":
        return meta.source if meta.source in _SOURCES else {"custom": meta.source}
    agent = meta.extra.get("agent")
    return {"subagent": {"other": agent if isinstance(agent, str) else "agent"}}


def _line(now: float, kind: str, payload: bytes) -> bytes:
    return b'{"timestamp":"%b","type":"%b","payload":%b}\n' % (timestamp(now).encode(), kind.encode(), payload)


def _encode_value(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8.

    A lone surrogate (from a file name that is not UTF-8) becomes ``?``, so that every program can read the line.
    """
    return encode_json(value).encode("utf-8", "replace")


def _is_persisted(msg: EventMsg) -> bool:
    return msg.kind in _PERSISTED_UNKNOWN if isinstance(msg, UnknownEvent) else msg.is_kept()


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _seconds(text: str, fallback: float) -> float:
    from datetime import UTC, datetime

    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return fallback
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
