"""Rewrites f-strings as calls of ``format``.

Codex's version of Starlark accepts any expression in the braces of an f-string. The version with bindings for Python accepts only
names.
"""

from __future__ import annotations

import re

__all__ = ["FStringError", "without_fstrings"]

_DEEPEST = 20
"""Maximum depth of f-strings within f-strings."""

_ANY = re.compile(r"""(?<!\w)fr?["']""")
_START = re.compile(r'''(?P<prefix>f?r?)(?P<quote>"""|\'\'\'|"|')''')
_REST = {
    '"': re.compile(r'(?:[^"\\\n]|\\.)*"', re.DOTALL),
    "'": re.compile(r"(?:[^'\\\n]|\\.)*'", re.DOTALL),
    '"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL),
    "'''": re.compile(r"(?:[^'\\]|\\.|'(?!''))*'''", re.DOTALL),
}
"""The rest of a plain string after its opening quote."""

_CODE = re.compile(r"""(?:[^\w\s"'#()\[\]{}!\\]|\s|\w++(?!["'])|!=|\\.)+""", re.DOTALL)
"""Code in which no string, comment or bracket starts."""

_PREFIXED = re.compile(r"\w+")
_COMMENT = re.compile(r"#[^\n]*")
_CONVERSION = re.compile(r"!\s*([rs])\s*\}")
_LITERAL = re.compile(r"""[^{}"'\\\n]+""")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


class FStringError(Exception):
    """An f-string has no end, or its braces do not match.

    Attributes:
        at: The position of its start, in characters.
    """

    def __init__(self, fact: str, at: int) -> None:
        super().__init__(fact)
        self.at = at


def without_fstrings(text: str) -> str:
    """Return the same program without f-strings, with each statement on its old line. Raises FStringError."""
    return _Source(text).rewritten() if _ANY.search(text) else text


class _Source:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def rewritten(self) -> str:
        """Return the whole text. Raises FStringError."""
        pieces: list[str] = []
        while self._at < len(self._text):
            self._copy_token(pieces)
        return "".join(pieces)

    def _copy_token(self, pieces: list[str]) -> None:
        """Copy the next token, or several."""
        start = _START.match(self._text, self._at)
        if start is None:
            pieces.append(self._plain_token())
        elif start["prefix"].startswith("f"):
            pieces.append(self._fstring(start))
        else:
            found = _REST[start["quote"]].match(self._text, start.end())
            if found is None:
                raise FStringError("unfinished string literal", self._at)
            pieces.append(self._take(found.end()))

    def _plain_token(self) -> str:
        for pattern in (_CODE, _COMMENT, _PREFIXED):
            if found := pattern.match(self._text, self._at):
                return self._take(found.end())
        return self._take(self._at + 1)

    def _take(self, end: int) -> str:
        taken = self._text[self._at : end]
        self._at = end
        return taken

    def _fstring(self, start: re.Match[str]) -> str:
        """Return the call for an f-string: for ``f"a{x}"``, in effect, ``"{}{}".format("a", x)``."""
        began, quote, raw = self._at, start["quote"], start["prefix"][1:]
        self._at = start.end()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FStringError("f-strings are nested too deeply", began)
        template: list[str] = []
        values: list[str] = []
        while not self._text.startswith(quote, self._at):
            if self._text.startswith("{", self._at) and not self._text.startswith("{{", self._at):
                expression, conversion = self._field(began)
                template.append(f"{{{conversion}}}")
                values.append(f"{{0: {expression}, 1: 1}}[0]")  # only a single expression is possible here
            else:
                template.append("{}")
                values.append(self._literal(quote, raw, began))
        self._at += len(quote)
        self._depth -= 1
        return f'"{"".join(template)}".format({", ".join(values)})'

    def _literal(self, quote: str, raw: str, began: int) -> str:
        """Return a string for the text up to the next field, or for as much of it as one string can contain."""
        own, other = quote[0], "'" if quote[0] == '"' else '"'
        if raw and self._text.startswith(f"\\{other}", self._at):  # a raw string contains it without the backslash
            self._at += 2
            return f"{own}\\\\{other}{own}"
        if len(quote) == 3 and self._text.startswith(own, self._at):  # a string cannot end with it
            return f"{other}{self._take(self._at + 1)}{other}"
        pieces: list[str] = []
        while self._at < len(self._text):
            if found := _LITERAL.match(self._text, self._at):
                pieces.append(self._take(found.end()))
                continue
            character, following = self._text[self._at], self._text[self._at + 1 : self._at + 2]
            if character == "\\" and following and not (raw and following == other):
                pieces.append(self._take(self._at + 2))
            elif character in "{}" and following == character:
                pieces.append(character)
                self._at += 2
            elif character == "}":
                raise FStringError("an f-string has a single `}`; write `}}` for a brace", began)
            elif character in "{\\" or character == own or (character == "\n" and len(quote) == 1):
                break
            else:  # the other quote, or a line end
                pieces.append(self._take(self._at + 1))
        if not pieces:
            raise FStringError("unfinished string literal", began)
        return f"{raw}{quote}{''.join(pieces)}{quote}"

    def _field(self, began: int) -> tuple[str, str]:
        """Return the expression in braces, and its conversion (``!r``, ``!s`` or nothing)."""
        self._at += 1
        closing: list[str] = []
        pieces: list[str] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            if not closing and character == "}":
                self._at += 1
                return "".join(pieces), ""
            if not closing and character == "!" and not self._text.startswith("!=", self._at):
                found = _CONVERSION.match(self._text, self._at)
                if found is None or self._text[self._at - 1].isspace():
                    raise FStringError("an f-string has something other than `!r` or `!s` behind an expression", began)
                self._at = found.end()
                return "".join(pieces), f"!{found[1]}"
            if character in _BRACKETS:
                closing.append(_BRACKETS[character])
            elif character in ")]}" and (not closing or closing.pop() != character):
                raise FStringError("an f-string has brackets that do not fit", began)
            self._copy_token(pieces)
        raise FStringError("unfinished string literal", began)
