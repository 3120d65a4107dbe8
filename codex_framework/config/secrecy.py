"""The settings that are secrets, so that their values are not shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.config.schema import KEYS, child_pattern

__all__ = ["HIDDEN", "is_secret", "without_secrets"]

HIDDEN = "(hidden)"
"""The replacement for a secret."""

_TABLES = ("http_headers", "headers", "env", "query_params")
"""Tables in which any value may be a secret."""

# Patterns are compiled on their first use: most runs need none of these before their first request.
_NAME = r"(?i)token|secret|passw|credential|authorization|cookie|(^|[_-])(api)?_?key$"
_PUBLIC = r"_env_var$|^env_key|_store$|_limit(_|$)|_tokens$|^requires_"
"""Names that look like a secret, but name a variable, a place or a number."""

_LOGIN = r"(?<=://)[^\s'\"<>`]*@"
_QUERY = r"(?<=://)([^\s?'\"<>`]*)\?[^\s'\"<>`]+"
"""Parts of a URL that may be a secret. A password may contain unescaped ``/``, ``?`` and ``#``."""


def is_secret(key: Sequence[str | int]) -> bool:
    """Return whether a whole text at this key may be a secret."""
    names = [part for part in key if isinstance(part, str)]
    if any(name in _TABLES for name in names[:-1]) or _is_declared_secret(names):
        return True
    return any(map(_is_secret_name, names[1:] or names))


def _is_declared_secret(names: Sequence[str]) -> bool:
    """Return whether the schema says that a key, or a table around it, is secret."""
    pattern = ""
    for name in names:
        child = child_pattern(pattern, name)
        if child is None:
            return False
        kind = KEYS[child].type if child in KEYS else "table"
        if "secret" in kind:
            return True
        pattern = "" if kind == "profile" else child
    return False


def _is_secret_name(name: str) -> bool:
    return re.search(_NAME, name) is not None and re.search(_PUBLIC, name) is None


def without_secrets(value: Any, key: Sequence[str | int] = ()) -> Any:
    """Return a value in which every text that may be a secret is replaced.

    Args:
        value: The value of a setting.
        key: The key of the setting.
    """
    if isinstance(value, Mapping):
        return {name: without_secrets(part, (*key, name)) for name, part in value.items()}
    if isinstance(value, list):
        parts = [without_secrets(part, (*key, index)) for index, part in enumerate(value)]
        return [_argument(part, value[index - 1] if index else None) for index, part in enumerate(parts)]
    if not isinstance(value, str):
        return value
    return HIDDEN if is_secret(key) or _is_webhook(value, key) else _without_parts(value)


def _is_webhook(text: str, key: Sequence[str | int]) -> bool:
    """Return whether a text is the address of a webhook, whose path is what permits to post there."""
    return "://" in text and any("webhook" in part for part in key if isinstance(part, str))


def _without_parts(text: str) -> str:
    """Return a text in which the logins and the queries of URLs are replaced."""
    return re.sub(_QUERY, rf"\1?{HIDDEN}", re.sub(_LOGIN, f"{HIDDEN}@", text)) if "://" in text else text


def _argument(part: Any, before: Any) -> Any:
    """Return an argument of a program without the secret that its name, or the option before it, announces."""
    if not isinstance(part, str):
        return part
    if isinstance(before, str) and "=" not in before and _names_secret(before) and not part.startswith("-"):
        return HIDDEN
    name, separator, _ = part.partition("=")
    return f"{name}={HIDDEN}" if separator and _names_secret(name) else part


def _names_secret(option: str) -> bool:
    name = option.lstrip("-").replace("-", "_")
    return option.startswith("-") and _is_secret_name(name)
