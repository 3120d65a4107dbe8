r"""Glob patterns for paths that must not be read.

``*`` and ``?`` stand for characters of one name, ``[a-z]`` and ``[!a-z]`` for one of a class, ``**`` as a whole component for
any number of folders, none included. A match stands for itself and everything below it. Case counts.

People may also write ``{a,b}`` for either and ``\`` before a character that means itself, as in Codex (globset);
:func:`alternatives` turns that into patterns without them, which is all that the other functions know.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

__all__ = [
    "MATCH_LIMIT",
    "TooManyMatches",
    "alternatives",
    "class_end",
    "deny_matcher",
    "escaped",
    "expand",
    "has_wildcards",
    "regex_of",
    "static_prefix",
]

MATCH_LIMIT = 8192
"""How many matches are masked at most (Codex's limit)."""

_WILD = frozenset("*?[")
_ESCAPED = r"\[([*?\[])\]"  # compiled when it is needed, as nothing should happen at import
_ALTERNATIVES = 1000
"""How many patterns one with braces may stand for."""


class TooManyMatches(Exception):  # noqa: N818  # a turn of events
    """A pattern matches more than can be masked."""


def has_wildcards(text: str) -> bool:
    """Whether a text is a pattern and not a path."""
    return not _WILD.isdisjoint(text)


def escaped(path: str) -> str:
    """A path as a pattern that matches it alone (and what is below it)."""
    return "".join(f"[{character}]" if character in _WILD else character for character in path)


def static_prefix(pattern: str) -> str:
    """The folder above the first component with a wildcard, as a path: ``/a/b/**/*.pem`` to ``/a/b``."""
    plain = []
    for part in pattern.split("/"):
        if has_wildcards(re.sub(_ESCAPED, "", part)):
            break
        plain.append(re.sub(_ESCAPED, r"\1", part))
    return "/".join(plain) or "/"


def alternatives(pattern: str) -> tuple[str, ...]:
    """The patterns without braces and backslashes that one stands for.

    Raises:
        ValueError: A brace is not closed or not opened, a backslash escapes nothing, a class has an impossible range, or there
            are more than a thousand; the text says what.
    """
    found, _ = _read(pattern, 0, inside=False)
    for one in found:
        try:
            re.compile(regex_of(one))
        except re.error as error:
            raise ValueError(error.msg) from error
    return tuple(dict.fromkeys(found))


def _read(pattern: str, at: int, *, inside: bool) -> tuple[list[str], int]:
    """The alternatives from an index up to the comma or brace that ends them, and where that is."""
    found = [""]
    while at < len(pattern):
        character = pattern[at]
        if inside and character in ",}":
            return found, at
        choice = [character]
        if character == "\\":
            at += 1
            if at == len(pattern):
                raise ValueError("a backslash at its end escapes nothing")
            choice = [escaped(pattern[at])]
        elif character == "[" and (end := class_end(pattern, at)) is not None:
            choice = _class_choice(pattern[at + 1 : end])
            at = end
        elif character == "{":
            choice, at = _braces(pattern, at)
        elif character == "}":
            raise ValueError("a brace is closed that was not opened")
        found = [before + after for before in found for after in choice]
        if len(found) > _ALTERNATIVES:
            raise ValueError(f"it stands for more than {_ALTERNATIVES} patterns")
        at += 1
    if inside:
        raise ValueError("a brace is not closed")
    return found, at


def _braces(pattern: str, at: int) -> tuple[list[str], int]:
    choice: list[str] = []
    while True:
        some, at = _read(pattern, at + 1, inside=True)
        choice += some
        if pattern[at] == "}":
            return choice, at


def _class_choice(inner: str) -> list[str]:
    """A class; one that names ``/`` is a choice of that and the rest, because everything else here thinks in components."""
    if "/" not in inner:
        return [f"[{inner}]"]
    if "-/" in inner or "/-" in inner:
        raise ValueError("a range cannot begin or end with /")
    rest = inner.replace("/", "")
    if inner[0] in ("!", "^"):
        return ["?" if len(rest) == 1 else f"[{rest}]"]
    return ["/", f"[{rest}]"] if rest else ["/"]


@lru_cache(maxsize=256)
def regex_of(pattern: str) -> str:
    """The pattern as a regular expression of Python for a whole path."""
    parts = pattern.split("/")
    text = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            text += ".*" if last else "(.*/)?"
        else:
            text += _component(part) + ("" if last else "/")
    return text


@lru_cache(maxsize=64)
def deny_matcher(patterns: tuple[str, ...]) -> Callable[[str], object] | None:
    """A function that tells whether a path matches one of the patterns; None where there are none."""
    if not patterns:
        return None
    return re.compile("|".join(f"(?:{regex_of(pattern)})" for pattern in patterns), re.DOTALL).fullmatch


def expand(patterns: tuple[str, ...], depth: int | None = None, *, reopened: Iterable[str] = ()) -> list[str]:
    """The paths that exist and match, the uppermost only, in order. Links are not followed; what cannot be listed is left out.

    Args:
        depth: How many folders below a pattern's static beginning are entered; None: all.
        reopened: Existing paths below a match; they and what is in them are looked at as well.

    Raises:
        TooManyMatches: There are more than :data:`MATCH_LIMIT`.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        matches = deny_matcher((pattern,))
        assert matches is not None
        start = static_prefix(pattern)
        limit = depth if "**" in pattern.split("/") else pattern.count("/") - start.rstrip("/").count("/")
        prefix = start.rstrip("/") + "/"
        inside = ((one, one.count("/") - prefix.count("/") + 1) for one in reopened if one.startswith(prefix))
        for folder, level in ((start, 0), *inside):
            left = None if limit is None else limit - level
            itself = [folder] if level and matches(folder) and (left is None or left >= 0) else None
            for path in itself or _walk(folder, matches, left):
                found[path] = None
                if len(found) > MATCH_LIMIT:
                    raise TooManyMatches(pattern)
    return sorted(found)


def _walk(folder: str, matches: Callable[[str], object], depth: int | None) -> Iterator[str]:
    pending = [(folder, 0)] if depth is None or depth > 0 else []
    while pending:
        at, level = pending.pop()
        try:
            entries = list(os.scandir(at))
        except OSError:
            continue
        for entry in entries:
            if matches(entry.path):
                yield entry.path
            elif entry.is_dir(follow_symlinks=False) and (depth is None or level + 1 < depth):
                pending.append((entry.path, level + 1))


def _component(part: str) -> str:
    text = ""
    at = 0
    while at < len(part):
        character = part[at]
        if character == "*":
            text += "[^/]*"
            while part[at + 1 : at + 2] == "*":
                at += 1
        elif character == "?":
            text += "[^/]"
        elif character == "[" and (end := class_end(part, at)) is not None:
            text += _class(part[at + 1 : end])
            at = end
        else:
            text += re.escape(character)
        at += 1
    return text


def class_end(part: str, start: int) -> int | None:
    """The index of the bracket that closes a class; None where it is never closed, and the bracket means itself."""
    first = start + 1
    if part[first : first + 1] in ("!", "^"):
        first += 1
    end = part.find("]", first + 1)
    return None if end < 0 else end


def _class(inner: str) -> str:
    negated = inner[:1] in ("!", "^")
    members = inner[1:] if negated else inner
    text = ""
    at = 0
    while at < len(members):
        text += re.escape(members[at])
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            text += f"-{re.escape(members[at + 2])}"
            at += 2
        at += 1
    return f"[^/{text}]" if negated else f"[{text}]"
