"""Dotted keys, as ``-c`` and error messages write them: ``model_providers."my proxy".base_url``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["dotted", "lookup", "merge", "nested", "split_key"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SEGMENT = re.compile(r"""\s*(?:"(?P<basic>(?:[^"\\]|\\.)*)"|'(?P<literal>[^']*)'|(?P<bare>[^.'"]+))\s*(?P<end>\.|$)""")


def split_key(key: str) -> tuple[str, ...]:
    """The segments of a dotted key. A segment in double or single quotes may hold dots.

    Raises:
        ValueError: A segment is empty, or a quote is not closed.
    """
    if "." not in key and '"' not in key and "'" not in key:
        if not key.strip():
            raise ValueError("the key is empty")
        return (key.strip(),)
    segments: list[str] = []
    at = 0
    while True:
        match = _SEGMENT.match(key, at)
        if match is None:
            raise ValueError(f"{key!r} is not a dotted key")
        basic = match["basic"]
        segment = json.loads(f'"{basic}"') if basic is not None else match["literal"] or (match["bare"] or "").strip()
        segments.append(segment)
        at = match.end()
        if not match["end"]:
            return tuple(segments)


def dotted(segments: Iterable[str | int]) -> str:
    """The key as one text: bare words as they are, others quoted, positions in arrays as ``[0]``."""
    text = ""
    for segment in segments:
        if isinstance(segment, int):
            text += f"[{segment}]"
            continue
        word = segment if _BARE.fullmatch(segment) else json.dumps(segment, ensure_ascii=False)
        text = f"{text}.{word}" if text else word
    return text


def lookup(table: Mapping[str, Any], segments: Iterable[str]) -> Any:
    """The value at a key; None where there is none."""
    value: Any = table
    for segment in segments:
        if not isinstance(value, Mapping):
            return None
        value = value.get(segment)
    return value


def nested(segments: Iterable[str], value: Any) -> dict[str, Any]:
    """Tables that hold one value at a key."""
    for segment in reversed(tuple(segments)):
        value = {segment: value}
    return dict(value)


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables as one new table: tables are merged recursively, of everything else ``high``'s value counts."""
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged
