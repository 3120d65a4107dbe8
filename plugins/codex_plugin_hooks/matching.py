"""Matchers, which select the tools, sources, triggers or agents that a hook runs for."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["matches", "problem"]

_NAMES = re.compile(r"[A-Za-z0-9_|]*")
"""A matcher of these characters is a list of names, not an expression."""


def problem(matcher: str) -> str | None:
    """Return why a matcher cannot be used, or None."""
    if matcher == "*" or _NAMES.fullmatch(matcher):
        return None
    try:
        re.compile(matcher)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return None


def matches(matcher: str | None, names: Iterable[str]) -> bool:
    """Return whether a matcher fits one of the names.

    None, ``""`` and ``*`` fit everything. Names separated by ``|`` are compared as a whole. Anything else is a regular expression,
    which may match anywhere in a name.
    """
    if matcher is None or matcher in ("", "*"):
        return True
    if _NAMES.fullmatch(matcher):
        wanted = matcher.split("|")
        return any(name in wanted for name in names)
    expression = re.compile(matcher)
    return any(expression.search(name) for name in names)
