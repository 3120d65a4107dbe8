"""Syntax colours, by pygments, which is loaded when code is displayed for the first time."""

from __future__ import annotations

from typing import Any

from codex_client_terminal.text import Line, Style

__all__ = ["TOKEN_STYLES", "Code"]

_LONGEST_LINE = 1_000
_MOST_BEFORE = 4_000
"""How much of the code before a line is read again to know its colours, in characters. It may be within a long string."""

TOKEN_STYLES = {
    "Keyword": "keyword",
    "Keyword.Constant": "constant",
    "Name.Builtin": "builtin",
    "Name.Class": "class",
    "Name.Decorator": "decorator",
    "Name.Function": "function",
    "Name.Tag": "tag",
    "Name.Attribute": "attribute",
    "Literal.String": "string",
    "Literal.Number": "number",
    "Comment": "comment",
    "Operator.Word": "word-operator",
    "Generic.Inserted": "inserted",
    "Generic.Deleted": "deleted",
    "Generic.Subheading": "subheading",
    "Generic.Heading": "heading",
}
"""The styles of the kinds of tokens of pygments."""


class Code:
    """Code that arrives line by line.

    Args:
        language: The name of the language, or of a file. Code of an unknown language has no colours.
    """

    def __init__(self, language: str) -> None:
        self._language = language.lower()
        self._lexer: Any = None
        self._before = ""

    def line(self, text: str) -> Line:
        """Return the next line."""
        if not self._language or len(text) > _LONGEST_LINE:
            return [(text, "")]
        if self._lexer is None:
            self._lexer = _lexer(self._language)
        if self._lexer is None:
            self._language = ""
            return [(text, "")]
        if len(self._before) > _MOST_BEFORE:
            self._before = ""
        start = len(self._before)
        self._before += f"{text}\n"
        spans: Line = []
        for place, kind, part in self._lexer.get_tokens_unprocessed(self._before):
            shown = part[max(start - place, 0) :].rstrip("\n")
            if place + len(part) > start and shown:
                spans.append((shown, _style(kind)))
        return spans or [("", "")]


def _lexer(language: str) -> Any:
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language)
    except ClassNotFound:
        found = find_lexer_class_for_filename(language)
        return None if found is None else found()


def _style(kind: Any) -> Style:
    """Return the style of a kind of token: its own style, or the style of its parent kind."""
    name = str(kind).removeprefix("Token.")
    while name and name not in TOKEN_STYLES:
        name = name.rpartition(".")[0]
    return TOKEN_STYLES.get(name, "")
