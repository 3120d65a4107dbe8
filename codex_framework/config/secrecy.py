"""Which settings are secrets, so that their values are not shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["HIDDEN", "is_secret", "without_secrets"]

HIDDEN = "(hidden)"
"""What is shown instead of a secret."""

_TABLES = ("http_headers", "env", "query_params")
"""Tables in which any value may be a secret."""

_NAME = re.compile(r"token|secret|passw|credential|authorization|cookie|(^|[_-])(api)?_?key$", re.IGNORECASE)
_PUBLIC = re.compile(r"_env_var$|^env_key|_store$|_limit(_|$)|_tokens$|^requires_")
"""Names that look like a secret, but name a variable, a place or a number."""


def is_secret(key: Sequence[str | int]) -> bool:
    """Return whether a text at this key may be a secret."""
    names = [part for part in key if isinstance(part, str)]
    if any(name in _TABLES for name in names[:-1]) or names[:2] == ["shell_environment_policy", "set"]:
        return True
    return any(_NAME.search(name) and not _PUBLIC.search(name) for name in names[1:] or names)


def without_secrets(value: Any, key: Sequence[str | int] = ()) -> Any:
    """Return a value in which every text that may be a secret is replaced.

    Args:
        value: The value of a setting.
        key: The key of the setting.
    """
    if isinstance(value, Mapping):
        return {name: without_secrets(part, (*key, name)) for name, part in value.items()}
    if isinstance(value, list):
        return [without_secrets(part, (*key, index)) for index, part in enumerate(value)]
    return HIDDEN if isinstance(value, str) and is_secret(key) else value
