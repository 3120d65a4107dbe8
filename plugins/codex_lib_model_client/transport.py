"""Protocols for HTTP transports: post a body, and read the response as it arrives. Used only by type checkers."""

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

    @property
    def has_arrived(self) -> bool:
        """Whether all of the body has arrived."""
        ...

    async def read(self, within_s: float) -> bytes:
        """Return the next piece of the body, or ``b""`` at its end.

        Raises:
            CutError: The connection broke before the end of the body.
            SilenceError: Nothing arrived within ``within_s`` seconds.
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
        self, url: str, headers: Mapping[str, str], body: bytes, *, head_s: float, on_sent: Callable[[], None]
    ) -> Answer:
        """Send a request and wait for the head of its response.

        ``head_s`` is the time limit in seconds for the whole head, counted from the end of the request. ``on_sent`` is called when
        the request is on its way, if the transport can detect that. It can do work while the server prepares its response.

        Raises:
            SendError: The connection failed, or broke before a response arrived.
            SilenceError: The complete head did not arrive within the time limit.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        ...
