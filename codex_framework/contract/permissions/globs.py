r"""Glob patterns for paths, such as paths that must not be read.

``*`` and ``?`` match characters of one name, ``[a-z]`` and ``[!a-z]`` match one character of a class, and ``**`` as a whole
component matches any number of folders, including none. A match includes everything below it. Patterns are case-sensitive.

Users can also write ``{a,b}`` for either alternative and ``\`` before a literal character, as in Codex (globset).
:func:`alternatives` expands these; the other functions take only the expanded patterns.

:func:`expression` parses a pattern once and spells it in any :class:`Dialect` of regular expressions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from codex_framework.contract.value import Value

__all__ = [
    "ANYWHERE",
    "MATCH_LIMIT",
    "CharacterClass",
    "Dialect",
    "alternatives",
    "deny_matcher",
    "escaped",
    "expand",
    "expression",
    "has_wildcards",
    "regex_of",
    "static_prefix",
]

MATCH_LIMIT = 8192
"""How many matches are masked at most (Codex's limit)."""

ANYWHERE = "**"
"""The component that matches any number of folders."""

_WILD = frozenset("*?[")
_ESCAPED = r"\[([*?\[])\]"  # compiled when it is needed, as nothing should happen at import
_ALTERNATIVES = 1000
"""How many patterns a pattern with braces may expand to."""

_CHARACTERS = 1 << 16
"""How many characters all of them may have."""


class CharacterClass(Value):
    """A class in brackets.

    Attributes:
        members: Single characters, and ranges of three characters (``a-z``).
        negated: Whether it matches every character but these (and ``/``).
    """

    members: tuple[str, ...]
    negated: bool


class Dialect(Value):
    """How the parts of a pattern are spelled in a kind of regular expression.

    Attributes:
        literal: Spells a literal character.
        bracketed: Spells a class.
        run: Any number of characters of one name.
        one: One character of a name.
    """

    literal: Callable[[str], str]
    bracketed: Callable[[CharacterClass], str]
    run: str = "[^/]*"
    one: str = "[^/]"


def has_wildcards(text: str) -> bool:
    """Return whether a text is a pattern and not a path."""
    return not _WILD.isdisjoint(text)


def escaped(path: str) -> str:
    """Return a pattern that matches only this path (and everything below it)."""
    return "".join(f"[{character}]" if character in _WILD else character for character in path)


def static_prefix(pattern: str) -> str:
    """Return the folder above the first component with a wildcard, as a path: ``/a/b/**/*.pem`` to ``/a/b``."""
    plain = []
    for part in pattern.split("/"):
        if has_wildcards(re.sub(_ESCAPED, "", part)):
            break
        plain.append(re.sub(_ESCAPED, r"\1", part))
    return "/".join(plain) or "/"


def alternatives(pattern: str, *, braces: bool = True) -> tuple[str, ...]:
    """Expand a pattern into patterns without braces and backslashes.

    Args:
        braces: Whether braces contain alternatives. If not, they are literal, as in the files of git.

    Raises:
        ValueError: A brace is not closed or not opened, a backslash escapes nothing, a class has an impossible range, or the
            pattern expands to more than a thousand patterns or is too long. The text states which.
    """
    try:
        found, _ = _read(pattern, 0, inside=False, braces="{}" if braces else "")
    except RecursionError:
        raise ValueError("its braces are nested too deeply") from None
    if sum(map(len, found)) > _CHARACTERS:
        raise ValueError(f"it expands to more than {_CHARACTERS} characters")
    for expanded in found:
        try:
            re.compile(regex_of(expanded))
        except re.error as error:
            raise ValueError(error.msg) from error
    return tuple(dict.fromkeys(found))


def _read(pattern: str, at: int, *, inside: bool, braces: str = "{}") -> tuple[list[str], int]:
    """Return the alternatives from an index up to the comma or brace that ends them, and the index of that end."""
    found = [""]
    while at < len(pattern):
        character = pattern[at]
        if inside and character in ",}":
            return found, at
        choice = [character]
        if character == "\\":
            at += 1
            if at == len(pattern):
                raise ValueError("it ends with a backslash, which escapes nothing")
            choice = [escaped(pattern[at])]
        elif character == "[" and (end := _class_end(pattern, at)) is not None:
            choice = _class_choice(pattern[at + 1 : end])
            at = end
        elif character in braces:
            choice, at = _braces(pattern, at)
        found = [before + after for before in found for after in choice]
        if len(found) > _ALTERNATIVES:
            raise ValueError(f"it expands to more than {_ALTERNATIVES} patterns")
        at += 1
    if inside:
        raise ValueError("a brace is not closed")
    return found, at


def _braces(pattern: str, at: int) -> tuple[list[str], int]:
    if pattern[at] == "}":
        raise ValueError("a closing brace has no opening brace")
    choice: list[str] = []
    while True:
        some, at = _read(pattern, at + 1, inside=True)
        choice += some
        if pattern[at] == "}":
            return choice, at


def _class_choice(inner: str) -> list[str]:
    """Return a class as a pattern. A class that contains ``/`` becomes a choice, because matching works per path component."""
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
    """Return the pattern as a Python regular expression for a whole path.

    Patterns may come from a model. Every wildcard but the last is therefore an atomic group: it does not backtrack, because its
    first match is as good as any other. Backtracking would take exponential time.
    """
    first, *rest = _between_folders(pattern.split("/"))
    if not rest:
        return _components(first)
    text = f"{_components(first)}/" if first else ""
    *middle, last = rest
    for parts in filter(None, middle):
        text += f"(?>(?:.*?/)??{_components(parts)}/)"
    return text + (f"(?:.*/)?{_components(last)}" if last else ".*")


def _between_folders(parts: Iterable[str]) -> list[list[str]]:
    """Split the components of a pattern at the components that match any number of folders."""
    found: list[list[str]] = [[]]
    for part in parts:
        if part == ANYWHERE:
            found.append([])
        else:
            found[-1].append(part)
    return found


def _components(parts: Iterable[str]) -> str:
    return "/".join(map(_component_regex, parts))


def _component_regex(part: str) -> str:
    """Return the regular expression for one component."""
    pieces = [""]
    for spelled in _component(part, _PYTHON):
        if spelled == _PYTHON.run:
            pieces.append("")
        else:
            pieces[-1] += spelled
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    found = (f"(?>{_PYTHON.run}?{piece})" for piece in middle)
    return f"{first}{''.join(found)}{_PYTHON.run}{last}"


@lru_cache(maxsize=64)
def deny_matcher(patterns: tuple[str, ...]) -> Callable[[str], object] | None:
    """Return a function that tests whether a path matches one of the patterns, or None if there are no patterns."""
    if not patterns:
        return None
    return re.compile("|".join(f"(?:{regex_of(pattern)})" for pattern in patterns), re.DOTALL).fullmatch


def expand(patterns: tuple[str, ...], depth: int | None = None, *, reopened: Iterable[str] = ()) -> list[str]:
    """Return the existing paths that match, only the uppermost, in order. Links are not followed; unlistable folders are skipped.

    Args:
        depth: How many folder levels below a pattern's static prefix are searched. By default, there is no limit.
        reopened: Paths that are accessible although they are below a match or an unlistable folder. They are searched as well.

    Raises:
        SandboxError: There are more than :data:`MATCH_LIMIT`.
    """
    reopened = tuple(reopened)
    found: dict[str, None] = {}
    for pattern in patterns:
        for path in _matches(pattern, depth, reopened):
            found[path] = None
            if len(found) > MATCH_LIMIT:
                from codex_framework.contract.errors import SandboxError

                raise SandboxError(
                    f"the denied pattern {pattern!r} matches more than {MATCH_LIMIT} files",
                    hint="deny the folder that contains them, or make the pattern narrower (glob_scan_max_depth limits it too)",
                )
    return sorted(found)


def _matches(pattern: str, depth: int | None, reopened: Sequence[str]) -> Iterator[str]:
    matches = deny_matcher((pattern,))
    assert matches is not None
    start = static_prefix(pattern)
    limit = depth if ANYWHERE in pattern.split("/") else pattern.count("/") - start.rstrip("/").count("/")
    walked: set[str] = set()
    yield from _walk(start, matches, limit, walked)
    prefix = start.rstrip("/") + "/"
    for path in reopened:
        if not path.startswith(prefix) or path in walked:
            continue
        left = None if limit is None else limit - (path.count("/") - prefix.count("/") + 1)
        if not matches(path):
            yield from _walk(path, matches, left, walked)
        elif (left is None or left >= 0) and os.path.lexists(path):
            yield path


def _walk(folder: str, matches: Callable[[str], object], depth: int | None, walked: set[str]) -> Iterator[str]:
    pending = [(folder, 0)] if depth is None or depth > 0 else []
    while pending:
        at, level = pending.pop()
        walked.add(at)
        try:
            entries = list(os.scandir(at))
        except OSError:
            continue
        deeper = depth is None or level + 1 < depth
        for entry in entries:
            if matches(entry.path):
                yield entry.path
            elif deeper and entry.is_dir(follow_symlinks=False) and entry.path not in walked:
                pending.append((entry.path, level + 1))


def expression(parts: Sequence[str], dialect: Dialect) -> str:
    """Return a regular expression for the components of a pattern, separated by ``/``.

    It uses groups, ``.`` for any character and ``*``, besides the syntax of the dialect.
    """
    text = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == ANYWHERE:
            text += ".*" if last else "(.*/)?"
        else:
            text += "".join(_component(part, dialect)) + ("" if last else "/")
    return text


def _component(part: str, dialect: Dialect) -> Iterator[str]:
    at = 0
    while at < len(part):
        character = part[at]
        if character == "*":
            yield dialect.run
            while part[at + 1 : at + 2] == "*":
                at += 1
        elif character == "?":
            yield dialect.one
        elif character == "[" and (end := _class_end(part, at)) is not None:
            yield dialect.bracketed(_class(part[at + 1 : end]))
            at = end
        else:
            yield dialect.literal(character)
        at += 1


def _class_end(part: str, start: int) -> int | None:
    """Return the index of the bracket that closes a class, or None if it is never closed, so the bracket is literal."""
    first = start + 1
    if part[first : first + 1] in ("!", "^"):
        first += 1
    end = part.find("]", first + 1)
    return None if end < 0 else end


def _class(inner: str) -> CharacterClass:
    negated = inner[:1] in ("!", "^")
    text = inner[1:] if negated else inner
    members = []
    at = 0
    while at < len(text):
        length = 3 if text[at + 1 : at + 2] == "-" and at + 2 < len(text) else 1
        members.append(text[at : at + length])
        at += length
    return CharacterClass(tuple(members), negated)


def _class_pattern(found: CharacterClass) -> str:
    """Spell a class. A range may contain ``/``, which it does not match."""
    members = ("-".join(map(re.escape, (member[0], *member[2:]))) for member in found.members)
    return f"[^/{''.join(members)}]" if found.negated else f"(?!/)[{''.join(members)}]"


_PYTHON = Dialect(re.escape, _class_pattern)
