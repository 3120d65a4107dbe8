"""The expansion of ``/prompts:NAME ARGUMENTS``: the values of ``$1``, ``$ARGUMENTS`` and ``$NAME``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["PREFIX", "ExpansionError", "expanded", "invocation", "named_arguments", "words_of"]

PREFIX = "/prompts:"

_NAME = re.compile(r"(\S*)(.*)", re.DOTALL)
_NAMED = re.compile(r"\$[A-Z][A-Z0-9_]*")
_NUMBERED = re.compile(r"\$(\$|[1-9]|ARGUMENTS)")
_ALL = "ARGUMENTS"


class ExpansionError(Exception):
    """The arguments do not fit the prompt. Its text is for the user."""


def invocation(text: str) -> tuple[str, str] | None:
    """Return the name and the arguments of the prompt in an input, or None if it is an ordinary input."""
    if not text.startswith(PREFIX):
        return None
    name, arguments = _NAME.fullmatch(text, len(PREFIX)).groups()  # type: ignore[union-attr]  # it matches everything
    return name, arguments.strip()


def named_arguments(content: str) -> list[str]:
    """Return the names of the arguments that a prompt needs, in order."""
    names = (match for match in _NAMED.finditer(content) if not _is_escaped(content, match.start()))
    return list(dict.fromkeys(match.group()[1:] for match in names if match.group()[1:] != _ALL))


def expanded(content: str, arguments: str) -> str:
    """Return the text of a prompt with its arguments.

    If the prompt has named arguments, all of them must be given, as ``NAME=value``, and nothing else is replaced. Otherwise, the
    words of the arguments are ``$1`` to ``$9`` and, together, ``$ARGUMENTS``. Missing arguments are empty.

    Raises:
        ExpansionError: The arguments do not match.
    """
    names = named_arguments(content)
    words = words_of(arguments)
    return _with_names(content, names, _assignments(words)) if names else _with_words(content, words)


def _is_escaped(content: str, position: int) -> bool:
    return position > 0 and content[position - 1] == "$"


def _assignments(words: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise ExpansionError(f"{word!r} is not of the form NAME=value. Put values with spaces in double quotes")
        if not name:
            raise ExpansionError(f"{word!r} has no name before the `=`")
        found[name] = value
    return found


def _with_names(content: str, names: Sequence[str], given: Mapping[str, str]) -> str:
    missing = [name for name in names if name not in given]
    if missing:
        form = " ".join(f"{name}=..." for name in missing)
        raise ExpansionError(f"these arguments are missing: {', '.join(missing)}. Add {form}")

    def value(match: re.Match[str]) -> str:
        return match.group() if _is_escaped(content, match.start()) else given.get(match.group()[1:], match.group())

    return _NAMED.sub(value, content)


def _with_words(content: str, words: Sequence[str]) -> str:
    def value(match: re.Match[str]) -> str:
        mark = match.group(1)
        if mark == "$":
            return match.group()
        if mark == _ALL:
            return " ".join(words)
        return words[int(mark) - 1] if int(mark) <= len(words) else ""

    return _NUMBERED.sub(value, content)


_ESCAPABLE = '$`"\\'


def words_of(text: str) -> list[str]:
    """Split a text into words as a POSIX shell does: with quotes, backslashes and comments, and without expansions.

    Raises:
        ExpansionError: A quote is not closed, or nothing follows a backslash.
    """
    words: list[str] = []
    word: list[str] | None = None
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char in " \t\n":
            if word is not None:
                words.append("".join(word))
            word = None
        elif char == "#" and word is None:
            end = text.find("\n", position)
            position = len(text) if end < 0 else end + 1
        else:
            word = [] if word is None else word
            position = _part(text, position - 1, word)
    return words if word is None else [*words, "".join(word)]


def _part(text: str, position: int, word: list[str]) -> int:
    """Add the character or the quoted part at a position to a word. Return the position after it."""
    char = text[position]
    if char == "'":
        end = text.find("'", position + 1)
        if end < 0:
            raise ExpansionError("a single quote is not closed. For an apostrophe, write \\' or use double quotes")
        word.append(text[position + 1 : end])
        return end + 1
    if char == '"':
        return _double_quoted(text, position + 1, word)
    if char != "\\":
        word.append(char)
        return position + 1
    if position + 1 == len(text):
        raise ExpansionError("nothing follows the last backslash")
    if text[position + 1] != "\n":
        word.append(text[position + 1])
    return position + 2


def _double_quoted(text: str, position: int, word: list[str]) -> int:
    while position < len(text):
        char = text[position]
        following = text[position + 1 : position + 2]
        if char == '"':
            return position + 1
        if char != "\\" or not following:
            word.append(char)
            position += 1
            continue
        if following in _ESCAPABLE:
            word.append(following)
        elif following != "\n":
            word.append(char + following)
        position += 2
    raise ExpansionError("a double quote is not closed")
