"""Reads plain data from untrusted or damaged files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.toolkit.strict_json import check_depth

__all__ = ["mapping", "number", "one_line", "pretty", "seconds_of", "sequence", "text"]

_LATEST = 1e11
"""The largest number of seconds that is believed."""


def text(value: Any) -> str:
    """Return a string, or an empty one for anything else."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> float | None:
    """Return a number of seconds, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= _LATEST else None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, or an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> Sequence[Any]:
    """Return a list, or an empty one for anything else."""
    return value if isinstance(value, (list, tuple)) else ()


def seconds_of(duration: Any) -> float | None:
    """Return the seconds of a duration on the wire: ``{"secs", "nanos"}`` or a number."""
    parts = mapping(duration)
    whole, nanos = number(parts.get("secs")), number(parts.get("nanos"))
    return number(duration) if whole is None else whole + (nanos or 0.0) / 1e9


def one_line(value: str, longest: int = 160) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(value[: longest * 4].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def pretty(value: Any) -> str:
    """Return JSON, or text that may be JSON, in a form that is easy to read."""
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
            check_depth(found, value)
        except (ValueError, RecursionError):
            return value
    indent = 2 if isinstance(found, (dict, list, tuple)) else None
    return json.dumps(found, indent=indent, ensure_ascii=False, default=str)
