"""Read JSON strictly by the standard: JSON from models may be forwarded to programs that accept only that."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

__all__ = ["DEEPEST", "check_depth", "is_deep", "strict_json"]

DEEPEST = 128
"""How many lists and objects may be nested in one another: as many as programs in Rust read (``serde_json``)."""


def strict_json(text: str, deepest: int = DEEPEST) -> Any:
    """Return the value of a JSON text.

    ``json.loads`` also reads ``NaN`` and ``Infinity``, and makes an infinite number of ``1e999``. Both would be written as
    words that are not JSON.

    Args:
        deepest: How many lists and objects may be nested in one another.

    Raises:
        ValueError: It is not JSON, or contains a number beyond the range of a float.
        RecursionError: More lists and objects are nested.
    """
    value = _DECODER.decode(text)
    check_depth(value, text, deepest)
    return value


def check_depth(value: Any, text: str, deepest: int = DEEPEST) -> None:
    """Check how deeply the value of a JSON text is nested, which takes time only for a text with many brackets.

    Raises:
        RecursionError: More lists and objects are nested.
    """
    if text.count("[") + text.count("{") > deepest and is_deep(value, deepest):
        raise RecursionError("nested too deeply")


def is_deep(value: Any, deepest: int = DEEPEST) -> bool:
    """Return whether more lists and objects are nested in a value of JSON than so many."""
    level = [value]
    for _ in range(deepest + 1):
        level = [each for each in level if isinstance(each, (dict, list))]
        if not level:
            return False
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return True


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)
"""Made once: ``json.loads`` makes one for every call with options."""
