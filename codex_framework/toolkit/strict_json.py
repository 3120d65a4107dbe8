"""Reading JSON as the standard defines it: what comes from models may be passed on to programs that read nothing else."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

__all__ = ["strict_json"]


def strict_json(text: str) -> Any:
    """Return the value of a JSON text.

    ``json.loads`` also reads ``NaN`` and ``Infinity``, and makes an infinite number of ``1e999``. Both would be written as words that
    are not JSON.

    Raises:
        ValueError: It is not JSON, or contains a number beyond the range of a float.
        RecursionError: It is nested too deeply.
    """
    return _DECODER.decode(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refused)
"""Made once: ``json.loads`` makes one for every call with options."""
