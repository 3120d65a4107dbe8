"""The lines of a rollout file: ``{"timestamp", "type", "payload"}``, one JSON object each (spec: rollout files)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from codex_framework.protocol.events import EventMsg, UnknownEvent
from codex_framework.protocol.items import UnknownItem
from codex_framework.protocol.wire import encode_item, encode_json
from codex_framework.roles.stores import EventEntry, ItemEntry, ThreadEntry, ThreadMeta

__all__ = ["KEPT_EVENTS", "entry_line", "meta_from_wire", "meta_line", "numbered_line", "timestamp"]

KEPT_EVENTS = frozenset(
    {
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "context_compacted",
        "entered_review_mode",
        "exited_review_mode",
        "image_generation_end",
        "mcp_tool_call_end",
        "patch_apply_end",
        "sub_agent_activity",
        "task_complete",
        "task_started",
        "thread_goal_updated",
        "thread_rolled_back",
        "token_count",
        "turn_aborted",
        "user_message",
        "web_search_end",
    }
)
"""Kinds of event that are written. ``item_completed`` is too, where its item is a plan. (Spec: rollout files, persisted kinds.)"""

_STAMP_LENGTH = len('{"timestamp":"2026-11-20T18:27:41.623Z",')
_LEFT_OUT_ITEMS = frozenset({"compaction_trigger", "other"})
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
    """Unix seconds as RFC 3339 in UTC with milliseconds: ``2026-11-20T18:27:41.623Z``."""
    millis = int(seconds * 1000)
    return f"{_whole_second(millis // 1000)}.{millis % 1000:03d}Z"


@lru_cache(maxsize=2)
def _whole_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def entry_line(entry: ThreadEntry, now: float) -> bytes | None:
    """The line for an entry, with its newline; None for what is not kept."""
    if isinstance(entry, ItemEntry):
        if isinstance(entry.item, UnknownItem) and entry.item.raw.get("type") in _LEFT_OUT_ITEMS:
            return None
        payload = entry.encoded if entry.encoded is not None else encode_item(entry.item)
        return _line(now, "response_item", payload)
    if isinstance(entry, EventEntry):
        return _line(now, "event_msg", _encoded(entry.msg)) if _is_kept(entry.msg) else None
    return _line(now, "turn_context", _encoded(entry.payload))


def numbered_line(line: bytes, ordinal: int) -> bytes:
    """A line with its ``ordinal``, as newer Codex versions number them."""
    return b'%b"ordinal":%d,%b' % (line[:_STAMP_LENGTH], ordinal, line[_STAMP_LENGTH:])


def meta_line(meta: ThreadMeta, git: Mapping[str, Any] | None, now: float) -> bytes:
    """The first line of a file."""
    payload: dict[str, Any] = {"session_id": meta.id, "id": meta.id}
    if meta.forked_from_id is not None:
        payload["forked_from_id"] = meta.forked_from_id
    payload |= {
        "timestamp": timestamp(meta.created_at),
        "cwd": meta.cwd,
        "originator": meta.originator,
        "cli_version": meta.cli_version,
        "source": meta.source,
        "model_provider": meta.model_provider,
    }
    if meta.base_instructions is not None:
        payload["base_instructions"] = {"text": meta.base_instructions}
    payload |= {key: value for key, value in meta.extra.items() if key not in _META_FIELDS}
    if git:
        payload["git"] = git
    return _line(now, "session_meta", _encoded(payload))


def meta_from_wire(payload: Mapping[str, Any], fallback_time: float) -> ThreadMeta:
    """The head of a thread from a ``session_meta`` payload with an ``id``. Mistyped fields get defaults; others go to ``extra``."""
    extra = {key: value for key, value in payload.items() if key not in _META_FIELDS}
    source = payload.get("source")
    if isinstance(source, Mapping):  # {"subagent": ...}: the kind is its key
        extra["source_detail"] = source
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


def _line(now: float, kind: str, payload: bytes) -> bytes:
    return b'{"timestamp":"%b","type":"%b","payload":%b}\n' % (timestamp(now).encode(), kind.encode(), payload)


def _encoded(value: Any) -> bytes:
    """JSON in UTF-8. A lone surrogate (a file name that is not UTF-8) becomes ``?``: a line must be readable by everybody."""
    return encode_json(value).encode("utf-8", "replace")


def _is_kept(msg: EventMsg) -> bool:
    kind = msg.raw.get("type") if isinstance(msg, UnknownEvent) else msg.type
    if kind in KEPT_EVENTS:
        return True
    if kind != "item_completed":
        return False
    item = msg.raw.get("item") if isinstance(msg, UnknownEvent) else getattr(msg, "item", None)
    return isinstance(item, Mapping) and item.get("type") == "Plan"


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _seconds(text: str, fallback: float) -> float:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return fallback
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
