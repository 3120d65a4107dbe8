"""What the client needs of HTTP: post a body, get an answer whose bytes come as they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["CONNECT_S", "HEAD_SILENCE_S", "Answer", "CutError", "SendError", "SilenceError", "Transport"]


HEAD_SILENCE_S = 300.0
CONNECT_S = 15.0
"""Longest wait for a connection."""


class SendError(Exception):
    """No connection, or one that broke before an answer came."""


class CutError(Exception):
    """The answer broke off."""


class SilenceError(Exception):
    """Nothing came for longer than was to be waited for."""


class Answer(Protocol):
    """The head of an answer, and a way to its body."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def phrase(self) -> str:
        """The words beside it (``Not Found``)."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end.

        Raises:
            CutError: The connection broke before the body's end.
            SilenceError: Nothing came for too long.
        """
        ...

    async def aclose(self) -> None:
        """Be done with it: a connection whose answer was read to its end is kept, any other is cut."""
        ...


class Transport(Protocol):
    """Connections to one server, kept open between requests."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, silence_s: float) -> Answer:
        """Send a request and wait for the head of its answer.

        ``silence_s`` is the longest wait for each piece of the body; for the head it is waited at least
        :data:`HEAD_SILENCE_S`, because some servers send it only after they have read the whole prompt.

        Raises:
            SendError: See there.
            SilenceError: No answer came in time.
        """
        ...

    async def aclose(self) -> None:
        """Cut all connections. Safe to call twice."""
        ...
