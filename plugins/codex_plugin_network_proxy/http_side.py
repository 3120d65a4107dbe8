"""The HTTP side of a gate, which handles the requests of a client connection in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import h11

from codex_framework import NetworkTarget
from codex_plugin_network_proxy.refusals import RefusedError, UnreachableError
from codex_plugin_network_proxy.requests import BadRequestError, ProxyRequest, read_request, response_headers, trailers
from codex_plugin_network_proxy.routing import UpstreamProxy
from codex_plugin_network_proxy.wire import Wire, join, linger

if TYPE_CHECKING:
    from codex_plugin_network_proxy.carrier import Carrier

__all__ = ["HttpSide"]

_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})


_MAX_UNSENT = 65_536
"""Number of buffered response bytes beyond which the buffer is sent."""


class _Upstream:
    """A connection on which requests are forwarded.

    Attributes:
        key: Identifies the destination. Requests with the same key may reuse the connection.
        proxy: The upstream proxy at the other end. None if the connection is direct.
        used: Whether the connection has already carried a request.
        received: Number of bytes received before the current request.
    """

    def __init__(self, wire: Wire, key: tuple[object, ...], proxy: UpstreamProxy | None, head_bytes: int) -> None:
        self.wire = wire
        self.key = key
        self.proxy = proxy
        self.used = False
        self.received = 0
        self.h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=head_bytes)


class _StaleError(Exception):
    """The other side closed a reused connection before it responded."""


class _BadAnswerError(Exception):
    """The response was cut off or became invalid after its head was forwarded."""


class HttpSide:
    """The handler of one HTTP connection.

    Args:
        carrier: The shared state of the gate.
        wire: The client's connection.
    """

    def __init__(self, carrier: Carrier, wire: Wire) -> None:
        self._carrier = carrier
        self._limits = carrier.limits
        self._wire = wire
        self._client = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        self._idle_upstream: _Upstream | None = None
        self._unsent = b""

    async def run(self) -> None:
        """Handle requests until the client sends no more, or the connection cannot be reused."""
        try:
            while await self._next():
                pass
        except h11.RemoteProtocolError as error:
            await self._answer(error.error_status_hint or 400, f"This is not an HTTP request: {error}.", last=True)
        except BadRequestError as error:
            await self._answer(error.status, error.text, last=True)
        finally:
            self._drop(self._idle_upstream)

    async def _next(self) -> bool:
        """Handle one request. Return whether another one may follow."""
        head = await self._head()
        if head is None:
            return False
        request = read_request(head)
        if not request.has_body:
            self._client.next_event()  # EndOfMessage, which is already available
        target = NetworkTarget(
            request.host,
            request.port,
            "https" if request.tunnel else "http",
            None if request.tunnel else request.method,
        )
        try:
            await self._carrier.admit(target, self._wire.gone, is_socket=request.socket is not None)
            if request.tunnel:
                await self._tunnel(request)
                return False
            return await self._exchange(request)
        except RefusedError as error:
            self._carrier.record(target, error.reason)
            return await self._answer(403, error.text, reason=error.reason, last=request.tunnel or request.has_body)
        except UnreachableError as error:
            return await self._answer(error.status, error.text, last=request.tunnel or request.has_body)

    async def _head(self) -> h11.Request | None:
        """Return the head of the next request, or None if there is no further request."""
        began = False
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.between_s) as limit:
                while True:
                    event = self._client.next_event()
                    if isinstance(event, h11.Request):
                        return event
                    if event is not h11.NEED_DATA:
                        return None  # ConnectionClosed
                    if not began and self._client.trailing_data[0]:
                        began = True
                        limit.reschedule(loop.time() + self._limits.head_s)
                    self._client.receive_data(await self._wire.receive())
        except TimeoutError:
            if began:
                await self._answer(408, "The head of the request took too long.", last=True)
            return None

    async def _tunnel(self, request: ProxyRequest) -> None:
        upstream = await self._carrier.router.tunnel("https", request.host, request.port)
        try:
            await self._wire.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._wire.put_back(self._client.trailing_data[0])
            await self._join(upstream)
        finally:
            upstream.abort()

    async def _join(self, upstream: Wire) -> None:
        await join(self._wire, upstream, idle_s=self._limits.idle_s, half_closed_s=self._limits.half_closed_s)

    async def _exchange(self, request: ProxyRequest) -> bool:
        try:
            upstream = await self._upstream(request)
            try:
                return await self._carry(request, upstream)
            except _StaleError:
                self._drop(upstream)
                upstream = await self._upstream(request)
                return await self._carry(request, upstream)
        except _BadAnswerError:
            self._wire.reset()
            return False

    async def _upstream(self, request: ProxyRequest) -> _Upstream:
        """Return a connection for a request.

        The previous connection is reused if it has the same destination and is still open. Otherwise a new one is opened.
        """
        previous, self._idle_upstream = self._idle_upstream, None
        router = self._carrier.router
        proxy = None if request.socket else router.upstream_for("http", request.host, request.port)
        key: tuple[object, ...] = (request.socket, proxy) if request.socket or proxy else (request.host, request.port)
        if previous is not None and previous.key == key and previous.wire.idle:
            return previous
        self._drop(previous)
        if request.socket is not None:
            wire = await router.unix(request.socket)
        elif proxy is not None:
            wire = await router.via_proxy(proxy)
        else:
            wire = await router.direct(request.host, request.port)
        return _Upstream(wire, key, proxy, self._limits.head_bytes)

    async def _carry(self, request: ProxyRequest, upstream: _Upstream) -> bool:
        sending: asyncio.Task[None] | None = None
        limit = asyncio.timeout(self._limits.idle_s)
        try:
            async with limit:
                try:
                    await upstream.wire.send(self._request_head(request, upstream))
                    if request.has_body:
                        sending = asyncio.ensure_future(self._send_body(upstream, limit))
                    switched = await self._receive(request, upstream, limit)
                except (ConnectionError, h11.LocalProtocolError) as error:
                    raise self._broken(request, upstream, str(error)) from None
                finally:
                    if sending is not None:
                        await _end(sending)
            if switched:
                await self._join(upstream.wire)
                return False
        except TimeoutError:
            if not limit.expired():
                raise
            if self._client.our_state is h11.SEND_RESPONSE:
                raise UnreachableError("The host did not respond in time.", status=504) from None
            raise _BadAnswerError from None
        finally:
            self._keep(upstream)
        return await self._finish_response()

    def _request_head(self, request: ProxyRequest, upstream: _Upstream) -> bytes:
        headers = list(request.headers)
        if request.upgrade is not None and not self._carrier.limited:
            headers += [(b"Connection", b"Upgrade"), (b"Upgrade", request.upgrade)]
        target = request.target
        if upstream.proxy is not None:
            headers += upstream.proxy.headers
            target = f"http://{_authority(request)}{'' if target == '*' else target}"
        head = upstream.h11.send(h11.Request(method=request.method, target=target, headers=headers)) or b""
        if not request.has_body:
            head += upstream.h11.send(h11.EndOfMessage()) or b""
        return head

    async def _send_body(self, upstream: _Upstream, limit: asyncio.Timeout) -> None:
        """Forward the request's body.

        If the client sends an invalid body, the upstream connection is reset, which ends the exchange.
        """
        loop = asyncio.get_running_loop()
        try:
            while True:
                event = self._client.next_event()
                if event is h11.NEED_DATA:
                    self._client.receive_data(await self._wire.receive())
                    limit.reschedule(loop.time() + self._limits.idle_s)
                elif isinstance(event, h11.Data):
                    await upstream.wire.send(upstream.h11.send(event) or b"")
                else:
                    assert isinstance(event, h11.EndOfMessage)
                    await upstream.wire.send(
                        upstream.h11.send(h11.EndOfMessage(headers=trailers(event.headers))) or b""
                    )
                    return
        except h11.RemoteProtocolError:
            upstream.wire.reset()
        except (ConnectionError, h11.LocalProtocolError):
            return  # _receive detects the failure by the response or its absence

    async def _receive(self, request: ProxyRequest, upstream: _Upstream, limit: asyncio.Timeout) -> bool:
        """Forward the response. Return whether the connection has switched to another protocol."""
        loop = asyncio.get_running_loop()
        chunked = False
        while True:
            try:
                event = upstream.h11.next_event()
                if event is h11.NEED_DATA:
                    await self._flush()
                    data = await upstream.wire.receive()
                    limit.reschedule(loop.time() + self._limits.idle_s)
                    upstream.h11.receive_data(data)
                    continue
            except (h11.RemoteProtocolError, ConnectionError) as error:
                raise self._broken(request, upstream, str(error)) from None
            if isinstance(event, h11.InformationalResponse):
                if self._inform(event):
                    await self._flush()
                    self._wire.put_back(self._client.trailing_data[0])
                    upstream.wire.put_back(upstream.h11.trailing_data[0])
                    return True
            elif isinstance(event, h11.Response):
                headers = response_headers(event)
                chunked = not any(name.lower() == b"content-length" for name, _ in headers) and request.method != "HEAD"
                self._send(h11.Response(status_code=event.status_code, reason=event.reason, headers=headers))
            elif isinstance(event, h11.Data):
                self._send(event)
                if len(self._unsent) > _MAX_UNSENT:
                    await self._flush()
            elif isinstance(event, h11.EndOfMessage):
                modern = (self._client.their_http_version or b"1.0") >= b"1.1"
                self._send(h11.EndOfMessage(headers=trailers(event.headers) if chunked and modern else []))
                await self._flush()
                return False
            else:
                raise self._broken(request, upstream, "the connection was closed")

    def _inform(self, event: h11.InformationalResponse) -> bool:
        """Forward an informational response. Return whether it switches the protocol."""
        headers = [(bytes(name), bytes(value)) for name, value in event.headers.raw_items()]
        if event.status_code == 101:
            self._send(h11.InformationalResponse(status_code=101, reason=event.reason, headers=headers))
            return True
        if (self._client.their_http_version or b"1.0") >= b"1.1":
            self._send(h11.InformationalResponse(status_code=event.status_code, headers=headers, reason=event.reason))
        return False

    def _send(self, event: h11.Event) -> None:
        """Queue an event for sending, so that a head and a small body are sent together."""
        data = self._client.send(event) or b""
        self._unsent = self._unsent + data if self._unsent else data

    async def _flush(self) -> None:
        data, self._unsent = self._unsent, b""
        if data:
            await self._wire.send(data)

    def _broken(self, request: ProxyRequest, upstream: _Upstream, why: str) -> Exception:
        """Return the error for a missing or invalid response."""
        if self._client.our_state is not h11.SEND_RESPONSE:
            return _BadAnswerError()
        silent = upstream.wire.received == upstream.received
        if upstream.used and silent and request.method in _REPEATABLE and not request.has_body:
            return _StaleError()
        return UnreachableError(f"{_authority(request)} sent no valid response: {why}.")

    def _keep(self, upstream: _Upstream) -> None:
        """Keep a connection for the next request if it is reusable. Otherwise close it."""
        connection = upstream.h11
        done = connection.our_state is h11.DONE and connection.their_state is h11.DONE
        if done and upstream.wire.idle and not connection.trailing_data[0]:
            connection.start_next_cycle()
            upstream.used = True
            upstream.received = upstream.wire.received
            self._idle_upstream = upstream
        else:
            self._drop(upstream)

    def _drop(self, upstream: _Upstream | None) -> None:
        if upstream is not None:
            upstream.wire.abort()

    async def _finish_response(self) -> bool:
        """End the exchange after a complete response. Return whether the client can send another request."""
        client = self._client
        if client.our_state is h11.DONE and client.their_state is h11.DONE:
            client.start_next_cycle()
            return True
        await linger(self._wire, self._limits.linger_s)
        return False

    async def _answer(self, status: int, text: str, *, reason: str = "", last: bool = False) -> bool:
        """Send a response from the proxy itself. Return whether the client can send another request."""
        if self._client.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._wire.reset()
            return False
        body = f"{text}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        headers += [("Connection", "close")] if last else []
        phrase = _PHRASES.get(status, "Error")
        if reason:
            headers.append(("x-proxy-error", reason))
            phrase = f"Forbidden ({reason})"
        self._send(h11.Response(status_code=status, headers=headers, reason=phrase))
        self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())
        async with asyncio.timeout(self._limits.half_closed_s):  # in case the client does not read its response
            await self._flush()
        return await self._finish_response()


_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    502: "Bad Gateway",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}


def _authority(request: ProxyRequest) -> str:
    from codex_plugin_network_proxy.hosts import host_text

    return request.socket or host_text(request.host, None if request.port == 80 else request.port)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for it. If it failed, that is a bug in this module, and the exception is raised again."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
