"""JSON-RPC 2.0 over a transport, in both directions: requests, notifications, progress and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias

from codex_plugin_mcp.errors import ConnectionFailed, RequestTimedOut, ServerError
from codex_plugin_mcp.transports.transport import Message, Transport, whole_number

__all__ = ["Handler", "Peer", "Progress"]

Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Answers the requests, or receives the notifications, of one method.

It gets the ``params``, by default an empty mapping. The result of a request is plain JSON data; None is an empty result. To
answer with an error, raise ``ServerError``.
"""

Progress: TypeAlias = Callable[[float, float | None, str], None]
"""Receives the progress of a request: ``progress``, ``total`` (None if unknown) and a message, which may be empty."""

_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603
_MAX_ANSWERING = 64
"""Maximum number of requests of the server that are answered at the same time."""

_CANCEL_S = 0.5
"""How long the end waits for the server to be told which requests are cancelled, in seconds."""

_CLOSE_S = 1.0
"""How long to wait for handlers that were cancelled, in seconds."""


class Peer:
    """One end of a connection.

    Args:
        transport: The connection, not yet started.
        handlers: The handlers of the server's requests and notifications, by method. ``ping`` needs no handler.
        on_fault: Called with a sentence about a mistake of the server.

    Attributes:
        ended: Set when the connection has ended.
    """

    def __init__(
        self, transport: Transport, handlers: Mapping[str, Handler], *, on_fault: Callable[[str], None] = lambda _: None
    ) -> None:
        self._transport = transport
        self._handlers = handlers
        self._on_fault = on_fault
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._progress: dict[int, Progress] = {}
        self._limits: set[asyncio.Timeout] = set()
        self._left: dict[asyncio.Timeout, float] = {}
        self._pauses = 0
        self._answering: dict[Any, asyncio.Task[None]] = {}
        self._noting: set[asyncio.Task[None]] = set()
        self._cancelling: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False
        self.ended = asyncio.Event()

    async def start(self) -> None:
        """Open the connection and read from it.

        Raises:
            ConnectionFailed: It cannot be opened.
        """
        await self._transport.start()
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        on_progress: Progress | None = None,
    ) -> Any:
        """Send a request and return its result.

        If the caller is cancelled or the time is over, the server is told that the request is cancelled.

        Args:
            timeout_s: Time limit in seconds. By default, there is no limit.
            on_progress: Called for each progress notification. The request then has a progress token, which is its id.

        Raises:
            ServerError: The server answered with an error.
            RequestTimedOut: It did not answer in time.
            ConnectionFailed: The connection is lost.
        """
        if self._closed or self.ended.is_set():
            raise self._lost()
        number = self._next_id
        self._next_id += 1
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        if on_progress is not None:
            self._progress[number] = on_progress
            params = {**(params or {}), "_meta": {**((params or {}).get("_meta") or {}), "progressToken": number}}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            message["params"] = params
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                self._limits.add(limit)
                await self._transport.send(message)
                return await answer
        except TimeoutError:
            self._cancel(number, method, "timed out")
            raise RequestTimedOut(f"no answer to {method} within {timeout_s or 0:g} seconds") from None
        except asyncio.CancelledError:
            self._cancel(number, method, "cancelled by the user")
            raise
        finally:
            self._limits.discard(limit)
            self._waiting.pop(number, None)
            self._progress.pop(number, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # it was taken note of

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the time limits of the requests in flight, while a person answers a question."""
        clock = asyncio.get_running_loop()
        for limit in self._limits:
            if (when := limit.when()) is not None:
                self._left[limit] = when - clock.time()
                limit.reschedule(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                left, self._left = self._left, {}
                for limit in self._limits & left.keys():
                    limit.reschedule(clock.time() + left[limit])

    def why_ended(self) -> str:
        """Return a sentence about why the connection ended."""
        return self._transport.why_ended() or "the server closed the connection"

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification.

        Raises:
            ConnectionFailed: The connection is lost.
        """
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self._transport.send(message)

    async def aclose(self) -> None:
        """Close the connection. Requests in flight fail. May be called twice.

        The server is first told which requests are cancelled, if it reads that without delay.
        """
        self._closed = True
        if self._cancelling:
            await asyncio.wait(tuple(self._cancelling), timeout=_CANCEL_S)
        tasks = [*self._answering.values(), *self._noting, *self._cancelling]
        for task in tasks:
            task.cancel()
        await self._transport.aclose()
        if self._reader is not None:
            self._reader.cancel()
            tasks.append(self._reader)
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)
        self._fail_waiting()

    # Reading

    async def _read(self) -> None:
        try:
            async for message in self._transport.messages():
                try:
                    self._received(message)
                except Exception as error:  # one message must not end the connection
                    self._on_fault(f"it sent a message that could not be handled: {type(error).__name__}: {error}")
        except ConnectionFailed as error:
            self._on_fault(str(error))
        finally:
            self.ended.set()
            self._fail_waiting()

    def _received(self, message: Message) -> None:
        method = message.get("method")
        if isinstance(method, str):
            params = message.get("params")
            given = params if isinstance(params, Mapping) else {}
            if "id" in message:
                self._asked(message["id"], method, given)
            else:
                self._told(method, given)
        elif "id" in message and ("result" in message or "error" in message):
            self._answered(message)
        else:
            self._on_fault(
                "it sent a message that is neither a request, a notification nor an answer, which is ignored"
            )

    def _answered(self, message: Message) -> None:
        number = message["id"]
        answer = self._waiting.pop(number, None) if type(number) is int else None
        if answer is None:
            if not (
                type(number) is int and 0 <= number < self._next_id
            ):  # a late answer to an old request is not a fault
                self._on_fault(f"it answered a request {str(number)[:80]!r} that was never sent, which is ignored")
            return
        if answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
        else:
            answer.set_exception(_server_error(error))

    def _told(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/progress":
            self._progressed(params)
        elif method == "notifications/cancelled":
            task = self._answering.get(_key(params.get("requestId")))
            if task is not None:
                task.cancel()
        elif (handler := self._handlers.get(method)) is not None:
            task = asyncio.get_running_loop().create_task(self._note(method, handler, params))
            self._noting.add(task)
            task.add_done_callback(self._noting.discard)

    def _progressed(self, params: Mapping[str, Any]) -> None:
        token = whole_number(params.get("progressToken"))
        done, text = _number(params.get("progress")), params.get("message")
        on_progress = None if token is None else self._progress.get(token)
        if on_progress is not None and done is not None:
            on_progress(done, _number(params.get("total")), text if isinstance(text, str) else "")

    async def _note(self, method: str, handler: Handler, params: Mapping[str, Any]) -> None:
        try:
            await handler(params)
        except Exception as error:  # a handler must not end the connection
            self._on_fault(f"its notification {method} could not be handled: {type(error).__name__}: {error}")

    # Answering

    def _asked(self, number: Any, method: str, params: Mapping[str, Any]) -> None:
        key = _key(number)
        if key in self._answering:
            self._on_fault(f"it sent two requests with the id {str(number)[:80]!r}; the second is ignored")
            return
        if len(self._answering) >= _MAX_ANSWERING:
            self._on_fault(f"it has sent more than {_MAX_ANSWERING} requests at once; the others are ignored")
            return
        task = asyncio.get_running_loop().create_task(self._answer(number, method, params))
        self._answering[key] = task
        task.add_done_callback(lambda _: self._answering.pop(key, None))

    async def _answer(self, number: Any, method: str, params: Mapping[str, Any]) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        try:
            message["result"] = await self._result(method, params)
        except ServerError as error:
            message["error"] = {"code": error.code, "message": str(error)}
            if error.data is not None:
                message["error"]["data"] = error.data
        except Exception as error:  # a handler must not end the connection
            message["error"] = {"code": _INTERNAL_ERROR, "message": "internal error"}
            self._on_fault(f"its request {method} could not be handled: {type(error).__name__}: {error}")
        with contextlib.suppress(ConnectionFailed):
            await self._transport.send(message)

    async def _result(self, method: str, params: Mapping[str, Any]) -> Any:
        handler = self._handlers.get(method)
        if handler is not None:
            result = await handler(params)
            return {} if result is None else result
        if method == "ping":
            return {}
        raise ServerError(f"there is no method {method!r}", code=_METHOD_NOT_FOUND)

    # Ending

    def _cancel(self, number: int, method: str, reason: str) -> None:
        """Tell the server that a request is cancelled, without waiting. The request ``initialize`` must not be cancelled."""
        if method == "initialize" or self._closed or self.ended.is_set():
            return
        message = {"requestId": number, "reason": reason}
        task = asyncio.get_running_loop().create_task(self._tell_cancelled(message))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _tell_cancelled(self, params: Mapping[str, Any]) -> None:
        with contextlib.suppress(ConnectionFailed):
            await self.notify("notifications/cancelled", params)

    def _lost(self) -> ConnectionFailed:
        return ConnectionFailed(self.why_ended(), kind="ended")

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(self._lost())


def _key(number: Any) -> Any:
    """Return an id as a key: ``1`` and ``"1"`` are different, and a list or mapping is no id."""
    return (isinstance(number, str), number if isinstance(number, (str, int, float)) else None)


def _number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _server_error(error: Any) -> ServerError:
    if not isinstance(error, Mapping):
        return ServerError(str(error)[:2000])
    code, text = whole_number(error.get("code")), error.get("message")
    if not isinstance(text, str):
        text = "" if text is None else json.dumps(text, ensure_ascii=False)[:2000]
    return ServerError(
        text or "the server gave no reason",
        code=_INTERNAL_ERROR if code is None else code,
        data=error.get("data"),
    )
