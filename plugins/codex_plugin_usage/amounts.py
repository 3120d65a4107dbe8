"""Amounts of tokens, and their cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["Amounts", "amounts_of"]

_FIELDS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)


_MOST = 2**63
"""No response has more tokens. A larger number cannot be right, and no price could be multiplied with it."""


@attrs.frozen
class Amounts:
    """Tokens of a response, or of several.

    Attributes:
        input: All tokens of the requests, including ``cached_input`` and ``cache_write``.
        cached_input: Tokens that the provider had in its cache.
        cache_write: Tokens that the provider put into its cache.
        output: All tokens of the responses, including ``reasoning``.
    """

    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """Input and output. Cached and reasoning tokens are parts of these and are not added again."""
        return self.input + self.output

    def __bool__(self) -> bool:
        return bool(self.input or self.output)

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.input + other.input,
            self.cached_input + other.cached_input,
            self.cache_write + other.cache_write,
            self.output + other.output,
            self.reasoning + other.reasoning,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        """Subtract part by part. A part never becomes negative."""
        if not other:
            return self
        return Amounts(*(max(mine - its, 0) for mine, its in zip(self.values, other.values, strict=True)))

    def contains(self, other: Amounts) -> bool:
        """Return whether no part is smaller than the same part of ``other``."""
        return all(mine >= its for mine, its in zip(self.values, other.values, strict=True))

    @property
    def values(self) -> tuple[int, int, int, int, int]:
        """The parts, in the order of the attributes."""
        return self.input, self.cached_input, self.cache_write, self.output, self.reasoning


def amounts_of(usage: object) -> Amounts | None:
    """Return a ``TokenUsage`` of the wire, or None if it is not one."""
    if not isinstance(usage, Mapping) or not ("input_tokens" in usage or "output_tokens" in usage):
        return None
    return Amounts(*(_count(usage.get(name)) for name in _FIELDS))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST else 0
