"""Threads and entries as rows."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import ColumnElement

from codex_framework.contract.roles.stores import ThreadEntry, ThreadMeta
from codex_framework.toolkit.thread_records import encode_entry, encode_meta, searchable_text

__all__ = ["clean_text", "entry_row", "thread_row"]


def thread_row(meta: ThreadMeta, scope: str, now: ColumnElement[float]) -> dict[str, Any]:
    """Return the columns of a new thread that has no entries and no writer."""
    parent = meta.extra.get("parent_thread_id")
    return {
        "id": meta.id,
        "scope": scope,
        "cwd": clean_text(meta.cwd),
        "created_at": meta.created_at,
        "updated_at": now,
        "archived": False,
        "parent_id": parent if isinstance(parent, str) else None,
        "meta": encode_meta(meta),
        "entries": 0,
    }


def entry_row(entry: ThreadEntry) -> dict[str, Any]:
    """Return the columns of an entry, but for its thread and number."""
    kind, payload = encode_entry(entry)
    words = searchable_text(entry)
    return {
        "at": time.time(),
        "kind": kind,
        "payload": payload,
        "words": None if words is None else clean_text(words.casefold()),
    }


def clean_text(text: str) -> str:
    """Return a text that PostgreSQL can store: without NUL characters and lone surrogates. JSON escapes a NUL, so it keeps it."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
