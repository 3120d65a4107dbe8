"""JSON-RPC over a channel, without the member ``jsonrpc``, as exec-servers speak it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from codex_framework.contract.errors import described
from codex_plugin_environments.channels import Channel

__all__ = ["Peer", "RemoteError"]

_NO_SUCH_METHOD = -32601
_KEPT_CHARS = 4000
"""How much of a refusal is shown."""


class RemoteError(Exception):
    """The answer of a server that refuses a call.

    Attributes:
        code: The JSON-RPC code.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Peer:
    """One connection.

    Args:
        channel: The channel for messages.
        notified: Called with the method and the parameters of each notification. Nothing is read until it has returned.
        lost: Called once with the reason when the connection has ended, unless it was closed here.
        shown: Removes secrets from a text of the server.
    """

    def __init__(
        self,
        channel: Channel,
        notified: Callable[[str, Mapping[str, Any]], Awaitable[None]],
        lost: Callable[[str], None],
        shown: Callable[[str], str] = str,
    ) -> None:
        self._shown = shown
        self._channel = channel
        self._notified = notified
        self._tell_lost = lost
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._serial = 0
        self._sending = asyncio.Lock()
        self.ended: str | None = None
        self._reader = asyncio.ensure_future(self._read())

    async def call(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """Call a method and return its result.

        Raises:
            RemoteError: The server refuses it.
            ConnectionError: The connection is lost, or there is no answer in time, or a wrong one.
        """
        if self.ended is not None:
            raise ConnectionError(self.ended)
        self._serial += 1
        number = self._serial
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": number, "method": method, "params": params})
            async with asyncio.timeout(timeout_s):
                result = await answer
        except TimeoutError:
            raise ConnectionError(f"there was no answer to {method} within {timeout_s:g} s") from None
        finally:
            self._waiting.pop(number, None)
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # which nobody hears of if the call could not be sent
        if not isinstance(result, Mapping):
            raise ConnectionError(f"the answer to {method} is invalid: {self._shown(repr(result))[:80]}")
        return result

    async def notify(self, method: str) -> None:
        """Send a notification. Raises ConnectionError."""
        await self._send({"method": method})

    async def _send(self, message: Mapping[str, Any]) -> None:
        text = json.dumps(message)
        async with self._sending:
            await self._channel.send(text)

    async def _read(self) -> None:
        try:
            while True:
                await self._take(await self._channel.receive())
        except ConnectionError as error:
            self.end(str(error))
        except Exception as error:  # a defect here or in a library; without this all calls would wait forever
            self.end(f"the connection has failed: {described(error)}")

    async def _take(self, text: str | bytes) -> None:
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise ConnectionError(f"the server sent something that is not JSON: {text[:80]!r}") from None
        if not isinstance(message, Mapping):
            raise ConnectionError(f"the server sent something that is no message: {text[:80]!r}")
        number, method = message.get("id"), message.get("method")
        if isinstance(method, str):
            if number is not None:
                await self._send({"id": number, "error": {"code": _NO_SUCH_METHOD, "message": f"no method {method}"}})
                return
            params = message.get("params")
            await self._notified(method, params if isinstance(params, Mapping) else {})
            return
        waiting = self._waiting.get(number) if type(number) is int else None
        if waiting is None or waiting.done():
            return  # nobody waits any more
        if "error" in message:
            waiting.set_exception(self._refusal(message["error"]))
        else:
            waiting.set_result(message.get("result"))
        await asyncio.sleep(0)  # whoever waits goes on before the next message is read

    def end(self, reason: str) -> None:
        """Give the connection up. All calls fail with the reason."""
        if self.ended is not None:
            return
        self.ended = reason = self._shown(reason)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError(reason))
        self._tell_lost(reason)

    async def aclose(self) -> None:
        """Close the connection."""
        self.ended = self.ended or "the connection was closed"
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError(self.ended))
        await self._channel.aclose()

    def _refusal(self, error: object) -> RemoteError:
        fields = error if isinstance(error, Mapping) else {}
        code, message = fields.get("code"), fields.get("message")
        text = self._shown(message)[:_KEPT_CHARS] if isinstance(message, str) else "it was refused"
        return RemoteError(code if isinstance(code, int) else 0, text)
