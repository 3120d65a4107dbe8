"""Formatting of a command's arguments as one line, quoted as Codex shows it."""

from __future__ import annotations

import string
from collections.abc import Iterable

__all__ = ["command_line"]

_PLAIN = frozenset(string.ascii_letters + string.digits + "+-./:@]_")
_NOT_SINGLE = frozenset("'^\\")
_NOT_DOUBLE = frozenset("`$!^")
_ESCAPED = frozenset('"\\')


def command_line(argv: Iterable[str]) -> str:
    """Return the arguments as one line. They are quoted if necessary, in as few pieces as possible, preferably in single quotes."""
    return " ".join(_quote_argument(argument) for argument in argv)


def _quote_argument(argument: str) -> str:
    if not argument:
        return "''"
    pieces = []
    while argument:
        length, quote = _longest(argument)
        piece, argument = argument[:length], argument[length:]
        if quote == '"':
            piece = "".join(f"\\{char}" if char in _ESCAPED else char for char in piece)
        pieces.append(f"{quote}{piece}{quote}")
    return "".join(pieces)


def _longest(text: str) -> tuple[int, str]:
    """Return the length of the longest prefix that one kind of quotes can contain, and that kind."""
    fits = {"", "'", '"'}
    length = 0
    if text[0] == "^":  # bash treats it as a history character, except directly after a single quote
        fits, length = {"'"}, 1
    while length < len(text):
        char = text[length]
        still = {quote for quote in fits if _fits(char, quote)}
        if not still:
            break
        fits = still
        length += 1
    return length, next(quote for quote in ("", "'", '"') if quote in fits)


def _fits(char: str, quote: str) -> bool:
    if quote == "":
        return char in _PLAIN
    return char not in (_NOT_SINGLE if quote == "'" else _NOT_DOUBLE)
