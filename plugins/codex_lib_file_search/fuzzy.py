"""Fuzzy matching of paths, with the scores and indices of nucleo, which Codex uses.

A query consists of words. A path matches if every word does:

| word | matches |
|---|---|
| ``abc`` | paths with these characters in this order, with anything between them |
| ``'abc`` | paths with this text |
| ``^abc``, ``abc$``, ``^abc$`` | paths that begin with it, end with it, or are it |
| ``!abc`` (also before ``^`` and with ``$``) | paths that the rest does not match; ``abc`` is then a text |

A backslash before one of these characters, or before a space, takes its meaning away. Case does not matter, and a letter matches
the same letter with an accent, but not the other way round.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from codex_framework.contract.value import Value

__all__ = ["Match", "Pattern"]

_MATCHED = 16
_GAP = 3
_GAP_GOES_ON = 1
_BOUNDARY = 8
_CAMEL = _BOUNDARY - _GAP
_CONSECUTIVE = _GAP + _GAP_GOES_ON
_AFTER_DELIMITER = _BOUNDARY + 1
_FIRST = 2
"""Points of the algorithm: for a matched character, against gaps, for where a character is, and the factor for the first one."""

_SPACE, _OTHER, _DELIMITER, _LOWER, _UPPER, _LETTER, _NUMBER = range(7)

Kind = Literal["fuzzy", "text", "prefix", "suffix", "whole"]


class Match(Value):
    """How well a path matches.

    Attributes:
        indices: The characters that were matched, in order.
    """

    score: int
    indices: tuple[int, ...]


class _Word(Value):
    """A part of a query.

    Attributes:
        needle: In lower case.
        folds: Whether accents in the path do not matter.
    """

    needle: str
    kind: Kind
    negative: bool
    folds: bool

    def match(self, path: str, folded: str) -> Match | None:
        """Match a path, whose folded form has the same number of characters."""
        if self.kind == "fuzzy":
            return _match_fuzzy(self.needle, path, folded)
        start = self._find(path, folded)
        return None if start is None else _score_run(path, start, len(self.needle))

    def _find(self, path: str, folded: str) -> int | None:
        """Return where the text is, the best place if there are several."""
        needle = self.needle
        blank = (
            len(folded) - len(folded.lstrip()) if self.kind in ("prefix", "whole") and not needle[0].isspace() else 0
        )
        end = len(folded.rstrip()) if self.kind in ("suffix", "whole") and not needle[-1].isspace() else len(folded)
        match self.kind:
            case "prefix":
                return blank if folded.startswith(needle, blank) else None
            case "suffix":
                return end - len(needle) if folded.endswith(needle, 0, end) else None
            case "whole":
                return blank if folded[blank:end] == needle else None
            case _:
                starts = (found.start() for found in re.finditer(f"(?={re.escape(needle)})", folded))
                return _best_start(path, starts)


class Pattern:
    """A query. One without words matches every path.

    Attributes:
        is_plain: Whether it is a single word without special characters.
        most_points: A score that no path exceeds.
    """

    def __init__(self, query: str) -> None:
        self._words = [word for part in re.findall(r"(?:\\\s|\S)+", query) if (word := _word(part)) is not None]
        self.most_points = sum(
            len(word.needle) * (_MATCHED + _AFTER_DELIMITER) + _AFTER_DELIMITER for word in self._words
        )
        self.is_plain = [word.kind for word in self._words] == ["fuzzy"] and not re.search(r"\\|\s", query.strip())

    def match(self, path: str) -> Match | None:
        """Match a path. Return None if it does not match."""
        score, indices = 0, set[int]()
        for word in self._words:
            found = word.match(path, _fold(path, accents=word.folds))
            if (found is None) is not word.negative:
                return None
            if found is not None and not word.negative:
                score += found.score
                indices.update(found.indices)
        return Match(score, tuple(sorted(indices)))

    def is_in(self, name: str) -> bool:
        """Return whether the words are in a name, without scoring it. All words must be plain."""
        return all(_is_subsequence(word.needle, _fold(name, accents=word.folds)) for word in self._words)

    def is_equal(self, name: str) -> bool:
        """Return whether a name is the query, apart from case and accents."""
        return self.is_plain and self._words[0].needle == _fold(name, accents=self._words[0].folds)


def _word(raw: str) -> _Word | None:
    negative = raw.startswith("!")
    text = raw[1:] if negative or raw.startswith("\\!") else raw
    kind: Kind = {"^": "prefix", "'": "text"}.get(text[:1], "fuzzy")  # type: ignore[assignment]
    if kind != "fuzzy" or text.startswith(("\\^", "\\'")):
        text = text[1:]
    if text.endswith("\\$"):
        text = f"{text[:-2]}$"
    elif text.endswith("$"):
        text = text[:-1]
        kind = "suffix" if kind == "fuzzy" else "whole"
    if negative and kind == "fuzzy":
        kind = "text"
    text = re.sub(r"\\(\s)", r"\1", text)
    needle = _fold(text, accents=False)
    return _Word(needle, kind, negative, needle == _fold(text, accents=True)) if needle else None


@lru_cache(4096)
def _fold_character(character: str, accents: bool) -> str:  # noqa: FBT001
    """Return a character in lower case, and without its accents if that is wanted. It stays one character."""
    plain = unicodedata.normalize("NFD", character)[0] if accents else character
    lower = plain.lower()
    return lower if len(lower) == 1 else plain


def _fold(text: str, *, accents: bool) -> str:
    if text.isascii():
        return text.lower()
    return "".join([_fold_character(character, accents) for character in text])


def _is_subsequence(needle: str, text: str) -> bool:
    at = -1
    for character in needle:
        at = text.find(character, at + 1)
        if at < 0:
            return False
    return True


def _class(character: str) -> int:
    if character.islower():
        return _LOWER
    if character.isupper():
        return _UPPER
    if character.isnumeric():
        return _NUMBER
    if character.isalpha():
        return _LETTER
    if character.isspace():
        return _SPACE
    return _DELIMITER if character == "/" else _OTHER


def _bonus_between(before: int, here: int) -> int:
    if here > _DELIMITER and before <= _DELIMITER:
        return _AFTER_DELIMITER if before == _DELIMITER else _BOUNDARY
    if (before == _LOWER and here == _UPPER) or (before != _NUMBER and here == _NUMBER):
        return _CAMEL
    return _BOUNDARY if here <= _OTHER else 0


_CLASSES = {chr(code): _class(chr(code)) for code in range(128)}
_BONUSES = [[_bonus_between(before, here) for here in range(7)] for before in range(7)]


def _bonus(path: str, at: int) -> int:
    """Return the points for a character at the beginning of a word, or like that."""
    here = path[at]
    before = path[at - 1] if at else "/"
    return _BONUSES[_CLASSES.get(before) or _class(before)][_CLASSES.get(here) or _class(here)]


def _best_start(path: str, starts: Iterable[int]) -> int | None:
    """Return the first place at the beginning of a word, or else the one with the most points."""
    best, most = None, -1
    for start in starts:
        bonus = _bonus(path, start)
        if bonus > most:
            best, most = start, bonus
        if bonus >= _BOUNDARY:
            break
    return best


def _score_run(path: str, start: int, length: int) -> Match:
    """Return the score of matched characters without gaps."""
    first = _bonus(path, start)
    score = _MATCHED + _FIRST * first
    for at in range(start + 1, start + length):
        bonus = _bonus(path, at)
        if bonus >= _BOUNDARY:
            first = max(first, bonus)
        score += _MATCHED + max(bonus, first, _CONSECUTIVE)
    return Match(score, tuple(range(start, start + length)))


def _match_fuzzy(needle: str, path: str, folded: str) -> Match | None:
    """Find the best way to match the characters of a needle in order.

    A row has a cell for each position of a character: the best score so far, the bonus for consecutive characters, and the
    position of the previous character.
    """
    if not _is_subsequence(needle, folded):
        return None
    if len(needle) == 1:
        start = _best_start(path, _places(needle, folded, 0))
        return None if start is None else _score_run(path, start, 1)
    rows: list[dict[int, tuple[int, int, int]]] = []
    first = folded.index(needle[0])
    for index, character in enumerate(needle):
        row: dict[int, tuple[int, int, int]] = {}
        if not rows:
            for at in _places(character, folded, first):
                bonus = _bonus(path, at)
                row[at] = (_MATCHED + _FIRST * bonus, bonus, -1)
        else:
            _fill(row, rows[-1], _places(character, folded, first + index), path)
        rows.append(row)
        first = min(row) - index
    last = rows[-1]
    end = max(reversed(last), key=lambda at: last[at][0])
    score = last[end][0]
    indices = []
    for row in reversed(rows):
        indices.append(end)
        end = row[end][2]
    return Match(score, tuple(reversed(indices)))


def _places(character: str, folded: str, start: int) -> list[int]:
    places = []
    at = folded.find(character, start)
    while at >= 0:
        places.append(at)
        at = folded.find(character, at + 1)
    return places


def _fill(
    row: dict[int, tuple[int, int, int]], above: dict[int, tuple[int, int, int]], places: list[int], path: str
) -> None:
    """Fill a row, given the row of the character before.

    ``skipped`` is the best score that a gap before ``place`` leaves, and ``origin`` the character before that gap.
    """
    candidates = iter(above.items())
    candidate = next(candidates, None)
    skipped, origin, place = 0, -1, 0
    for at in places:
        while candidate is not None and candidate[0] < at - 1:
            begin, (score, _, _) = candidate
            left = max(0, skipped - _GAP_GOES_ON * (begin + 2 - place))
            skipped, origin = (score - _GAP, begin) if score - _GAP > left else (left, origin)
            place = begin + 2
            candidate = next(candidates, None)
        bonus = _bonus(path, at)
        over_gap = max(0, skipped - _GAP_GOES_ON * (at - place)) if origin >= 0 else 0
        before = above.get(at - 1)
        if before is not None:
            goes_on = max(before[1], _CONSECUTIVE)
            if bonus >= _BOUNDARY:
                goes_on = max(goes_on, bonus)
            score = before[0] + max(goes_on, bonus)
            if score > over_gap + bonus:
                row[at] = (score + _MATCHED, goes_on, at - 1)
                continue
        if origin >= 0:
            row[at] = (over_gap + bonus + _MATCHED, bonus, origin)
