"""The WebSocket of one thread, and the server's knowledge of the thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codex_framework import ModelError
    from codex_framework.contract.protocol.items import ResponseItem
    from codex_lib_model_client.websocket import WebSocket

__all__ = ["Session", "close_unused", "has_succeeded"]


class Session:
    """The connection of a thread, and the server's knowledge of the thread.

    Attributes:
        known: The input of the last response and its items.
        response_id: The id of the last response. Empty means that the server knows nothing.
        shape: The fields in which a request must equal the last one to refer to it.
        lite: The header with which the connection was opened. It says in which form requests come.
        failures: Number of failed requests in a row.
        failure: The last failure.
        fallen: Whether the thread uses server-sent events instead.
        opening: The connection that is being opened before the first request.
        preparing: The wait for a server that prepares for the first request. The connection belongs to it.
        fresh: Whether no request has used the connection.
    """

    def __init__(self) -> None:
        self.socket: WebSocket | None = None
        self.busy = False
        self.known: list[ResponseItem] = []
        self.response_id = ""
        self.shape = b""
        self.lite = ""
        self.failures = 0
        self.failure = ""
        self.fallen = False
        self.opening: asyncio.Task[WebSocket | None] | None = None
        self.preparing: asyncio.Task[bool] | None = None
        self.fresh = False
        self.expiry: asyncio.TimerHandle | None = None

    @property
    def is_taken(self) -> bool:
        """Whether there is a connection already, or one is being opened."""
        is_preparing = self.preparing is not None and not self.preparing.done()
        return self.busy or self.socket is not None or self.opening is not None or is_preparing

    def forget(self) -> None:
        """Forget the server's knowledge."""
        self.known, self.response_id, self.shape = [], "", b""

    def fail(self, error: ModelError, retries: int) -> None:
        """Count a failure of the connection. After so many retries, the next request is sent in another way."""
        self.forget()
        self.failures += 1
        self.failure = str(error)
        error.starts_over = self.failures > retries

    def fall(self) -> str:
        """Use no WebSocket from now on, and return why."""
        self.fallen = True
        return self.failure

    def take(self) -> WebSocket | None:
        """Return the connection if it can be used. Otherwise close it."""
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None
        socket, self.socket = self.socket, None
        if socket is not None and socket.silent():
            return socket
        if socket is not None:
            socket.leave()
        self.forget()
        return None

    def close(self) -> None:
        """Close an unused connection."""
        if self.opening is not None:
            self.opening.cancel()
            self.opening.add_done_callback(close_unused)  # it may be open already, and nobody has seen it yet
        if self.preparing is not None:
            self.preparing.cancel()
        self.opening = self.preparing = None
        socket = self.take()
        if socket is not None:
            socket.leave()
        self.forget()


def has_succeeded(task: asyncio.Task[Any]) -> bool:
    """Return whether a task has ended with a result that is not empty."""
    return not task.cancelled() and task.exception() is None and bool(task.result())


def close_unused(opening: asyncio.Task[WebSocket | None]) -> None:
    """Close a connection that is not needed any longer."""
    if has_succeeded(opening) and (socket := opening.result()) is not None:
        socket.leave()
