"""Values without what is nested too deeply in them: data of models, servers and plugins may be nested without end."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.value import Value

__all__ = ["flattened"]

_DEEPEST = 128
"""As many lists and objects as programs in Rust read nested in one another (``serde_json``)."""


def flattened(value: Any, room: int = _DEEPEST) -> Any:
    """Return a value of the protocol in which everything that is nested more deeply is None.

    Args:
        room: How many lists, objects and values may be nested in one another.
    """
    if not isinstance(value, (Value, Mapping, tuple, list, set, frozenset)):
        return value
    if not room:
        return None
    if isinstance(value, Value):
        slim = copy.copy(value)
        slim.__dict__.update({name: flattened(part, room - 1) for name, part in value.__dict__.items()})
        return slim
    if isinstance(value, Mapping):
        return {key: flattened(part, room - 1) for key, part in value.items()}
    return tuple(flattened(part, room - 1) for part in value)
