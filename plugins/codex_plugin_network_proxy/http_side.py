"""The HTTP side of a gate: one client's connection, with its requests one after another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import h11

from codex_framework import NetworkTarget
from codex_plugin_network_proxy.refusals import RefusedError, UnreachableError
from codex_plugin_network_proxy.requests import BadRequestError, Wanted, answer_headers, read_request, trailers
from codex_plugin_network_proxy.routing import UpstreamProxy
from codex_plugin_network_proxy.wire import Wire, join, linger

if TYPE_CHECKING:
    from codex_plugin_network_proxy.gate import Carrier

__all__ = ["HttpSide"]

_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})


_TOGETHER = 65_536
"""How many bytes are put together before they are sent."""


class _Upstream:
    """A connection to where requests go.

    Attributes:
        key: Where it leads; what leads there may use it again.
        proxy: The proxy that it leads to, if it does.
        used: Whether a request has been carried.
        received: How many bytes had come before this one.
    """

    def __init__(self, wire: Wire, key: tuple[object, ...], proxy: UpstreamProxy | None, head_bytes: int) -> None:
        self.wire = wire
        self.key = key
        self.proxy = proxy
        self.used = False
        self.received = 0
        self.h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=head_bytes)


class _StaleError(Exception):
    """A connection that had been kept was closed by the other side before it answered."""


class _BadAnswerError(Exception):
    """The answer broke off, or is no HTTP, when its head was through."""


class HttpSide:
    """Carries what comes by one connection.

    Args:
        carrier: The gate's part in it.
        wire: The client's connection.
    """

    def __init__(self, carrier: Carrier, wire: Wire) -> None:
        self._carrier = carrier
        self._limits = carrier.limits
        self._wire = wire
        self._client = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        self._kept: _Upstream | None = None
        self._unsent = b""

    async def run(self) -> None:
        """Carry requests until the client has no more, or one of them cannot be followed by another."""
        try:
            while await self._next():
                pass
        except h11.RemoteProtocolError as error:
            await self._answer(error.error_status_hint or 400, f"This is no HTTP request: {error}.", last=True)
        except BadRequestError as error:
            await self._answer(error.status, error.text, last=True)
        finally:
            self._drop(self._kept)

    async def _next(self) -> bool:
        """Carry one request; whether there may be another."""
        request = await self._head()
        if request is None:
            return False
        wanted = read_request(request)
        if not wanted.has_body:
            self._client.next_event()  # its end, which is there already
        target = NetworkTarget(
            wanted.host, wanted.port, "https" if wanted.tunnel else "http", None if wanted.tunnel else wanted.method
        )
        try:
            await self._carrier.admit(target, self._wire.gone, is_socket=wanted.socket is not None)
            if wanted.tunnel:
                await self._tunnel(wanted)
                return False
            return await self._exchange(wanted)
        except RefusedError as error:
            self._carrier.record(target, error.reason)
            return await self._answer(403, error.text, reason=error.reason, last=wanted.tunnel or wanted.has_body)
        except UnreachableError as error:
            return await self._answer(error.status, error.text, last=wanted.tunnel or wanted.has_body)

    async def _head(self) -> h11.Request | None:
        """The head of the next request; None: there is none."""
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

    async def _tunnel(self, wanted: Wanted) -> None:
        upstream = await self._carrier.router.tunnel("https", wanted.host, wanted.port)
        try:
            await self._wire.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._wire.put_back(self._client.trailing_data[0])
            await self._join(upstream)
        finally:
            upstream.transport.abort()

    async def _join(self, upstream: Wire) -> None:
        await join(self._wire, upstream, idle_s=self._limits.idle_s, half_closed_s=self._limits.half_closed_s)

    async def _exchange(self, wanted: Wanted) -> bool:
        try:
            upstream = await self._upstream(wanted)
            try:
                return await self._carry(wanted, upstream)
            except _StaleError:
                self._drop(upstream)
                upstream = await self._upstream(wanted)
                return await self._carry(wanted, upstream)
        except _BadAnswerError:
            self._wire.reset()
            return False

    async def _upstream(self, wanted: Wanted) -> _Upstream:
        """A connection for a request: the one of the request before, if it leads to the same place and still stands."""
        kept, self._kept = self._kept, None
        router = self._carrier.router
        proxy = None if wanted.socket else router.upstream_for("http", wanted.host, wanted.port)
        key: tuple[object, ...] = (wanted.socket, proxy) if wanted.socket or proxy else (wanted.host, wanted.port)
        if kept is not None and kept.key == key and kept.wire.idle:
            return kept
        self._drop(kept)
        if wanted.socket is not None:
            wire = await router.unix(wanted.socket)
        elif proxy is not None:
            wire = await router.by_proxy(proxy)
        else:
            wire = await router.direct(wanted.host, wanted.port)
        return _Upstream(wire, key, proxy, self._limits.head_bytes)

    async def _carry(self, wanted: Wanted, upstream: _Upstream) -> bool:
        sending: asyncio.Task[None] | None = None
        limit = asyncio.timeout(self._limits.idle_s)
        try:
            async with limit:
                try:
                    await upstream.wire.send(self._request_head(wanted, upstream))
                    if wanted.has_body:
                        sending = asyncio.ensure_future(self._send_body(upstream, limit))
                    switched = await self._receive(wanted, upstream, limit)
                except (ConnectionError, h11.LocalProtocolError) as error:
                    raise self._broken(wanted, upstream, str(error)) from None
                finally:
                    if sending is not None:
                        await _ended(sending)
            if switched:
                await self._join(upstream.wire)
                return False
        except TimeoutError:
            if not limit.expired():
                raise
            if self._client.our_state is h11.SEND_RESPONSE:
                raise UnreachableError("Nothing came for too long.", status=504) from None
            raise _BadAnswerError from None
        finally:
            self._keep(upstream)
        return await self._settled()

    def _request_head(self, wanted: Wanted, upstream: _Upstream) -> bytes:
        headers = list(wanted.headers)
        if wanted.upgrade is not None and not self._carrier.limited:
            headers += [(b"Connection", b"Upgrade"), (b"Upgrade", wanted.upgrade)]
        target = wanted.target
        if upstream.proxy is not None:
            headers += upstream.proxy.headers
            target = f"http://{_authority(wanted)}{'' if target == '*' else target}"
        head = upstream.h11.send(h11.Request(method=wanted.method, target=target, headers=headers)) or b""
        if not wanted.has_body:
            head += upstream.h11.send(h11.EndOfMessage()) or b""
        return head

    async def _send_body(self, upstream: _Upstream, limit: asyncio.Timeout) -> None:
        """Pass the body of the request on. What goes wrong with it ends the upstream connection, and so the exchange."""
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
            return  # the answer, or its absence, tells the rest

    async def _receive(self, wanted: Wanted, upstream: _Upstream, limit: asyncio.Timeout) -> bool:
        """Pass the answer on; whether both sides speak something else from now on."""
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
                raise self._broken(wanted, upstream, str(error)) from None
            if isinstance(event, h11.InformationalResponse):
                if self._inform(event):
                    await self._flush()
                    self._wire.put_back(self._client.trailing_data[0])
                    upstream.wire.put_back(upstream.h11.trailing_data[0])
                    return True
            elif isinstance(event, h11.Response):
                headers = answer_headers(event)
                chunked = not any(name.lower() == b"content-length" for name, _ in headers) and wanted.method != "HEAD"
                self._send(h11.Response(status_code=event.status_code, reason=event.reason, headers=headers))
            elif isinstance(event, h11.Data):
                self._send(event)
                if len(self._unsent) > _TOGETHER:
                    await self._flush()
            elif isinstance(event, h11.EndOfMessage):
                modern = (self._client.their_http_version or b"1.0") >= b"1.1"
                self._send(h11.EndOfMessage(headers=trailers(event.headers) if chunked and modern else []))
                await self._flush()
                return False
            else:
                raise self._broken(wanted, upstream, "the connection was closed")

    def _inform(self, event: h11.InformationalResponse) -> bool:
        """Pass a provisional answer on; whether it changes the protocol."""
        headers = [(bytes(name), bytes(value)) for name, value in event.headers.raw_items()]
        if event.status_code == 101:
            self._send(h11.InformationalResponse(status_code=101, reason=event.reason, headers=headers))
            return True
        if (self._client.their_http_version or b"1.0") >= b"1.1":
            self._send(h11.InformationalResponse(status_code=event.status_code, headers=headers, reason=event.reason))
        return False

    def _send(self, event: h11.Event) -> None:
        """Make an event ready to be sent: a head and a small body go together."""
        data = self._client.send(event) or b""
        self._unsent = self._unsent + data if self._unsent else data

    async def _flush(self) -> None:
        data, self._unsent = self._unsent, b""
        if data:
            await self._wire.send(data)

    def _broken(self, wanted: Wanted, upstream: _Upstream, why: str) -> Exception:
        """What to raise where the other side did not answer properly."""
        if self._client.our_state is not h11.SEND_RESPONSE:
            return _BadAnswerError()
        unheard = upstream.wire.received == upstream.received
        if upstream.used and unheard and wanted.method in _REPEATABLE and not wanted.has_body:
            return _StaleError()
        return UnreachableError(f"{_authority(wanted)} does not answer properly: {why}.")

    def _keep(self, upstream: _Upstream) -> None:
        """Keep a connection for the next request if it can carry one."""
        connection = upstream.h11
        done = connection.our_state is h11.DONE and connection.their_state is h11.DONE
        if done and upstream.wire.idle and not connection.trailing_data[0]:
            connection.start_next_cycle()
            upstream.used = True
            upstream.received = upstream.wire.received
            self._kept = upstream
        else:
            self._drop(upstream)

    def _drop(self, upstream: _Upstream | None) -> None:
        if upstream is not None:
            upstream.wire.transport.abort()

    async def _settled(self) -> bool:
        """After a whole answer: whether the client can send another request."""
        client = self._client
        if client.our_state is h11.DONE and client.their_state is h11.DONE:
            client.start_next_cycle()
            return True
        await linger(self._wire, self._limits.linger_s)
        return False

    async def _answer(self, status: int, text: str, *, reason: str = "", last: bool = False) -> bool:
        """Answer in place of the other side; whether the client can send another request."""
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
        async with asyncio.timeout(self._limits.half_closed_s):  # for a client that does not read what it asks for
            await self._flush()
        return await self._settled()


_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    502: "Bad Gateway",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}


def _authority(wanted: Wanted) -> str:
    from codex_plugin_network_proxy.hosts import written

    return wanted.socket or written(wanted.host, None if wanted.port == 80 else wanted.port)


async def _ended(task: asyncio.Task[None]) -> None:
    """End a task. What it raised is a mistake of this module, and is not hidden."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
