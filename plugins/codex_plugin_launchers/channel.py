"""Messages between processes: JSON, each with its length before it. Nothing that is read can run code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any

__all__ = ["LONGEST", "Channel"]

LONGEST = 64 * 1024 * 1024
"""The length of the longest message, in bytes."""


class Channel:
    """One end of a connection. Use :meth:`open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, connected: socket.socket) -> Channel:
        """Return a channel over a connected socket, which it owns from now on."""
        connected.settimeout(0)
        return cls(*await asyncio.open_connection(sock=connected))

    def send(self, message: Mapping[str, Any]) -> bool:
        """Send a message. What the other side has not read yet is kept. Return False if the message is too long, and was not sent."""
        text = json.dumps(message, separators=(",", ":")).encode()
        if len(text) > LONGEST:
            return False
        if not self._writer.is_closing():
            self._writer.write(len(text).to_bytes(4) + text)
        return True

    async def drain(self) -> None:
        """Wait until the other side has read most of what was sent, or is gone."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def receive(self) -> Mapping[str, Any] | None:
        """Return the next message, or None if the other side is gone.

        Raises:
            ValueError: It is no message.
        """
        try:
            size = int.from_bytes(await self._reader.readexactly(4))
            if size > LONGEST:
                raise ValueError(f"a message of {size:,} bytes")
            text = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError):
            return None
        try:
            message = json.loads(text)
        except RecursionError as error:
            raise ValueError("a message is nested too deeply") from error
        if not isinstance(message, dict):
            raise ValueError("a message is no object")
        return message

    def close(self) -> None:
        """Close it. The other side receives what was sent before."""
        self._writer.close()

    async def aclose(self) -> None:
        """Close it, and wait until it is closed."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
