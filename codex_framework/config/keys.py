"""Dotted keys, as in ``-c`` and error messages: ``model_providers."my proxy".base_url``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["format_key", "lookup", "merge", "nest_value", "split_key"]

_BARE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_SEGMENT = r"""\s*(?:"(?P<basic>(?:[^"\\]|\\.)*)"|'(?P<literal>[^']*)'|(?P<bare>[^.'"]+))\s*(?P<end>\.|$)"""


@lru_cache(maxsize=512)
def split_key(key: str) -> tuple[str, ...]:
    """Split a dotted key into its segments. A segment in double or single quotes may contain dots.

    Raises:
        ValueError: A segment is empty, or a quote is not closed.
    """
    if '"' not in key and "'" not in key:
        parts = key.split(".")
        if not key.strip():
            raise ValueError("the key is empty")
        if not all(parts):
            raise ValueError(f"{key!r} is not a dotted key")
        return tuple(part.strip() for part in parts)
    segment_at = re.compile(_SEGMENT)
    segments: list[str] = []
    start = 0
    while True:
        match = segment_at.match(key, start)
        if match is None:
            raise ValueError(f"{key!r} is not a dotted key")
        basic = match["basic"]
        segment = json.loads(f'"{basic}"') if basic is not None else match["literal"] or (match["bare"] or "").strip()
        segments.append(segment)
        start = match.end()
        if not match["end"]:
            return tuple(segments)


def format_key(segments: Iterable[str | int]) -> str:
    """Return the key as one string: bare segments unchanged, others quoted, and positions in arrays as ``[0]``."""
    text = ""
    for segment in segments:
        if isinstance(segment, int):
            text += f"[{segment}]"
            continue
        word = segment if segment and not segment.strip(_BARE) else json.dumps(segment, ensure_ascii=False)
        text = f"{text}.{word}" if text else word
    return text


def lookup(table: Mapping[str, Any], segments: Iterable[str]) -> Any:
    """Return the value at a key, or None."""
    value: Any = table
    for segment in segments:
        if not isinstance(value, Mapping):
            return None
        value = value.get(segment)
    return value


def nest_value(segments: Iterable[str], value: Any) -> dict[str, Any]:
    """Return nested tables that contain one value at a key."""
    for segment in reversed(tuple(segments)):
        value = {segment: value}
    return dict(value)


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables into a new one: tables are merged recursively, and for other values ``high`` overrides ``low``."""
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged
