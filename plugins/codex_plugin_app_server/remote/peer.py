"""A connection to an app server: requests, responses, and notifications."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from codex_framework import CodexError, __version__
from codex_framework.toolkit.terminal_text import printable
from codex_lib_model_client.https import tls_context
from codex_plugin_app_server.remote.address import RemoteAddress

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["REFUSALS", "Peer", "RemoteError"]

_CONNECT_S = 30.0
"""Time limit of the connection and of the answer to ``initialize``, in seconds."""

_PING_S, _PONG_S = 20.0, 120.0
"""Seconds between two signs of life, and until a server without one counts as lost."""

_CLOSE_S = 2.0
_LONGEST_MESSAGE = 256 << 20
_SHOWN_CHARS = 500

REFUSALS: Mapping[str, Any] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}},
    "item/tool/requestUserInput": {"answers": {}},
    "item/tool/call": {"success": False, "contentItems": []},
    "mcpServer/elicitation/request": {"action": "decline"},
    "execCommandApproval": {"decision": "denied"},
    "applyPatchApproval": {"decision": "denied"},
}
"""The answers of a client whose user cannot be asked. Other requests of the server get an error."""

_UNKNOWN_METHOD = -32601


class RemoteError(CodexError):
    """The server has refused a request, or it cannot be reached any longer."""

    def __init__(self, fact: str, hint: str = "") -> None:
        super().__init__(fact, slug="remote", hint=hint)


class Peer:
    """A connection after its handshake. Open one with :meth:`connect`.

    Attributes:
        lost: Why the connection has ended. None while it is open.
    """

    def __init__(self, connection: ClientConnection, address: RemoteAddress) -> None:
        self.lost: RemoteError | None = None
        self._connection = connection
        self._address = address
        self._serial = 0
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._notifications: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._arrived = asyncio.Event()
        self._limit: asyncio.TimerHandle | None = None
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, address: RemoteAddress, token: str | None, environ: Mapping[str, str]
    ) -> AsyncIterator[Peer]:
        """Connect, introduce this client, and disconnect at the end.

        Args:
            environ: The variables that name trusted certificates.

        Raises:
            RemoteError: The server cannot be reached, refuses this client, or is no app server.
        """
        peer = cls(await _open(address, token, environ), address)
        try:
            await peer._introduce()
            yield peer
        finally:
            await peer.aclose()

    async def call(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a method and return its result.

        Raises:
            RemoteError: The server refuses it, or the connection is lost.
        """
        if self.lost is not None:
            raise self.lost
        self._serial += 1
        answer = self._waiting[self._serial] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": self._serial, "method": method, "params": params})
            response = await answer
        finally:
            self._waiting.pop(self._serial, None)
        error = response.get("error")
        if error is not None:
            raise RemoteError(f"{method} failed: {_describe_error(error)}")
        result = response.get("result")
        if not isinstance(result, Mapping):
            raise self._nonsense(f"a response to {method} without a result")
        return result

    async def next_notification(self) -> tuple[str, Mapping[str, Any]]:
        """Return the method and the parameters of the next notification.

        Raises:
            RemoteError: The connection is lost, and everything that came before has been returned.
        """
        while not self._notifications:
            if self.lost is not None:
                raise self.lost
            self._arrived.clear()
            await self._arrived.wait()
        return self._notifications.popleft()

    def give_up_after(self, seconds: float) -> None:
        """Treat the connection as lost after a time, if it is still needed then."""
        if self._limit is None:
            self._limit = asyncio.get_running_loop().call_later(seconds, self._lose, f"no end within {seconds:g} s")

    async def aclose(self) -> None:
        """Disconnect. Safe to call twice."""
        if self._limit is not None:
            self._limit.cancel()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._connection.close()

    async def _introduce(self) -> None:
        info = {"name": "codex_exec", "title": None, "version": __version__}
        params = {"clientInfo": info, "capabilities": {"experimentalApi": True}}
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self.call("initialize", params)
        except TimeoutError:
            raise RemoteError(f"remote app server at `{self._address}` does not answer") from None
        await self._send({"method": "initialized"})

    async def _send(self, message: Mapping[str, Any]) -> None:
        from websockets.exceptions import ConnectionClosed

        text = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        with contextlib.suppress(ConnectionClosed):  # the reader sees it too, and says why
            await self._connection.send(text, text=True)

    async def _read(self) -> None:
        from websockets.exceptions import ConnectionClosed

        why = "it has closed the connection"
        try:
            async for text in self._connection:
                await self._take(text)
        except ConnectionClosed as error:
            why = "the connection broke off" if error.rcvd is None else str(error)
        except (ValueError, RecursionError):
            why = "it sent a message that is not JSON-RPC"
        finally:
            self._lose(why)

    async def _take(self, text: str | bytes) -> None:
        """Take a message. Raises ValueError if it is invalid."""
        message = json.loads(text)
        if not isinstance(message, dict):
            raise ValueError("not an object")
        method, number, params = message.get("method"), message.get("id"), message.get("params")
        if isinstance(method, str) and "id" in message:
            await self._refuse(method, number)
        elif isinstance(method, str):
            self._notifications.append((method, params if isinstance(params, Mapping) else {}))
            self._arrived.set()
        elif "result" in message or "error" in message:
            waiting = self._waiting.get(number) if isinstance(number, int) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        else:
            raise ValueError("neither a request nor a response")

    async def _refuse(self, method: str, number: object) -> None:
        """Answer a question of the server. Nobody can be asked."""
        if method in REFUSALS:
            await self._send({"id": number, "result": REFUSALS[method]})
        else:
            error = {"code": _UNKNOWN_METHOD, "message": f"{method} is not supported by exec"}
            await self._send({"id": number, "error": error})

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = RemoteError(f"remote app server at `{self._address}` was lost: {printable(why)[:_SHOWN_CHARS]}")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self.lost)
        self._arrived.set()

    def _nonsense(self, what: str) -> RemoteError:
        return RemoteError(f"remote app server at `{self._address}` sent {what}")


async def _open(address: RemoteAddress, token: str | None, environ: Mapping[str, str]) -> ClientConnection:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

    class Direct(connect):
        """A connection to exactly this address, because the token is for it."""

        def process_redirect(self, exc: Exception) -> Exception | str:
            """Follow no redirect."""
            return exc

    options: dict[str, Any] = {
        "additional_headers": {} if token is None else {"Authorization": f"Bearer {token}"},
        "compression": None,
        "open_timeout": _CONNECT_S,
        "close_timeout": _CLOSE_S,
        "ping_interval": _PING_S,
        "ping_timeout": _PONG_S,
        "max_size": _LONGEST_MESSAGE,
        "user_agent_header": f"codex-framework/{__version__}",
    }
    try:
        if address.url.startswith("wss:"):
            options["ssl"] = tls_context(environ)
        if address.path is not None:
            return await Direct("ws://localhost/", unix=True, path=str(address.path), **options)
        return await Direct(f"{address.url}/", proxy=None if address.is_loopback else True, **options)
    except InvalidStatus as error:
        body = printable((error.response.body or b"").decode("utf-8", "replace").strip())[:_SHOWN_CHARS]
        why = f"HTTP {error.response.status_code}" + (f": {body}" if body else "")
    except TimeoutError:
        why = f"no answer within {_CONNECT_S:g} s"
    except (OSError, ValueError, InvalidHandshake, InvalidURI, EOFError) as error:
        why = printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)[:_SHOWN_CHARS]
    raise RemoteError(f"failed to connect to remote app server at `{address}`: {why}")


def _describe_error(error: object) -> str:
    if not isinstance(error, Mapping):
        return "the server gave no reason"
    message = printable(str(error.get("message", "")))
    return f"{message} (code {error['code']})" if isinstance(error.get("code"), int) else message
