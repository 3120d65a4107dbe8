"""WebSocket connections to a model server, on the sans-I/O protocol of websockets and the connections of the HTTP transport.

Import it only when a WebSocket is opened: websockets takes 20 ms to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Event, State
from websockets.uri import parse_uri

from codex_lib_model_client.connection import Connection
from codex_lib_model_client.sse import EVENT_LIMIT
from codex_lib_model_client.transport_errors import CutError, SendError, SilenceError

if TYPE_CHECKING:
    from codex_lib_model_client.dialing import Dialer

__all__ = ["UpgradeRefusedError", "WebSocket", "open_socket", "open_websocket"]

_FROM_PROTOCOL = frozenset({"upgrade", "connection"})
_WHOLE_S = 3600.0
"""Time limit for each read of the upgrade, in seconds. The limit for all of it is shorter."""

_BODY_LIMIT = 65_536
"""Maximum number of bytes kept of the body of a refusal."""

_CLOSED = "websocket closed by server before response.completed"
_RESET = "WebSocket protocol error: Connection reset without closing handshake"


class UpgradeRefusedError(Exception):
    """The server answered the request for a WebSocket with an ordinary response.

    Attributes:
        status: Its status code.
        phrase: Its reason phrase.
        headers: Its headers, with names in lower case.
        body: Its body, or the beginning of it.
    """

    def __init__(
        self, status: int, phrase: str = "", headers: Mapping[str, str] = MappingProxyType({}), body: bytes = b""
    ) -> None:
        super().__init__(f"the server answered the request for a WebSocket with status {status}")
        self.status = status
        self.phrase = phrase
        self.headers = headers
        self.body = body


class WebSocket:
    """An open WebSocket. It is both the answer and the splitter of an ``EventReader``.

    Attributes:
        status: Always 101.
        phrase: The reason phrase after it.
        has_arrived: Always false, because other messages may follow.
        headers: The headers of the upgrade, with names in lower case.
        unwanted: Number of messages skipped so far.
        skip: The beginning of messages that are not needed. Empty means that all are needed.

    Args:
        frames: Frames that arrived together with the upgrade. They belong to the first messages.
    """

    status = 101
    phrase = "Switching Protocols"
    has_arrived = False

    def __init__(
        self,
        connection: Connection,
        protocol: ClientProtocol,
        headers: Mapping[str, str],
        frames: Sequence[Event] = (),
        *,
        skip: str = "",
    ) -> None:
        self.headers = headers
        self.unwanted = 0
        self.skip = skip
        self._frames = frames
        self._connection = connection
        self._protocol = protocol
        self._parts: list[bytes] = []

    @property
    def alive(self) -> bool:
        """Whether messages can be sent. After a damaged frame or a close frame, none can."""
        return self._connection.alive and self._protocol.state is State.OPEN

    @property
    def close_code(self) -> int | None:
        """The code with which the server has closed the connection (RFC 6455, section 7.4), if it has."""
        closed = self._protocol.close_rcvd
        return None if closed is None else closed.code

    @property
    def close_reason(self) -> str:
        """The reason that the server has given for closing the connection."""
        closed = self._protocol.close_rcvd
        return "" if closed is None else closed.reason

    def send(self, text: bytes) -> None:
        """Send a message, which must be UTF-8.

        Raises:
            CutError: The connection is closed.
        """
        if not self.alive:
            raise CutError(_CLOSED)
        self._protocol.send_text(text)
        self._flush()

    def ping(self) -> None:
        """Ask the server for a sign of life. The answer is not a message, but it is read like one.

        Raises:
            CutError: The connection is closed.
        """
        if not self.alive:
            raise CutError(_CLOSED)
        self._protocol.send_ping(b"")
        self._flush()

    async def drain(self) -> None:
        """Wait until the server has read most of the sent data, to bound the memory. One caller at a time."""
        await self._connection.drain()

    def silent(self) -> bool:
        """Return whether no unsolicited data has arrived. Only then can another message be sent."""
        try:
            pieces = self._connection.take()
            return self.alive and not self.feed(pieces) and not self._parts
        except (CutError, OverflowError):
            return False

    async def read(self, within_s: float) -> bytes:
        """Return the next bytes. Raises as :meth:`Answer.read <codex_lib_model_client.transport.Answer.read>`."""
        try:
            return await self._connection.read(within_s)
        except CutError as error:
            raise CutError(_RESET if self._protocol.close_rcvd is None else _CLOSED) from error

    def feed(self, piece: bytes, /) -> list[str]:
        """Return the messages that these bytes complete.

        Raises:
            CutError: The server closes the connection.
            OverflowError: A message is too long, or is not text.
        """
        if not piece:
            return []
        self._protocol.receive_data(piece)
        messages = self._messages()
        self._answer()
        if not messages:
            self._check()
        return messages

    async def aclose(self) -> None:
        """Close the connection immediately."""
        self._connection.cut()

    def leave(self) -> None:
        """Close the connection, and tell the server."""
        if self.alive:
            self._protocol.send_close(1000)
            self._flush()
            self._connection.transport.close()
            self._connection.alive = False
        else:
            self._connection.cut()

    def _messages(self) -> list[str]:
        messages: list[str] = []
        frames, self._frames = [*self._frames, *self._protocol.events_received()], ()
        for frame in frames:
            assert isinstance(frame, Frame)
            if frame.opcode is Opcode.BINARY:
                raise OverflowError("a binary message, which no event is")
            if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
                continue
            self._parts.append(bytes(frame.data))
            if not frame.fin:
                continue
            text = (self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)).decode("utf-8", "replace")
            self._parts.clear()
            if self.skip and text.startswith(self.skip):
                self.unwanted += 1
            else:
                messages.append(text)
        return messages

    def _check(self) -> None:
        error = self._protocol.parser_exc
        if isinstance(error, PayloadTooBig):
            raise OverflowError("an event that is too long")
        if error is not None or self._protocol.close_rcvd is not None:
            self._connection.cut()
            raise CutError(_CLOSED)

    def _answer(self) -> None:
        """Answer pings and a close frame, unless the server does not read: endless pings must not fill the memory."""
        if self._connection.writable:
            self._flush()
        else:
            self._protocol.data_to_send()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data and self._connection.alive:
                self._connection.transport.write(data)


async def open_websocket(
    dialer: Dialer, url: str, headers: Mapping[str, str], limit_s: float, *, max_size: int = EVENT_LIMIT
) -> WebSocket:
    """Open a WebSocket.

    Args:
        url: A URL with the scheme ``ws`` or ``wss``.
        headers: The headers of the request, in addition to the headers of the protocol.
        limit_s: The time limit in seconds, from the connection to the upgrade.
        max_size: The longest message that the server may send, in bytes.

    Raises:
        ModelError: The certificates cannot be loaded.
        SendError: The connection failed, or the response is not an upgrade.
        SilenceError: The time limit expired.
        UpgradeRefusedError: The server answered with another status.
    """
    scheme, _, rest = url.partition("://")  # a login in the URL is a header already
    place, slash, path = rest.partition("/")
    uri = parse_uri(f"{scheme}://{place.rpartition('@')[2]}{slash}{path}")
    protocol = ClientProtocol(uri, max_size=max_size)
    request = protocol.connect()
    for name, value in headers.items():
        if name == "host":  # of the table of the provider
            del request.headers[name]
        if name not in _FROM_PROTOCOL:
            request.headers[name] = value
    connection: Connection | None = None
    try:
        async with asyncio.timeout(limit_s):
            connection = await dialer.dial()
            upgraded = await _upgrade(connection, protocol, request)
            dialer.note_answer()
            return upgraded
    except BaseException as error:
        if connection is not None:
            connection.cut()
        if isinstance(error, TimeoutError):
            raise SilenceError from error
        raise


async def _upgrade(connection: Connection, protocol: ClientProtocol, request: Request) -> WebSocket:
    connection.begin_raw()
    protocol.send_request(request)
    connection.transport.write(b"".join(protocol.data_to_send()))
    while True:
        try:
            protocol.receive_data(await connection.read(_WHOLE_S))
        except CutError as error:
            if not connection.heard:
                raise SendError(str(error)) from error
            protocol.receive_eof()  # which ends the body of a response without a length
            _check_handshake(protocol)
            raise SendError(str(error)) from error
        _check_handshake(protocol)
        events = protocol.events_received()
        if events and isinstance(events[0], Response):
            received = {name.lower(): value for name, value in events[0].headers.raw_items()}
            return WebSocket(connection, protocol, received, events[1:])


def _check_handshake(protocol: ClientProtocol) -> None:
    error = protocol.handshake_exc
    if isinstance(error, InvalidStatus):
        raise _refusal(error.response) from error
    if error is not None:
        raise SendError(f"no WebSocket: {error}") from error


def _refusal(response: Response) -> UpgradeRefusedError:
    headers = {name.lower(): value for name, value in response.headers.raw_items()}
    return UpgradeRefusedError(
        response.status_code, response.reason_phrase, headers, bytes(response.body or b"")[:_BODY_LIMIT]
    )


async def open_socket(
    dialer: Dialer, url: str, headers: Mapping[str, str], limit_s: float, *, max_size: int = EVENT_LIMIT
) -> WebSocket:
    """Open a WebSocket as :func:`open_websocket` does, with the errors of requests to a model server.

    Raises:
        ModelError: The server cannot be reached, or is no server of WebSockets. A retry can help.
        UpgradeRefusedError: The server answered with another status.
    """
    from codex_lib_model_client.faults import unreachable

    try:
        return await open_websocket(dialer, url, headers, limit_s, max_size=max_size)
    except SendError as error:
        raise unreachable(url, str(error), error.hint) from error
    except SilenceError as error:
        raise unreachable(url, f"no WebSocket within {limit_s:g} s") from error
