"""Ranks tools by a query: BM25 over their names, titles, descriptions and arguments."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from codex_framework import DeferredTool, FunctionSpec

__all__ = ["Index", "words"]

_K1 = 1.2
_B = 0.75

_NAME_WEIGHT = 4
_KEYWORD_WEIGHT = 2
"""The weights of the words of names and keywords: they are few, and more significant than the words of a long description."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")

_STOP_WORDS = frozenset(
    """
    a an and are as at be by can do for from has have how i in into is it its me my not of on or our that the their them then
    there these they this to use used using want was we what when where which will with you your
    """.split()  # noqa: SIM905  # a list of words
)

_ENDINGS = ("ations", "ation", "ings", "ing", "edly", "ies", "ers", "ed", "er", "es", "s", "e", "y")
_SHORTEST_STEM = 3


def words(text: str) -> Iterator[str]:
    """Yield the words of a text as stems. Names are split at underscores, hyphens and capitals."""
    for match in _WORD.finditer(text):
        word = match.group().lower()
        if word not in _STOP_WORDS:
            yield _stem(word)


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            stem = word[: -len(ending)]
            return stem[:-1] if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] else stem
    return word


class Index:
    """An index of tools, for many queries.

    Attributes:
        tools: The tools, in the order of the thread.
    """

    def __init__(self, tools: Sequence[DeferredTool]) -> None:
        self.tools = tools
        counts = [Counter(_document(tool)) for tool in tools]
        lengths = [count.total() for count in counts]
        average = sum(lengths) / len(lengths) if lengths else 1.0
        self._norms = [_K1 * (1 - _B + _B * length / (average or 1.0)) for length in lengths]
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for number, count in enumerate(counts):
            for word, times in count.items():
                self._postings.setdefault(word, []).append((number, times))

    def covers(self, tools: Sequence[DeferredTool]) -> bool:
        """Return whether the index is one of exactly these tools."""
        return len(tools) == len(self.tools) and all(
            new.spec is old.spec for new, old in zip(tools, self.tools, strict=True)
        )

    def find(self, query: str, limit: int) -> list[int]:
        """Return the numbers of the tools that match a query, the best first. Tools with equal scores keep their order."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(words(query)):
            postings = self._postings.get(word, ())
            rarity = math.log(1 + (len(self.tools) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, times in postings:
                score = rarity * times * (_K1 + 1) / (times + self._norms[number])
                scores[number] = scores.get(number, 0.0) + score
        return sorted(scores, key=lambda number: (-scores[number], number))[:limit]


def _document(tool: DeferredTool) -> Iterator[str]:
    spec = tool.spec
    yield from list(words(spec.name)) * _NAME_WEIGHT
    yield from list(words(tool.keywords)) * _KEYWORD_WEIGHT
    yield from words(tool.source)
    yield from words(getattr(spec, "description", ""))
    if isinstance(spec, FunctionSpec):
        for name, schema in _properties(spec.parameters):
            yield from words(name)
            yield from words(_text(schema.get("description")))


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the top-level arguments of a schema."""
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name), part if isinstance(part, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
