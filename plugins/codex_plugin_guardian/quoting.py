"""Writing what nobody vouches for, so that it can neither pass for something else nor hide, and within a limit.

Everything that is shown to the reviewing model is JSON on one line. A text in it cannot begin a line, end the line it stands in
or contain a marker of the prompt (``>>>``), and characters that are not seen on a screen are spelt out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from codex_framework.truncation import token_count, truncate

__all__ = ["fitted_text", "fitted_value", "quoted", "tokens"]

_MARKER = re.compile(">{3,}")
_NOT_ASCII = re.compile(r"[^\x20-\x7e]+")
_LEAST = 8
"""Tokens of a text, and members of a list, that are left in any case."""


def quoted(value: Any) -> str:
    """The value as JSON in one line; reading it gives the value again."""
    text = json.dumps(value, ensure_ascii=False)
    text = _MARKER.sub(lambda found: "\\u003e" * len(found[0]), text)
    return text if text.isprintable() else _NOT_ASCII.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in found[0])


def tokens(line: str) -> int:
    """How many tokens a line is taken for, with its line end."""
    return token_count(len(line.encode("utf-8", "replace")) + 1)


def fitted_text(wrap: Callable[[str], Any], text: str, limit: int) -> str:
    """``wrap(text)`` quoted, its text shortened until the line is within ``limit`` tokens.

    What ``wrap`` adds has to be short: it is never cut.
    """
    keep = limit
    line = quoted(wrap(truncate(text, ("tokens", keep))))
    while (size := tokens(line)) > limit and keep > 0:
        keep = max(min(keep - _LEAST, keep * limit // size), 0)
        line = quoted(wrap(truncate(text, ("tokens", keep))))
    return line


def fitted_value(value: dict[str, Any], limit: int) -> str:
    """A value quoted; if it is longer than ``limit`` tokens, its long texts and lists are cut in the middle, visibly.

    What was cut says ``"truncated": true`` at its beginning.
    """
    line = quoted(value)
    size = keep = tokens(line)
    while (size := tokens(line)) > limit and keep > _LEAST:
        keep = max(min(keep * 7 // 8, max(keep * limit // size, keep // 2)), _LEAST)
        line = quoted({"truncated": True, **_cut(value, keep)})
    return line


def _cut(value: Any, keep: int) -> Any:
    match value:
        case str():
            return truncate(value, ("tokens", keep))
        case dict():
            return {truncate(key, ("tokens", keep)): _cut(member, keep) for key, member in value.items()}
        case list() if len(value) > keep:
            head, tail = keep // 2, keep - keep // 2
            left_out = f"…{len(value) - keep} more are left out here…"
            return [*_cut(value[:head], keep), left_out, *_cut(value[-tail:], keep)]
        case list():
            return [_cut(member, keep) for member in value]
        case _:
            return value
