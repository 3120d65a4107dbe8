"""Redaction of values: every text in them is passed to the interceptors that redact."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from codex_framework.contract.value import Value, fields_of

__all__ = ["cleaned", "redacted"]

V = TypeVar("V", bound=Value)


def redacted(value: V, redact: Callable[[str], str]) -> V:
    """Return a value with every text in it redacted."""
    changes: dict[str, Any] = {}
    for field in fields_of(type(value)):
        before = getattr(value, field.name)
        after = cleaned(before, redact)
        if after is not before:
            changes[field.alias] = after
    return value.evolve(**changes) if changes else value


def cleaned(value: Any, redact: Callable[[str], str]) -> Any:
    """Return any value with every text in it redacted."""
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        text = redact(value)
        return value if text == value else text
    if isinstance(value, Value):
        return redacted(value, redact)
    if isinstance(value, Mapping):
        return {cleaned(key, redact): cleaned(part, redact) for key, part in value.items()}
    if isinstance(value, list):
        return [cleaned(part, redact) for part in value]
    if isinstance(value, tuple):
        return tuple(cleaned(part, redact) for part in value)
    return value
