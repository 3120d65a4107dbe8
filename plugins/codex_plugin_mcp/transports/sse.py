"""HTTP with a stream of events, the transport of the revision 2024-11-05: one GET for all that comes, POSTs for all that goes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from codex_framework.contract.urls import shown_url
from codex_lib_model_client.https import httpx_module
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.transports.event_stream import EventStreamParser, ServerSentEvent, TooLargeError
from codex_plugin_mcp.transports.http_client import (
    configured_headers,
    first_bytes,
    new_client,
    origin,
    send_within_origin,
)
from codex_plugin_mcp.transports.http_refusals import Authorization, Refusal, refused
from codex_plugin_mcp.transports.transport import MAX_MESSAGE_BYTES, Fault, Message, read_messages

if TYPE_CHECKING:
    import httpx

    from codex_plugin_mcp.servers import ServerConfig

__all__ = ["SseTransport"]

_ENDPOINT_S = 15.0
"""How long to wait for the event that names the endpoint of the POSTs, in seconds."""

_CLOSE_S = 1.0
_INBOX = 1_000


class SseTransport:
    """A :class:`~codex_plugin_mcp.transports.transport.Transport` for servers of the revision 2024-11-05.

    Takes the arguments of :class:`~codex_plugin_mcp.transports.http.HttpTransport`.
    """

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
        self._inbox: asyncio.Queue[Message | None] = asyncio.Queue(_INBOX)
        self._endpoint: asyncio.Future[str] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._client: httpx.AsyncClient | None = None
        self._version = ""
        self._why = ""
        self._closed = False

    async def start(self) -> None:
        """Open the stream and wait for the endpoint.

        Raises:
            ConnectionFailed: The server cannot be reached, refuses, or names no endpoint on itself.
        """
        self._headers = configured_headers(self._server, self._environ)
        self._client = await new_client()
        response = await self._request("GET", self._url, {"accept": "text/event-stream"})
        if response.status_code >= 400:
            raise refused(self._server.name, Refusal.of(response, await first_bytes(response, 65_536) or b""))
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream":
            await response.aclose()
            raise ConnectionFailed(
                f"{shown_url(self._url)} answered with {kind or 'nothing'}, which is not MCP", kind="protocol"
            )
        self._endpoint = asyncio.get_running_loop().create_future()
        self._reader = asyncio.get_running_loop().create_task(self._read(response), name=f"mcp {self._server.name}")
        try:
            async with asyncio.timeout(_ENDPOINT_S):
                await asyncio.shield(self._endpoint)
        except TimeoutError:
            raise ConnectionFailed("the server named no endpoint for messages", kind="protocol") from None

    async def send(self, message: Message) -> None:
        """Send a message. The answer comes with the stream.

        Raises:
            ConnectionFailed: The server cannot be reached or refuses the message.
        """
        if self._closed or self._endpoint is None or self._why:
            raise ConnectionFailed(self._why or "the connection is closed", kind="ended")
        body = json.dumps(message, separators=(",", ":")).encode()
        response = await self._request("POST", self._endpoint.result(), {"content-type": "application/json"}, body)
        raw = await first_bytes(response, 65_536)
        if response.status_code >= 400:
            raise refused(self._server.name, Refusal.of(response, raw or b""))

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the server's messages."""
        while (message := await self._inbox.get()) is not None:
            yield message

    def negotiated(self, version: str) -> None:
        """Send the protocol revision with each further request."""
        self._version = version

    def why_ended(self) -> str:
        """Return why the connection ended. Empty if it was closed here."""
        return self._why

    async def aclose(self) -> None:
        """Close all connections."""
        if self._closed:
            return
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader], timeout=_CLOSE_S)
        if self._client is not None:
            await self._client.aclose()
        if not self._inbox.full():
            self._inbox.put_nowait(None)

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> httpx.Response:
        assert self._client is not None
        sent = {**self._headers, **headers}
        if self._version:
            sent["mcp-protocol-version"] = self._version
        for attempt in (1, 2):
            own = None if self._authorization is None else await self._authorization.header()
            if own is not None:
                sent["authorization"] = own
            response = await send_within_origin(self._client, method, url, sent, body)
            if response.status_code not in (401, 403) or self._authorization is None or attempt == 2:
                return response
            refusal = Refusal.of(response, await first_bytes(response, 65_536) or b"")
            if not await self._authorization.refused(refusal, own):
                raise refused(self._server.name, refusal)
        raise AssertionError

    async def _read(self, response: httpx.Response) -> None:
        """Read the stream until it ends."""
        why = "the server closed the connection"
        httpx = httpx_module()
        parser = EventStreamParser(MAX_MESSAGE_BYTES)
        try:
            async for piece in response.aiter_bytes():
                for event in parser.feed(piece):
                    await self._received(event)
        except TooLargeError:
            why = f"the server sent a message of more than {MAX_MESSAGE_BYTES} bytes"
        except ConnectionFailed as error:
            why = str(error)
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            why = f"the connection was lost: {error or type(error).__name__}"
        finally:
            await response.aclose()
        self._why = why
        self._fail_endpoint(why)
        await self._inbox.put(None)

    def _fail_endpoint(self, why: str) -> None:
        if self._endpoint is not None and not self._endpoint.done():
            self._endpoint.set_exception(ConnectionFailed(why, kind="protocol"))

    async def _received(self, event: ServerSentEvent) -> None:
        if event.event == "endpoint":
            self._take_endpoint(event.data)
        elif event.data:
            messages = _parsed(event.data)
            if not messages and event.event == "message":
                self._on_fault("it sent an event that is not a message of JSON-RPC, which is skipped")
            for message in messages:
                await self._inbox.put(message)

    def _take_endpoint(self, data: str) -> None:
        """Take the address for messages, which must be on the origin of the stream."""
        assert self._endpoint is not None
        httpx = httpx_module()
        if self._endpoint.done():
            return
        here = httpx.URL(self._url)
        try:
            there = here.join(data.strip(" \t\r\n\"'"))
        except (httpx.InvalidURL, ValueError):
            raise ConnectionFailed("the server named an endpoint that is not a URL", kind="protocol") from None
        if origin(here) != origin(there) or there.userinfo:
            raise ConnectionFailed(
                f"the server named an endpoint of another server: {shown_url(str(there))}", kind="refused"
            )
        self._endpoint.set_result(str(there))


def _parsed(data: str) -> list[Message]:
    try:
        return read_messages(data)[0]
    except (ValueError, RecursionError):
        return []
