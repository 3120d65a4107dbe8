"""Encodes untrusted text within a limit, so that it can neither imitate something else nor hide.

Everything that is shown to the reviewing model is JSON on one line. A text in it cannot start or end a line, or contain a
marker of the prompt (``>>>``), and invisible characters are written as escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from codex_framework.toolkit.truncation import BYTES_PER_TOKEN, token_count, truncate

__all__ = ["fitted_text", "fitted_value", "quoted", "tokens"]

_MARKER = re.compile(">{3,}")
_NOT_ASCII = re.compile(r"[^\x20-\x7e]+")
_LEAST = 8
"""Minimum number of tokens of a text, and of members of a list, to keep."""


def quoted(value: Any) -> str:
    """Return the value as JSON in one line. Parsing it returns the same value."""
    text = json.dumps(value, ensure_ascii=False)
    if ">>>" in text:
        text = _MARKER.sub(lambda found: "\\u003e" * len(found[0]), text)
    return text if text.isprintable() else _NOT_ASCII.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in found[0])


def tokens(line: str) -> int:
    """Return the estimated number of tokens of a line, including its line end."""
    return token_count(len(line.encode("utf-8", "replace")) + 1)


def fitted_text(wrap: Callable[[str], Any], text: str, limit: int) -> str:
    """Return ``wrap(text)`` quoted, with its text shortened until the line is within ``limit`` tokens.

    The addition of ``wrap`` must be short, because it is never truncated.
    """
    keep = limit
    line = quoted(wrap(truncate(text, ("tokens", keep))))
    while (size := tokens(line)) > limit and keep > 0:
        keep = max(min(keep - _LEAST, keep * limit // size), 0)
        line = quoted(wrap(truncate(text, ("tokens", keep))))
    return line


def fitted_value(value: dict[str, Any], limit: int) -> str:
    """Return a value quoted. If it is longer than ``limit`` tokens, its long texts and lists are truncated in the middle.

    A truncated value has ``"truncated": true`` at its beginning.
    """
    keep = limit
    while (
        keep > _LEAST and _length(value, keep) > limit * BYTES_PER_TOKEN
    ):  # an estimate, to quote long values only once or twice
        keep = max(keep * 3 // 4, _LEAST)
    line = _quoted_cut(value, keep)
    while (size := tokens(line)) > limit and keep > _LEAST:
        keep = max(min(keep * 7 // 8, max(keep * limit // size, keep // 2)), _LEAST)
        line = _quoted_cut(value, keep)
    return line


def _quoted_cut(value: dict[str, Any], keep: int) -> str:
    cut = _truncate_value(value, keep)
    return quoted(value if cut == value else {"truncated": True, **cut})


def _length(value: Any, keep: int) -> int:
    """Return the approximate number of characters of a truncated value, never too many."""
    match value:
        case str():
            return min(len(value), keep * BYTES_PER_TOKEN)
        case dict():
            return sum(_length(key, keep) + _length(member, keep) for key, member in value.items())
        case list() if len(value) > keep:
            return sum(_length(member, keep) for member in (*value[: keep // 2], *value[keep // 2 - keep :]))
        case list():
            return sum(_length(member, keep) for member in value)
        case _:
            return 1


def _truncate_value(value: Any, keep: int) -> Any:
    match value:
        case str():
            return truncate(value, ("tokens", keep))
        case dict():
            return {truncate(key, ("tokens", keep)): _truncate_value(member, keep) for key, member in value.items()}
        case list() if len(value) > keep:
            head, tail = keep // 2, keep - keep // 2
            left_out = f"…{len(value) - keep} more are left out here…"
            return [*_truncate_value(value[:head], keep), left_out, *_truncate_value(value[-tail:], keep)]
        case list():
            return [_truncate_value(member, keep) for member in value]
        case _:
            return value
