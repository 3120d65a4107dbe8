"""Environment variables of commands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["PLAIN_TERMINAL"]

PLAIN_TERMINAL: Mapping[str, str] = MappingProxyType(
    {
        "NO_COLOR": "1",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "LC_CTYPE": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "COLORTERM": "",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GH_PAGER": "cat",
        "CODEX_CI": "1",
    }
)
"""Codex's variables that make output plain text and disable pagers. They change nothing else about a command, so they are neither
shown with it nor judged."""
