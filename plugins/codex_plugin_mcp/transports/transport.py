"""The interface of a transport."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from codex_framework.toolkit.strict_json import DEEPEST

__all__ = ["MAX_MESSAGE_BYTES", "Fault", "Message", "Transport", "read_messages", "whole_number"]

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Maximum size of a message of a server, in bytes. A larger one is skipped and reported."""

Message: TypeAlias = Mapping[str, Any]
"""A JSON-RPC message as plain JSON data."""

Fault: TypeAlias = Callable[[str], None]
"""Reports a mistake of the server, in a sentence without its name. The connection continues."""


def read_messages(data: str | bytes, charset: str = "") -> tuple[list[Message], bool]:
    """Return the messages in a text of a server, and whether the text contains anything else.

    Deviations from the specification are accepted if only one meaning is possible: a byte order mark, characters that are not
    UTF-8, control characters in strings, several messages in a text or in an array, ids of answers that are strings or floats,
    and null for a member that is absent. ``NaN``, ``Infinity`` and numbers beyond the range of a float become null, and so do
    values that are nested too deeply for clients.

    Args:
        charset: The encoding that the server states. By default, the one of UTF-8, UTF-16 and UTF-32 that the bytes look like.

    Raises:
        ValueError, RecursionError: It is not JSON, or nested much too deeply.
    """
    text = (data if isinstance(data, str) else _decode_text(data, charset)).strip(_AROUND)
    values, is_complete = _values(text)
    if text.count("[") + text.count("{") > DEEPEST:
        _flatten(values)
    parts = _parts(values)
    messages: list[Message] = [_regular(part) for part in parts if isinstance(part, dict)]
    return messages, not is_complete or len(messages) != len(parts)


def _parts(values: list[Any]) -> list[Any]:
    """Return values, with the elements of those that are lists."""
    return [part for value in values for part in (value if isinstance(value, list) else [value])]


def whole_number(value: object) -> int | None:
    """Return the whole number that a server wrote as a number or as a string, or None if it is something else."""
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _decode_text(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset or json.detect_encoding(data))
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _values(text: str) -> tuple[list[Any], bool]:
    """Return the JSON values at the beginning of a text, and whether they are the whole text."""
    values: list[Any] = []
    position = 0
    while position < len(text) or not values:
        try:
            value, end = _DECODER.raw_decode(text, position)
        except ValueError:
            if not any(isinstance(part, dict) for part in _parts(values)):
                raise
            return values, False
        values.append(value)
        position = _SPACE.match(text, end).end()  # type: ignore[union-attr]  # it matches everywhere
    return values, True


def _regular(message: dict[str, Any]) -> Message:
    """Return a message without members that are null, and with the id of an answer as a number."""
    absent: tuple[str, ...]
    if message.get("method") is not None:
        absent = ("id",) if message.get("id") is None else ()
    else:
        message["id"] = message.get("id") if (number := whole_number(message.get("id"))) is None else number
        error, has_result = message.get("error"), "result" in message
        is_error = error if has_result and message["result"] is not None else error is not None or not has_result
        absent = ("method", "result" if is_error else "error")
    return {key: value for key, value in message.items() if key not in absent}


def _flatten(values: list[Any]) -> None:
    """Replace values that are nested too deeply by null."""
    level: list[Any] = values
    for _ in range(DEEPEST - 1):
        level = [part for each in level for _, part in _nested_values(each)]
    for each in level:
        for key, _ in _nested_values(each):
            each[key] = None


def _nested_values(value: Any) -> list[tuple[Any, Any]]:
    """Return the lists and objects in a value, with their keys."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(key, part) for key, part in parts if isinstance(part, (dict, list))]


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None, strict=False)
_AROUND = " \t\r\n\0\ufeff"
"""Characters that may precede and follow a JSON text."""

_SPACE = re.compile(f"[{_AROUND}]*")

_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)


class Transport(Protocol):
    """A connection to one server, for one start. A reconnection uses a new transport.

    The constructor takes ``on_fault``, which is called for skipped data: lines that are not JSON, messages that are too large.
    """

    @property
    def process_id(self) -> int | None:
        """The id of the server's process, if it has been started on this machine."""
        ...

    async def start(self) -> None:
        """Open the connection.

        Raises:
            ConnectionFailed: It cannot be opened.
        """
        ...

    async def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            ConnectionFailed: The connection is lost.
        """
        ...

    def messages(self) -> AsyncIterator[Message]:
        """Yield the messages of the server. The iterator ends with the connection, and may be used once."""
        ...

    def negotiated(self, version: str) -> None:
        """Take note of the protocol revision, after the server has answered ``initialize``."""
        ...

    def why_ended(self) -> str:
        """Return a sentence about why the connection ended, for users. Empty if nothing is known, or it has not ended."""
        ...

    async def aclose(self) -> None:
        """Close the connection. Returns soon, even if the server hangs. May be called twice."""
        ...
