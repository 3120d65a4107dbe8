"""Texts of servers, made fit to be shown to a person."""

from __future__ import annotations

import re

__all__ = ["one_line", "plain"]

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and characters that change the writing direction, which can disguise a text."""


def plain(text: str, limit: int) -> str:
    """Return a text without terminal escapes and control characters except newlines and tabs, and shortened to a length."""
    shown = _CONTROLS.sub("", _ESCAPES.sub("", text))
    return shown if len(shown) <= limit else f"{shown[:limit]}..."


def one_line(text: str, limit: int = 200) -> str:
    """Return a text as one short line."""
    return plain(" ".join(text.split()), limit)
