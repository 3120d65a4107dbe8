"""The HTTP interface that the client needs: post a body, and read the response as it arrives. For type checkers alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

__all__ = ["Answer", "Transport"]


class Answer(Protocol):
    """The head of a response, and access to its body."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def phrase(self) -> str:
        """The reason phrase, for example ``Not Found``."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case."""
        ...

    async def read(self) -> bytes:
        """Return the next piece of the body; empty at its end.

        Raises:
            CutError: The connection broke before the end of the body.
            SilenceError: Nothing arrived within the time limit.
        """
        ...

    async def aclose(self) -> None:
        """Release the response.

        If it was read to its end, its connection is kept for the next request. Otherwise the connection is closed.
        """
        ...


class Transport(Protocol):
    """Connections to one server, kept open between requests."""

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, silence_s: float, on_sent: Callable[[], None]
    ) -> Answer:
        """Send a request and wait for the head of its response.

        ``silence_s`` is the time limit in seconds for each piece of the body. The limit for the head is at least
        ``HEAD_SILENCE_S``, because some servers send it only after they have read the whole prompt. ``on_sent`` is called when the
        request is on its way, if the transport can tell: there is time then, while the server works.

        Raises:
            SendError: The connection failed, or broke before a response arrived.
            SilenceError: No response arrived within the time limit.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        ...
