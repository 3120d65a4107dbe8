"""Streamable HTTP: each message is a POST, whose response is JSON or a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from codex_lib_model_client.https import httpx_module
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.transports.event_stream import EventStreamParser, ServerSentEvent, TooLargeError
from codex_plugin_mcp.transports.http_client import (
    configured_headers,
    first_bytes,
    new_client,
    send_within_origin,
)
from codex_plugin_mcp.transports.http_headers import ParameterHeaders, is_modern, message_headers
from codex_plugin_mcp.transports.http_refusals import Authorization, Refusal, refused
from codex_plugin_mcp.transports.transport import MAX_MESSAGE_BYTES, Fault, Message, read_messages, whole_number

if TYPE_CHECKING:
    import httpx

    from codex_plugin_mcp.servers import ServerConfig

__all__ = ["HttpTransport"]

_OPENING = frozenset({"initialize", "server/discover"})
_RETRIES_S = (0.25, 1.0)
"""Waits before ``initialize`` is sent again, in seconds, if the server cannot be reached or says that it is busy."""

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_RECONNECT_S = 1.0
_MIN_RECONNECT_S = 0.05
_MAX_RECONNECT_S = 60.0
_MAX_FAILED_RECONNECTS = 4
_LISTEN_S = 0.25
"""How long to wait until the request for the stream of the server's own messages has left, in seconds."""

_END_S = 1.0
"""How long the end of the session may take, in seconds."""

_INBOX = 1_000
_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:event|data|id|retry)?:", re.ASCII)
"""The beginning of a stream of events."""

_CONNECTION_CLOSED = -32000


class HttpTransport:
    """A :class:`~codex_plugin_mcp.transports.transport.Transport` for streamable HTTP.

    A server that answers the first POST with a status from 400 to 499 is tried with the transport of the revision 2024-11-05,
    HTTP with a stream of events. If a server forgets its session, a new one is opened without the caller's help.

    Args:
        server: The server, which has a ``url``.
        on_fault: Called with a sentence about skipped data.
        authorization: Adds OAuth. Without it, only the configured headers are sent.
        environ: The environment variables for headers. By default, the process's environment.
    """

    process_id = None

    def __init__(
        self,
        server: ServerConfig,
        *,
        on_fault: Fault = lambda _: None,
        authorization: Authorization | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        assert server.url is not None
        self._server = server
        self._url = server.url
        self._on_fault = on_fault
        self._authorization = authorization
        self._environ = os.environ if environ is None else environ
        self._headers: Mapping[str, str] = {}
        self._parameters = ParameterHeaders()
        self._inbox: asyncio.Queue[Message | None] = asyncio.Queue(_INBOX)
        self._reading: dict[Any, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._session = ""
        self._version = ""
        self._opening: list[Message] = []
        """The messages that opened the session: ``initialize`` and ``notifications/initialized``."""
        self._renewal = asyncio.Lock()
        self._listener: asyncio.Task[None] | None = None
        self._listener_lost = False
        """Whether the server's own stream was lost, so that it is opened again when the server answers."""
        self._legacy: Any = None
        self._why = ""
        self._closed = False

    # The interface of a transport

    async def start(self) -> None:
        """Load what HTTP needs. The first message opens the connection.

        Raises:
            ConnectionFailed: The configured headers or certificates cannot be used.
        """
        self._headers = configured_headers(self._server, self._environ)
        self._client = await new_client()

    async def send(self, message: Message) -> None:
        """Send a message. Returns when the server has begun to answer.

        Raises:
            ConnectionFailed: The server cannot be reached or refuses the message.
        """
        if self._closed:
            raise ConnectionFailed("the connection is closed", kind="ended")
        method = message.get("method")
        if self._legacy is not None:
            await self._legacy.send(message)
        elif method == "notifications/cancelled":
            await self._cancel(message)
        elif method in _OPENING:
            await self._open(message)
        elif method is not None and "id" in message:
            await self._ask(message)
        else:
            await self._tell(message)

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the server's messages, of all streams."""
        while (message := await self._inbox.get()) is not None:
            yield message

    def negotiated(self, version: str) -> None:
        """Send the protocol revision with each further request."""
        self._version = version
        if self._legacy is not None:
            self._legacy.negotiated(version)

    def why_ended(self) -> str:
        """Return why the connection ended. Empty if it was closed here."""
        return self._why

    async def aclose(self) -> None:
        """End the session and close all connections."""
        if self._closed:
            return
        self._closed = True
        tasks = [*self._tasks, *self._reading.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_END_S)
        if self._legacy is not None:
            await self._legacy.aclose()
        with contextlib.suppress(asyncio.QueueFull):
            self._inbox.put_nowait(None)
        if (client := getattr(self, "_client", None)) is not None:
            await self._end_session()
            await client.aclose()

    async def _end_session(self) -> None:
        """Tell the server that the session is over. Nothing depends on its answer."""
        if not self._session:
            return
        with contextlib.suppress(ConnectionFailed, TimeoutError):
            async with asyncio.timeout(_END_S):
                response = await self._request("DELETE", self._common_headers(self._session))
                await response.aclose()

    # Sending

    async def _open(self, message: Message) -> None:
        """Send the first message, with retries and the fallback to the older transport."""
        method = message["method"]
        if method == "initialize":
            self._opening, self._session, self._version = [message], "", ""
        for pause in (*_RETRIES_S, None):
            try:
                return await self._ask(message)
            except ConnectionFailed as error:
                status = getattr(error, "status", None)
                if pause is None or not (error.kind in ("missing", "ended") if status is None else status in _BUSY):
                    return await self._fall_back(message, error, status)
                await asyncio.sleep(pause)
        raise AssertionError

    async def _fall_back(self, message: Message, error: ConnectionFailed, status: int | None) -> None:
        """Try the transport of 2024-11-05, if the status says that this one may be unknown to the server."""
        if status is None or not 400 <= status < 500 or status in (401, 403, 408, 425, 429):
            raise error
        if message["method"] != "initialize":
            await self._deliver(_error_answer(message["id"], -32601, "the server does not know this method"))
            return
        from codex_plugin_mcp.transports.sse import SseTransport

        legacy = SseTransport(
            self._server, on_fault=self._on_fault, authorization=self._authorization, environ=self._environ
        )
        try:
            await legacy.start()
        except ConnectionFailed:
            await legacy.aclose()
            raise error from None
        self._legacy = legacy
        self._spawn(self._forward(legacy))
        await legacy.send(message)

    async def _forward(self, legacy: Any) -> None:
        async for message in legacy.messages():
            await self._inbox.put(message)
        self._why = legacy.why_ended()
        await self._inbox.put(None)

    async def _ask(self, message: Message) -> None:
        """Send a request and read its answer in the background."""
        session = self._session
        try:
            response = await self._post(message, session)
        except _ForgottenError:
            await self._renew(session)
            response = await self._post(message, self._session)
        if response is None:
            return
        if message["method"] == "initialize":
            self._session = self._session_of(response)
        elif self._listener_lost:
            await self._listen()
        number = message["id"]
        task = self._spawn(self._read_answer(response, message))
        self._reading[number] = task
        task.add_done_callback(lambda done: self._reading.pop(number) if self._reading.get(number) is done else None)

    async def _tell(self, message: Message) -> None:
        """Send a notification or an answer. A server that does not want it is reported, and the connection continues."""
        try:
            response = await self._post(message, self._session)
            if response is not None:
                await first_bytes(response, 65_536)
        except ConnectionFailed as error:
            status = getattr(error, "status", 500)
            if not isinstance(error, _ForgottenError) and (status >= 500 or status == 401):
                raise
            self._on_fault(f"it refused {message.get('method', 'an answer')}: {error}")
        if message.get("method") == "notifications/initialized":
            self._opening = [*self._opening[:1], message]
            await self._listen()

    async def _cancel(self, message: Message) -> None:
        """Cancel a request.

        Revisions before 2026-07-28 are told with a notification. From then on, closing the request's stream is the cancellation.
        """
        task = self._reading.get((message.get("params") or {}).get("requestId"))
        if not is_modern(self._version):
            with contextlib.suppress(ConnectionFailed):
                await self._tell(message)
        if task is not None:
            task.cancel()

    async def _post(self, message: Message, session: str) -> httpx.Response | None:
        """Send a message and return the response, or None if it was an error of JSON-RPC, which has been delivered.

        Raises:
            ConnectionFailed: The server cannot be reached, or refuses. The error has the ``status``, if there is one.
        """
        headers = {**self._common_headers(session), **message_headers(message, self._parameters)}
        body = json.dumps(message, separators=(",", ":")).encode()
        response = await self._request("POST", headers, body)
        if response.status_code < 400:
            return response
        raw = await first_bytes(response, 1_000_000)
        answer = _rpc_error(raw, message)
        if session and _is_forgotten(response.status_code, answer):
            raise _ForgottenError(str(refused(self._server.name, Refusal.of(response, raw or b""))), kind="ended")
        if answer is None:
            raise refused(self._server.name, Refusal.of(response, raw or b""))
        await self._deliver(answer)
        return None

    async def _request(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> httpx.Response:
        """Send a request with authorization, twice if that helps after a refusal."""
        for attempt in (1, 2):
            own = None if self._authorization is None else await self._authorization.header()
            sent = headers if own is None else {**headers, "authorization": own}
            response = await send_within_origin(self._client, method, self._url, sent, body, on_sent=on_sent)
            if response.status_code not in (401, 403) or self._authorization is None or attempt == 2:
                return response
            raw = await first_bytes(response, 65_536)
            if not await self._authorization.refused(Refusal.of(response, raw or b""), own):
                raise refused(self._server.name, Refusal.of(response, raw or b""))
        raise AssertionError

    def _common_headers(self, session: str) -> dict[str, str]:
        headers = {
            **self._headers,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        if session:
            headers["mcp-session-id"] = session
        if self._version:
            headers["mcp-protocol-version"] = self._version
        return headers

    async def _renew(self, lost: str) -> None:
        """Open a new session instead of the one that the server has forgotten.

        Raises:
            ConnectionFailed: The server refuses.
        """
        async with self._renewal:
            if self._session != lost:
                return
            self._on_fault("it has forgotten the session, so a new one is opened")
            version, self._version, self._session = self._version, "", ""
            initialize, *rest = self._opening
            response = await self._post({**initialize, "id": f"renewal-{lost}"}, "")
            if response is None:
                raise ConnectionFailed("it refuses to open a new session", kind="refused")
            session = self._session_of(response)
            await self._drain(response)
            self._session, self._version = session, version
            for message in rest:
                await self._tell(message)
        await self._deliver({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def _session_of(self, response: httpx.Response) -> str:
        """Return the session that a server has opened. Empty without a session."""
        session: str = response.headers.get("mcp-session-id", "")
        if session.isascii() and session.isprintable():
            return session
        self._on_fault("it opened a session with an id that is not a header, so it gets none")
        return ""

    async def _drain(self, response: httpx.Response) -> None:
        """Read the answer to a renewed ``initialize``, up to its first event."""
        if _media_type(response) != "text/event-stream":
            await first_bytes(response, MAX_MESSAGE_BYTES)
            return
        async with contextlib.aclosing(self._events(response, _Stream())) as events:
            async for event in events:
                if event.data:
                    return

    # Reading

    async def _read_answer(self, response: httpx.Response, message: Message) -> None:
        """Deliver everything that a response brings, and an error if the answer is not among it."""
        number = message["id"]
        try:
            if _media_type(response) == "text/event-stream":
                problem = await self._read_stream(response, message)
            else:
                problem = await self._read_body(response, message)
        except ConnectionFailed as error:
            problem = str(error)
        finally:
            await response.aclose()
        if problem:
            await self._deliver(_error_answer(number, _CONNECTION_CLOSED, problem))

    async def _read_body(self, response: httpx.Response, request: Message) -> str:
        """Deliver the messages of a body, whatever its content type is. Returns its problem, or an empty text."""
        raw = await first_bytes(response, MAX_MESSAGE_BYTES)
        if raw is None:
            return f"the server's answer is larger than {MAX_MESSAGE_BYTES} bytes"
        messages = self._body_messages(raw, response.charset_encoding or "")
        if not messages:
            kind = _media_type(response)
            if kind == "application/json":
                return "the server's answer is not a message of JSON-RPC"
            return f"the server answered with {kind or 'nothing'} (status {response.status_code}), which is not MCP"
        if len(messages) == 1 and "method" not in messages[0] and messages[0].get("id") is None:
            messages = [{**messages[0], "id": request["id"]}]
        for message in messages:
            self._parameters.learn(request, message)
            await self._deliver(message)
        answered = any(_answers(message, request["id"]) for message in messages)
        return "" if answered else "the server's answer is for another request"

    def _body_messages(self, raw: bytes, charset: str) -> list[Message]:
        if not _EVENTS.match(raw):
            return _parsed(raw, charset)
        parser = EventStreamParser(MAX_MESSAGE_BYTES)
        events = [*parser.feed(raw), parser.end()]
        return [message for event in events if event is not None for message in self._event_messages(event)]

    async def _read_stream(self, response: httpx.Response, request: Message) -> str:
        """Deliver the messages of a stream until the answer is there. A stream that breaks is resumed if it has ids."""
        stream = _Stream()
        failures = 0
        while not await self._read_events(response, stream, request):
            if stream.last_id is None:
                return self._why_cut(stream)
            while True:
                await asyncio.sleep(stream.pause_s)
                try:
                    response = await self._get(stream.last_id)
                    break
                except ConnectionFailed as error:
                    failures += 1
                    if failures >= _MAX_FAILED_RECONNECTS or getattr(error, "status", 500) < 500:
                        return f"the connection was lost before the answer: {error}"
        return ""

    def _why_cut(self, stream: _Stream) -> str:
        if stream.too_large:
            return f"a message of the server is larger than {MAX_MESSAGE_BYTES} bytes"
        return "the server closed the connection before it answered"

    async def _read_events(self, response: httpx.Response, stream: _Stream, request: Message | None) -> bool:
        """Deliver the messages of one response. Returns whether the answer to ``request`` was among them."""
        async with contextlib.aclosing(self._events(response, stream)) as events:
            async for event in events:
                for message in self._event_messages(event):
                    if request is not None:
                        self._parameters.learn(request, message)
                    await self._deliver(message)
                    if request is not None and _answers(message, request["id"]):
                        return True
        return False

    async def _events(self, response: httpx.Response, stream: _Stream) -> AsyncGenerator[ServerSentEvent]:
        """Yield the events of a response until it ends, in whatever way."""
        httpx = httpx_module()
        parser = EventStreamParser(MAX_MESSAGE_BYTES)
        try:
            async for piece in response.aiter_bytes():
                for event in parser.feed(piece):
                    stream.saw(event)
                    yield event
            last = parser.end()
            if last is not None and _parsed(last.data):
                stream.saw(last)
                yield last
        except TooLargeError:
            stream.too_large, stream.last_id = True, None
            self._on_fault(f"it sent a message of more than {MAX_MESSAGE_BYTES} bytes, which is skipped")
        except (httpx.HTTPError, httpx.StreamError, OSError):
            pass
        finally:
            await response.aclose()

    def _event_messages(self, event: ServerSentEvent) -> list[Message]:
        messages = _parsed(event.data) if event.data else []
        if event.data and event.event == "message" and not messages:
            self._on_fault("it sent an event that is not a message of JSON-RPC, which is skipped")
        return messages

    async def _deliver(self, message: Message) -> None:
        await self._inbox.put(message)

    # The stream of the server's own messages

    async def _listen(self) -> None:
        """Open the stream for requests and notifications of the server, which a server may refuse.

        Returns when the request has left, so that requests of the client reach the server after it.
        """
        if is_modern(self._version) or self._closed:
            return
        if self._listener is not None:
            self._listener.cancel()
        sent, self._listener_lost = asyncio.Event(), False
        self._listener = self._spawn(self._hear(sent.set))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LISTEN_S):
                await sent.wait()

    async def _hear(self, on_sent: Callable[[], None]) -> None:
        stream = _Stream()
        failures = 0
        try:
            while failures < _MAX_FAILED_RECONNECTS:
                try:
                    response = await self._get(stream.last_id, on_sent)
                except ConnectionFailed as error:
                    if getattr(error, "status", 500) < 500:
                        return
                    failures += 1
                else:
                    heard = stream.heard
                    await self._read_events(response, stream, None)
                    failures = 0 if stream.heard > heard else failures + 1
                await asyncio.sleep(min(stream.pause_s * 2 ** max(failures - 1, 0), _MAX_RECONNECT_S))
            self._listener_lost = True
        finally:
            on_sent()

    async def _get(self, last_id: str | None, on_sent: Callable[[], None] | None = None) -> httpx.Response:
        """Open a stream with GET, after the event ``last_id`` if it is given."""
        headers = {**self._common_headers(self._session), "accept": "text/event-stream"}
        del headers["content-type"]
        if last_id is not None:
            headers["last-event-id"] = last_id
        response = await self._request("GET", headers, on_sent=on_sent)
        if response.status_code >= 400:
            raw = await first_bytes(response, 65_536)
            raise refused(self._server.name, Refusal.of(response, raw or b""))
        if _media_type(response) != "text/event-stream":
            await response.aclose()
            raise refused(self._server.name, Refusal(405, "", "", ""))
        return response

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"mcp {self._server.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _ForgottenError(ConnectionFailed):
    """The server does not know the session any more."""


class _Stream:
    """The state of a stream of events, across its reconnections."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.pause_s = _RECONNECT_S
        self.too_large = False
        self.heard = 0
        """Number of events."""

    def saw(self, event: ServerSentEvent) -> None:
        self.heard += 1
        if event.id is not None and event.id.isprintable() and event.id.isascii():
            self.last_id = event.id or None
        if event.retry_ms is not None:
            self.pause_s = min(max(event.retry_ms / 1000, _MIN_RECONNECT_S), _MAX_RECONNECT_S)


def _media_type(response: httpx.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _parsed(raw: str | bytes, charset: str = "") -> list[Message]:
    """Return the messages of a body: one, or a batch of the revision 2025-03-26, or none if it is neither."""
    try:
        return read_messages(raw, charset)[0]
    except (ValueError, RecursionError):
        return []


def _answers(message: Message, number: Any) -> bool:
    """Whether a message is the answer to a request."""
    return "method" not in message and message.get("id") == number


def _rpc_error(raw: bytes | None, request: Message) -> Message | None:
    """Return the error of JSON-RPC in the body of a refused request, as the answer to it, or None if there is no such error."""
    messages = _parsed(raw) if raw and "id" in request and "method" in request else []
    error = messages[0].get("error") if len(messages) == 1 else None
    if not isinstance(error, dict) or whole_number(error.get("code")) is None:
        return None
    return {"jsonrpc": "2.0", "id": request["id"], "error": error}


def _is_forgotten(status: int, answer: Message | None) -> bool:
    """Whether a refusal means that the server does not know the session: 404, or 400 with an error that says so.

    Servers that follow the examples of the TypeScript SDK answer 400 (``No valid session ID provided``).
    """
    if status != 400 or answer is None:
        return status == 404
    return "session" in str(answer["error"].get("message")).lower()


def _error_answer(number: Any, code: int, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
