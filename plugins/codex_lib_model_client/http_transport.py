"""The transport: HTTP/1.1 over asyncio, with TLS and proxies.

httptools parses (llhttp, the parser of Node.js), asyncio connects and encrypts, socksio speaks to SOCKS proxies. Together they
take 3 ms to import; httpx takes 25, and the event-loop layer below it another 35. Parsing a chunk of a response costs 0.1
microseconds; h11 takes 5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from codex_lib_model_client.connection import Connection
from codex_lib_model_client.transport_errors import SendError

if TYPE_CHECKING:
    from codex_lib_model_client.dialing import Dialer

__all__ = ["HttpTransport"]

_KEPT_S = 60.0
"""How long an unused connection is kept, in seconds."""

_KEPT = 20
"""How many unused connections are kept."""


class HttpTransport:
    """A :class:`~codex_lib_model_client.transport.Transport` over HTTP/1.1.

    Args:
        dialer: Opens connections to the server. All requests go to this server.
    """

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._idle: dict[Connection, asyncio.TimerHandle] = {}
        self._busy: set[Connection] = set()

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, head_s: float, on_sent: Callable[[], None]
    ) -> HttpAnswer:
        """Send a request; see :meth:`Transport.post <codex_lib_model_client.transport.Transport.post>`."""
        message = self._message(url, headers, body)
        connection = self._take_idle()
        if connection is not None:
            try:
                return await self._exchange(connection, message, head_s, on_sent)
            except SendError:
                if connection.heard:
                    raise
                # The server closed the unused connection before it got the request, so the request can be repeated.
        # Send before the event loop continues, where that is possible. Other tasks that are ready, such as preparing the sandbox,
        # then run while the server responds, and do not delay the request.
        answer = await self._send_early(message, head_s, on_sent)
        if answer is not None:
            return answer
        local, sent = self._dialer.sent_at_once(message)
        connection = await self._dialer.dial(local)
        return await self._exchange(connection, message[sent:], head_s, on_sent)

    async def aclose(self) -> None:
        """Close all connections."""
        for alarm in self._idle.values():
            alarm.cancel()
        for connection in (*self._idle, *self._busy):
            connection.cut()
        self._idle.clear()
        self._busy.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next iteration

    async def _send_early(self, message: bytes, head_s: float, on_sent: Callable[[], None]) -> HttpAnswer | None:
        """Send a request over the connection that was opened early. Return None if no such connection is open, or if it broke unused.

        As with other unused connections, a request of which the server says nothing can be repeated.
        """
        secure = self._dialer.take_if_ready()
        if secure is None:
            return None
        sent = secure.send(message)
        connection: Connection | None = None
        try:
            connection = await self._dialer.adopt(secure)
            return await self._exchange(connection, message[sent:], head_s, on_sent)
        except SendError:
            if connection is not None and connection.heard:
                raise
            return None

    def _message(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {self._dialer.prefix}{target} HTTP/1.1"]
        if "host" not in headers:  # the table of a provider may have its own
            lines.append(f"host: {parts.netloc.rpartition('@')[2]}")
        lines.extend(f"{name}: {value}" for name, value in (*headers.items(), *self._dialer.headers.items()))
        lines.append(f"content-length: {len(body)}\r\n\r\n")
        return "\r\n".join(lines).encode("latin-1") + body

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection, alarm = self._idle.popitem()
            alarm.cancel()
            connection.on_lost = None
            if connection.reusable:
                return connection
            connection.cut()
        return None

    async def _exchange(
        self, connection: Connection, message: bytes, head_s: float, on_sent: Callable[[], None]
    ) -> HttpAnswer:
        self._busy.add(connection)
        try:
            connection.begin()
            await connection.send(message, head_s, on_sent)
        except BaseException:
            self.give_back(connection)
            raise
        self._dialer.note_answer()
        return HttpAnswer(self, connection)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for a while if it is reusable. Otherwise close it."""
        self._busy.discard(connection)
        if not connection.reusable or len(self._idle) >= _KEPT:
            connection.cut()
            return
        connection.on_lost = self._forget
        self._idle[connection] = asyncio.get_running_loop().call_later(_KEPT_S, connection.cut)

    def _forget(self, connection: Connection) -> None:
        alarm = self._idle.pop(connection, None)
        if alarm is not None:
            alarm.cancel()


class HttpAnswer:
    """An :class:`~codex_lib_model_client.transport.Answer` over HTTP/1.1."""

    def __init__(self, transport: HttpTransport, connection: Connection) -> None:
        self._transport: HttpTransport | None = transport
        self._connection = connection
        self.status = connection.status
        self.phrase = connection.phrase
        self.headers: Mapping[str, str] = connection.headers

    @property
    def has_arrived(self) -> bool:
        """Whether all of the body has arrived."""
        return self._connection.has_arrived

    async def read(self, within_s: float) -> bytes:
        """Return the next piece of the body, or ``b""`` at its end."""
        return await self._connection.read(within_s)

    async def aclose(self) -> None:
        """Release the connection."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.give_back(self._connection)
