"""The interface of a transport."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from codex_framework.toolkit.strict_json import DEEPEST

__all__ = ["MAX_MESSAGE_BYTES", "Fault", "Message", "Transport", "decoded"]

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Maximum size of a message of a server, in bytes. A larger one is skipped and reported."""

Message: TypeAlias = Mapping[str, Any]
"""A JSON-RPC message as plain JSON data."""

Fault: TypeAlias = Callable[[str], None]
"""Reports what a server did wrong, in a sentence without its name. The connection continues."""


def decoded(data: str | bytes) -> Any:
    """Return the value of a JSON text of a server.

    ``NaN``, ``Infinity`` and numbers beyond the range of a float become null: many servers write them, and no client could read them.
    So does what is nested more deeply than clients read.

    Raises:
        ValueError, RecursionError: It is not JSON, not UTF-8, or nested much too deeply.
    """
    text = (data.decode() if isinstance(data, bytes) else data).strip()
    value = _DECODER.decode(text)
    if text.count("[") + text.count("{") > DEEPEST:
        _flatten(value)
    return value


def _flatten(value: Any) -> None:
    """Replace what is nested too deeply by null."""
    level: list[Any] = [value]
    for _ in range(DEEPEST - 1):
        level = [part for each in level for _, part in _nested(each)]
    for each in level:
        for key, _ in _nested(each):
            each[key] = None


def _nested(value: Any) -> list[tuple[Any, Any]]:
    """Return the lists and objects in a value, with their keys."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(key, part) for key, part in parts if isinstance(part, (dict, list))]


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None)


class Transport(Protocol):
    """A connection to one server, for one start. A reconnection uses a new transport.

    The constructor takes ``on_fault``, which is called for what is skipped: lines that are not JSON, messages that are too large.
    """

    @property
    def process_id(self) -> int | None:
        """The process of the server. None if it has not been started, or is not one of this machine."""
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
