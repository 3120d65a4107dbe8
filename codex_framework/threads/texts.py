"""The texts within values."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from codex_framework.contract.value import Value, fields_of

__all__ = ["map_fields", "map_texts"]

V = TypeVar("V", bound=Value)


def map_fields(value: V, change: Callable[[str], str]) -> V:
    """Return a value with every text in its fields changed, or the value itself if nothing is different."""
    changes: dict[str, Any] = {}
    for field in fields_of(type(value)):
        before = getattr(value, field.name)
        after = map_texts(before, change)
        if after is not before:
            changes[field.alias] = after
    return value.evolve(**changes) if changes else value


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return any value with every text in it changed."""
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        text = change(value)
        return value if text == value else text
    if isinstance(value, Value):
        return map_fields(value, change)
    if isinstance(value, Mapping):
        return {map_texts(key, change): map_texts(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [map_texts(part, change) for part in value]
    if isinstance(value, tuple):
        return tuple(map_texts(part, change) for part in value)
    return value
