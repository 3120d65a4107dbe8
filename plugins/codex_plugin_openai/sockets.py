"""Responses over WebSockets: one connection for each thread. A request contains only parts that the server lacks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codex_framework import ItemAdded, ModelError, ModelRequest, ProviderInfo
from codex_lib_model_client.headers import with_token
from codex_lib_model_client.opening import open_dialer
from codex_lib_model_client.server_client import EventReader
from codex_lib_model_client.transport_errors import CutError, SilenceError
from codex_plugin_openai.socket_session import Session, close_unused, has_succeeded

if TYPE_CHECKING:
    from codex_framework.contract.protocol.items import ResponseItem
    from codex_lib_model_client.dialing import Dialer
    from codex_lib_model_client.measuring import ResponseMeter
    from codex_lib_model_client.token_source import TokenSource
    from codex_lib_model_client.websocket import WebSocket
    from codex_plugin_openai.body import BodyWriter

__all__ = ["Exchange", "Sockets"]

_BETA = "responses_websockets=2026-02-06"
_STARTED = "x-codex-ws-stream-request-start-ms"
_LITE = "x-openai-internal-codex-responses-lite"
_CONNECT_MS = 15_000
_KEPT_S = 300.0
"""How long an unused connection is kept, in seconds. The server forgets the thread's responses with it."""
_KEPT_TRIED_S = 60.0
"""The same where ordinary requests do as well: as long as their connections are kept, so that no router has forgotten it."""
_KEPT = 32
"""How many unused connections are kept."""
_SESSIONS = 1024
"""How many threads are remembered that have no connection."""
_OF_POST = frozenset({"accept", "accept-encoding", "content-type"})
_IDLE = "idle timeout waiting for websocket"
_NO_WEBSOCKET = frozenset({400, 404, 405, 426, 501})
"""Statuses of servers that have no WebSocket. They are not asked for one again."""
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
"""Statuses that say nothing about WebSockets. After any other one, a server that only may have WebSockets is not asked again."""
_TRIES = 2
"""The number of WebSocket failures that a thread tolerates if ordinary requests work as well. After one more failure, it opens
no other.
"""
_FIRST_EVENT_S = 20.0
"""Time limit in seconds for the first event if an ordinary request works as well. Servers send it immediately."""


class Exchange(EventReader):
    """One response over a WebSocket.

    Attributes:
        reused: Whether the connection was open before the request.
        headers: The headers with which the connection was opened. Empty if it was already open.
        items: The completed items of the response.
        expendable: Whether the request is silently sent again if the connection fails before the first event.
    """

    def __init__(
        self, owner: Sockets, session: Session, socket: WebSocket, silence_s: float, meter: ResponseMeter | None
    ) -> None:
        super().__init__(socket, socket, silence_s, meter, lambda _: None, silence=_IDLE)
        self.reused = False
        self.headers: Mapping[str, str] = {}
        self.items: list[ResponseItem] = []
        self.expendable = False
        self._owner = owner
        self._session = session
        self._socket = socket
        self._before = session.response_id

    async def batch(self) -> list[str] | None:
        """Return the next events. A connection that was opened in advance may have broken unnoticed: it counts as expired."""
        try:
            batch = await super().batch()
        except ModelError as error:
            if not self.expendable:
                raise
            from codex_plugin_openai.reading import ExpiredSocketError

            self._owner.expired(self._session)
            raise ExpiredSocketError(str(error)) from error
        if batch:
            self.expendable, self.silence_s = False, self._owner.silence_s
            if self._before:
                batch = [data for data in batch if not self._ends_before(data)]
        return batch

    def _ends_before(self, data: str) -> bool:
        """Return whether an event is the end of the response before, which a server has sent late and once more."""
        if not self._before:
            return False
        try:
            event = json.loads(data)
            kind = str(event["type"])
            if kind == "response.completed" and event["response"]["id"] == self._before:
                return True
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        if kind.startswith("response."):
            self._before = ""  # this response has begun
        return False

    def keep(self, request: ModelRequest, response_id: str) -> None:
        """Keep the connection after a complete response."""
        session = self._session
        self._answer = None
        session.known, session.response_id = [*request.prompt.items, *self.items], response_id
        session.failures = 0
        self._owner.keep(session, self._socket)

    async def aclose(self, error: BaseException | None) -> None:
        """Release the connection. Unless the response is complete, the connection is closed."""
        session = self._session
        self._hide(error)  # before its text is kept for the warning
        if self._answer is not None and type(error) is ModelError and error.slug == "stream-disconnected":
            self._owner.failed(session, error)
        session.busy = False
        await super().aclose(error)


class Sockets:
    """The WebSockets of a client.

    Args:
        url: The URL that requests are posted to without WebSockets.
        headers: The headers of every request.
        tokens: As for the client.
        waits: Whether a request waits for a connection. Otherwise it uses an open connection, or is sent without a WebSocket.

    Attributes:
        retries: How often a connection is tried again before the thread does without.
        silence_s: The time limit for silence within a response, in seconds.
        on_token: Called with each token that is sent.
    """

    def __init__(
        self,
        info: ProviderInfo,
        env: Mapping[str, str],
        url: str,
        headers: Mapping[str, str],
        tokens: TokenSource | None,
        bodies: BodyWriter,
        *,
        waits: bool = True,
    ) -> None:
        self._info = info
        self._waits = waits
        self.silence_s = info.stream_idle_timeout_ms / 1000
        self._url = url.replace("http", "ws", 1)
        self._dialer: Dialer = open_dialer(self._url, env)
        self._headers = {name: value for name, value in headers.items() if name not in _OF_POST}
        self._tokens = tokens
        self.on_token: Callable[[str], None] = lambda _: None
        self._bodies = bodies
        limit_ms = info.options.get("websocket_connect_timeout_ms", _CONNECT_MS)
        self._connect_s = (limit_ms if isinstance(limit_ms, int) and limit_ms > 0 else _CONNECT_MS) / 1000
        self.retries = info.stream_max_retries if waits else 0
        self._sessions: dict[str, Session] = {}
        self._refused = False

    def may_begin(self, thread_id: str) -> bool:
        """Return whether a request may get a connection. Otherwise it is not to :meth:`begin` here."""
        session = self._sessions.get(thread_id)
        return self._waits or (session is not None and session.socket is not None)

    def _session(self, thread_id: str) -> Session:
        session = self._sessions.get(thread_id)
        if session is None:
            if len(self._sessions) >= _SESSIONS:  # of threads that have ended
                self._sessions = {name: each for name, each in self._sessions.items() if each.is_taken}
            session = self._sessions[thread_id] = Session()
        return session

    async def begin(
        self, request: ModelRequest, headers: Mapping[str, str], meter: ResponseMeter | None
    ) -> Exchange | str | None:
        """Send a request.

        Args:
            headers: The headers of this request.

        Returns:
            The response. None if it must be requested without a WebSocket. The text names the failures if this applies from now
            on.

        Raises:
            ModelError: The connection failed. A retry can help.
        """
        session = self._session(request.thread_id)
        if self._refused or session.fallen or session.busy:
            return None
        if self._waits and session.failures > self.retries:
            return session.fall()
        session.busy = True
        exchange: Exchange | None = None
        try:
            exchange = await self._exchange(session, request, headers, meter)
        except ModelError as error:
            if error.slug not in ("unreachable", "stream-disconnected"):
                raise
            self.failed(session, error)
            raise
        finally:
            session.busy = exchange is not None
        return exchange

    async def prepare(
        self,
        thread_id: str,
        headers: Mapping[str, str],
        whole: Callable[[], Awaitable[ModelRequest | None]],
    ) -> None:
        """Open the connection of a thread before its first request. A request that arrives meanwhile takes it over.

        Args:
            headers: The headers of a request.
            whole: Returns the request without items for which the server prepares.
        """
        session = self._session(thread_id)
        if self._refused or session.fallen or session.is_taken:
            return
        opening = session.opening = asyncio.ensure_future(self._open(headers))
        session.lite = headers.get(_LITE, "")
        try:
            await asyncio.wait((opening,))
        except asyncio.CancelledError:
            if session.opening is opening:
                session.close()
            raise
        if session.opening is not opening:
            return
        session.opening = None
        socket = opening.result() if has_succeeded(opening) else None
        if socket is None:
            return
        session.fresh = True
        self.keep(session, socket)
        request = await whole()
        if request is not None and session.fresh and (socket := session.take()) is not None:
            session.preparing = asyncio.ensure_future(self._prepare(session, socket, request))
            session.preparing.add_done_callback(lambda task: None if has_succeeded(task) else socket.leave())

    def expect(self, thread_id: str, headers: Mapping[str, str]) -> None:
        """Open a connection for the next requests of a thread in the background, unless requests wait for one themselves.

        Failures have no effect.
        """
        session = self._session(thread_id)
        if self._waits or self._refused or session.fallen or session.is_taken:
            return
        session.lite = headers.get(_LITE, "")
        session.opening = asyncio.ensure_future(self._open(headers))
        session.opening.add_done_callback(lambda opening: self._expected(session, opening))

    def _expected(self, session: Session, opening: asyncio.Task[WebSocket | None]) -> None:
        if session.opening is not opening:
            return  # it was closed, and closes what it has opened
        session.opening = None
        if has_succeeded(opening) and (socket := opening.result()) is not None:
            self.keep(session, socket)
            session.fresh = True
        else:
            self.expired(session)

    def failed(self, session: Session, error: ModelError) -> None:
        """Count the failure of a connection in a response."""
        session.fail(error, self.retries)
        session.fallen = not self._waits and session.failures > _TRIES

    def expired(self, session: Session) -> None:
        """Count an unreported failure. If ordinary requests work as well, the thread uses only those after some failures."""
        if not self._waits:
            session.failures += 1
            session.fallen = session.failures > _TRIES

    def keep(self, session: Session, socket: WebSocket) -> None:
        """Keep a connection for the thread's next request."""
        session.socket = socket
        kept_s = _KEPT_S if self._waits else _KEPT_TRIED_S
        session.expiry = asyncio.get_running_loop().call_later(kept_s, session.close)
        unused = [each for each in self._sessions.values() if each.socket is not None]
        if len(unused) > _KEPT:
            unused[0].close()

    async def aclose(self) -> None:
        """Close all connections that are not in use."""
        pending: list[asyncio.Task[Any]] = []
        for session in self._sessions.values():
            pending += [task for task in (session.opening, session.preparing) if task is not None]
            session.close()
        if pending:
            await asyncio.wait(pending)
        self._sessions.clear()
        await asyncio.sleep(0)

    async def _exchange(
        self, session: Session, request: ModelRequest, headers: Mapping[str, str], meter: ResponseMeter | None
    ) -> Exchange | None:
        lite = headers.get(_LITE, "")
        if lite != session.lite:
            session.close()
        session.lite = lite
        socket, opened = await self._connection(session, headers)
        if socket is None:
            return None
        silence_s = self.silence_s if self._waits else min(self.silence_s, _FIRST_EVENT_S)
        exchange = Exchange(self, session, socket, silence_s, meter)
        if opened or session.fresh:
            exchange.headers = socket.headers
        exchange.reused = not opened
        exchange.expendable = not opened and (session.fresh or not self._waits)
        session.fresh = False
        self._send(session, socket, request)
        return exchange

    async def _connection(self, session: Session, headers: Mapping[str, str]) -> tuple[WebSocket | None, bool]:
        """Return a connection, and whether it was opened for this request. None is as for :meth:`_open`."""
        opening, session.opening = session.opening, None
        if opening is not None:
            try:
                return await opening, True
            except asyncio.CancelledError:
                opening.add_done_callback(close_unused)
                raise
        preparing, session.preparing = session.preparing, None
        if preparing is not None and not preparing.done():
            socket = await self._first(preparing, headers)
            if socket is not None:
                return socket, True
        socket = session.take()
        if socket is not None or not self._waits:
            return socket, False
        return await self._open(headers), True

    async def _first(self, preparing: asyncio.Task[bool], headers: Mapping[str, str]) -> WebSocket | None:
        """Wait until a server has prepared, but no longer than it takes to open another connection.

        Returns:
            The other connection. None if there is no other, and the prepared one is kept if it can be used.
        """
        opening = asyncio.ensure_future(self._open(headers))
        taken = False
        try:
            await asyncio.wait((preparing, opening), return_when=asyncio.FIRST_COMPLETED)
            taken = not preparing.done() and opening.exception() is None
            return opening.result() if taken else None
        finally:
            preparing.cancel()
            if not taken:
                opening.cancel()
                opening.add_done_callback(close_unused)

    async def _prepare(self, session: Session, socket: WebSocket, request: ModelRequest) -> bool:
        """Let the server prepare for a request. Keep the connection if it has, and return whether it has."""
        from codex_plugin_openai.reading import End, ItemDone, decode

        try:
            async with asyncio.timeout(self._connect_s):
                socket.send(self._bodies.message(request, "", None, _metadata(), generate=False))
                while True:
                    for data in socket.feed(await socket.read(self._connect_s)):
                        match decode(data):
                            case ItemAdded() | ItemDone():
                                return False  # the server answers, and then knows more than was sent
                            case End(completed):
                                session.response_id, session.shape = completed.response_id, self._bodies.shape(request)
                                self.keep(session, socket)
                                return True
        except (ModelError, CutError, SilenceError, OverflowError, TimeoutError):
            return False

    def _send(self, session: Session, socket: WebSocket, request: ModelRequest) -> None:
        """Send the request, with only the new items if the server has the others."""
        shape = self._bodies.shape(request)
        added = (
            _new_items(session.known, request.prompt.items) if session.response_id and shape == session.shape else None
        )
        previous = "" if added is None else session.response_id
        message = self._bodies.message(request, previous, added, _metadata())
        session.shape = shape
        try:
            socket.send(message)
        except CutError as error:
            raise _broken(str(error)) from error

    async def _open(self, headers: Mapping[str, str]) -> WebSocket | None:
        """Open a connection. None if the server has no WebSocket, or lets ordinary requests decide."""
        from codex_lib_model_client.websocket import UpgradeRefusedError, open_socket
        from codex_plugin_openai.reading import SKIPPED

        headers = {**headers, **self._headers, "openai-beta": _BETA}
        if self._tokens is not None:
            token = await self._tokens.token()
            self.on_token(token)
            headers = with_token(headers, self._tokens, token, self._info)
        try:
            socket = await open_socket(self._dialer, self._url, headers, self._connect_s)
        except UpgradeRefusedError as error:
            lasts = error.status in _NO_WEBSOCKET if self._waits else error.status not in _TRANSIENT
            self._refused = self._refused or lasts
            return None
        socket.skip = SKIPPED
        return socket


def _metadata() -> dict[str, str]:
    return {_STARTED: str(int(time.time() * 1000))}


def _new_items(known: Sequence[ResponseItem], items: Sequence[ResponseItem]) -> list[ResponseItem] | None:
    """Return the items after those that the server knows, or None if the input does not begin with known items."""
    count = len(known)
    items = list(items)
    return items[count:] if len(items) > count and items[:count] == known else None


def _broken(reason: str) -> ModelError:
    from codex_lib_model_client.faults import broken_stream

    return broken_stream(reason)
