"""The first line of a script, which may contain settings."""

from __future__ import annotations

import json
import re
from typing import NoReturn

from codex_framework import ToolError
from codex_framework.contract.value import Value

__all__ = ["ScriptSettings", "settings_of"]

_PRAGMA = re.compile(r"[ \t]*// @exec:(?P<settings>[^\r\n]*)(?:\r?\n|$)")
_FIELDS = ("yield_time_ms", "max_output_tokens")
_BOTH = "`yield_time_ms` and `max_output_tokens`"
_LARGEST = 2**53 - 1


class ScriptSettings(Value):
    """A script and its settings.

    Attributes:
        yield_time_ms: How long to wait for its end, in milliseconds. By default, the usual value.
        max_output_tokens: Most tokens of its output. By default, the usual value.
    """

    source: str
    yield_time_ms: int | None = None
    max_output_tokens: int | None = None


def settings_of(text: str) -> ScriptSettings:
    """Return a script without its first line if that contains settings.

    Raises:
        ToolError: The settings are invalid, or nothing follows them.
    """
    found = _PRAGMA.match(text)
    if found is None:
        return ScriptSettings(text)
    source = text[found.end() :]
    if not source.strip():
        raise ToolError("exec pragma must be followed by JavaScript source on subsequent lines")
    given = found["settings"].strip()
    if not given:
        _no_object()
    try:
        settings = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"exec pragma must be valid JSON with supported fields {_BOTH}: {error}") from None
    if not isinstance(settings, dict):
        _no_object()
    for name, value in settings.items():
        if name not in _FIELDS:
            raise ToolError(f"exec pragma only supports {_BOTH}; got `{name}`")
        if type(value) is not int or not 0 <= value <= _LARGEST:
            raise ToolError(f"exec pragma fields {_BOTH} must be non-negative safe integers: {json.dumps(value)}")
    return ScriptSettings(source, settings.get(_FIELDS[0]), settings.get(_FIELDS[1]))


def _no_object() -> NoReturn:
    raise ToolError(f"exec pragma must be a JSON object with supported fields {_BOTH}")
