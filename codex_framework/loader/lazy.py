"""A mapping that is made when it is first read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

__all__ = ["LazyMapping"]

K = TypeVar("K")
V = TypeVar("V")


class LazyMapping(Mapping[K, V]):
    """A mapping that a function makes when it is first read.

    Args:
        make: Returns the mapping. It is called at most once.
    """

    def __init__(self, make: Callable[[], Mapping[K, V]]) -> None:
        self._make = make

    @cached_property
    def _mapping(self) -> Mapping[K, V]:
        return self._make()

    def __getitem__(self, key: K) -> V:
        return self._mapping[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._mapping)

    def __len__(self) -> int:
        return len(self._mapping)

    def __repr__(self) -> str:
        return repr(self._mapping)
