"""One client: reads its messages, runs its requests, and sends its responses and notifications."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeGuard, cast

from codex_framework import CodexError, Value
from codex_framework.toolkit.strict_json import strict_json
from codex_plugin_app_server.errors import METHOD_NOT_FOUND, OVERLOADED, RpcError, error_of
from codex_plugin_app_server.outbox import Outbox
from codex_plugin_app_server.schema import MismatchError, protocol
from codex_plugin_app_server.table import Json, Method

__all__ = ["Client", "Connection", "Host", "PendingCall", "Transport", "encode", "encode_notification"]

_LAST_WORDS_S = 1.0
"""The time limit for a client that sends nothing more to read its pending messages."""

_MOST_REQUESTS = 128
"""Unfinished requests of one client; further ones are refused."""

_MOST_LEVELS = 127
"""Lists and objects in each other that Codex reads."""


class Transport(Protocol):
    """Carries the messages of one connection."""

    async def receive(self) -> bytes | str | None:
        """Return the next message, or None at the end."""
        ...

    async def send(self, messages: list[bytes]) -> None:
        """Send messages, and wait until the client reads. Raises OSError if it is gone."""
        ...

    async def aclose(self) -> None:
        """Close it. Safe to call twice."""
        ...


class Client(Value, kw_only=True):
    """The client's identity and options from ``initialize``.

    Attributes:
        experimental: Whether it gets experimental methods.
        opted_out: The notifications that it has declined.
    """

    name: str
    version: str
    experimental: bool
    opted_out: frozenset[str]


class PendingCall:
    """A request of a client that has no response yet.

    Attributes:
        request_id: Its id.
        params: The parameters, which have been checked.
    """

    def __init__(self, connection: Connection, request_id: str | int, params: Json) -> None:
        self.connection = connection
        self.request_id = request_id
        self.params = params
        self._then: list[Callable[[], None]] = []

    @property
    def client(self) -> Client:
        """The client."""
        assert self.connection.client is not None
        return self.connection.client

    def then(self, function: Callable[[], None]) -> None:
        """Call a function once the response is on its way, or the request has failed."""
        self._then.append(function)

    def finish(self) -> None:
        """Call the callbacks that wait for the response.

        Exceptions are reported, because other waiters would otherwise wait forever.
        """
        for function in self._then:
            try:
                function()
            except Exception as error:
                self.connection.report("the end of a request", error)


class Host(Protocol):
    """The server, for its connections."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """The table of methods."""
        ...

    def open_call(self, connection: Connection, request_id: str | int, params: Json) -> PendingCall:
        """Return the argument of a handler."""
        ...

    def take_answer(self, connection: Connection, number: object, message: Mapping[str, Any]) -> None:
        """Take a client's answer to a request of the server."""
        ...

    def forget(self, connection: Connection) -> None:
        """Take note that a client has left."""
        ...

    def report(self, what: str, error: Exception) -> None:
        """Report a defect of the server."""
        ...


class Connection:
    """A client and its state.

    Attributes:
        left: Whether the client sends nothing more, so that work that it started for itself ends.
    """

    def __init__(self, host: Host, transport: Transport) -> None:
        self.client: Client | None = None
        self.left = asyncio.Event()
        self._host = host
        self._transport = transport
        self._outbox = Outbox()
        self._running: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}  # the newest request about each thread
        self._beside: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve the client until it leaves or stops reading."""
        work = [asyncio.ensure_future(each) for each in (self._read(), self._send(), self._outbox.overflow())]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            if work[0].done():  # the client has said everything, and may still read
                self._outbox.close()
                await asyncio.wait(work[1:2], timeout=_LAST_WORDS_S)
        finally:
            self._outbox.close()
            tasks = (*work, *self._running, *self._beside)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            self._host.forget(self)  # not before, or an unfinished request could let it follow a thread for ever
            with contextlib.suppress(OSError):
                await self._transport.aclose()
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, OSError):
                self._host.report("a connection", end)

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send_notification(method, encode_notification(method, params))

    def send_notification(self, method: str, message: bytes, *, droppable: bool = False) -> None:
        """Send an encoded notification, unless the client does not want it. See :meth:`Outbox.put`."""
        if self.client is not None and method not in self.client.opted_out:
            self._outbox.put(message, droppable=droppable)

    async def room(self) -> None:
        """Wait until the client has read most of the sent data. Messages that can wait are sent afterwards."""
        await self._outbox.room()

    def run_beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something for the client, at most until it leaves."""
        task = asyncio.ensure_future(work)
        self._beside.add(task)

        def on_end(task: asyncio.Task[None]) -> None:
            self._beside.discard(task)
            if not task.cancelled() and isinstance(error := task.exception(), Exception):
                self._host.report("work for a client", error)

        task.add_done_callback(on_end)
        return task

    def send_request(self, message: bytes) -> None:
        """Send an encoded request of the server."""
        self._outbox.put(message)

    async def _send(self) -> None:
        while messages := await self._outbox.take():
            await self._transport.send(messages)
            self._outbox.sent(messages)

    async def _read(self) -> None:
        while (text := await self._transport.receive()) is not None:
            await self._outbox.room()
            try:
                message = strict_json(text if isinstance(text, str) else text.decode(), _MOST_LEVELS)
            except (ValueError, RecursionError):
                continue  # as in Codex
            if isinstance(message, dict):
                self._take(message)
            if self.client is None and self._running:  # what follows `initialize` may be on its way already
                await asyncio.wait(self._running)
        self.left.set()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _take(self, message: Mapping[str, Any]) -> None:
        request_id, method = message.get("id"), message.get("method")
        if isinstance(method, str):
            if "id" not in message:
                return  # the only notification of clients, `initialized`, changes nothing
            if _is_id(request_id):
                self._begin(request_id, method, message)
        elif "result" in message or "error" in message:
            self._host.take_answer(self, request_id, message)

    def _begin(self, request_id: str | int, method_name: str, message: Mapping[str, Any]) -> None:
        if len(self._running) >= _MOST_REQUESTS:
            self._respond_error(request_id, RpcError("Server overloaded; retry later.", OVERLOADED))
            return
        try:
            method, params = self._admit(method_name, message.get("params"))
        except RpcError as error:
            self._respond_error(request_id, error)
            return
        scope = str(params.get("threadId", ""))
        before = None if method.concurrent else self._last.get(scope)
        task = asyncio.ensure_future(self._run(request_id, method, params, before))
        self._running.add(task)
        if not method.concurrent:
            self._last[scope] = task

        def on_end(task: asyncio.Task[None]) -> None:
            self._running.discard(task)
            if self._last.get(scope) is task:
                del self._last[scope]

        task.add_done_callback(on_end)

    def _admit(self, name: str, params: object) -> tuple[Method, Json]:
        """Return the method that the client calls, and its parameters. Raises RpcError.

        The checks have Codex's order: it parses a whole request before it checks the state of the client.
        """
        known = protocol()
        method = self._host.methods.get(name)
        params_type = known.methods("ClientRequest").get(name, "") if method is None else method.params
        if params_type == "":
            names = ", ".join(f"`{each}`" for each in known.methods("ClientRequest"))
            raise RpcError(f"Invalid request: unknown variant `{name}`, expected one of {names}")
        checked = _checked_params(name, params_type, params)
        if (self.client is None) != (name == "initialize"):
            raise RpcError("Not initialized" if self.client is None else "Already initialized")
        experimental = name in known.experimental if method is None else method.stability == "experimental"
        if experimental and self.client is not None and not self.client.experimental:
            raise RpcError(f"{name} requires experimentalApi capability")
        if method is None:
            raise RpcError(f"{name} is not supported by this server", METHOD_NOT_FOUND)
        return method, checked

    async def _run(
        self, request_id: str | int, method: Method, params: Json, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None and not before.done():
            await asyncio.wait((before,))
        call = self._host.open_call(self, request_id, params)
        try:
            result = await method.handler(call)
        except (RpcError, CodexError) as error:
            self._respond_error(request_id, error_of(error))
        except Exception as error:  # one broken handler ends neither the connection nor the server
            self._host.report(method.name, error)
            self._respond_error(request_id, error_of(error))
        else:
            self._outbox.put(encode({"id": request_id, "result": result}))
        finally:
            call.finish()

    def report(self, what: str, error: Exception) -> None:
        """Report a defect of the server."""
        self._host.report(what, error)

    def _respond_error(self, request_id: str | int, error: RpcError) -> None:
        self._outbox.put(encode({"error": error.to_wire(), "id": request_id}))


def _checked_params(method_name: str, type_name: str | None, params: object) -> Json:
    """Return the parameters of a request. Raises RpcError."""
    try:
        if type_name is None:
            protocol().check_none(params)
        elif params is not None:
            protocol().check(params, type_name)
        elif protocol().needs_params(method_name):
            raise MismatchError("missing field `params`")
    except MismatchError as problem:
        raise RpcError(f"Invalid request: {problem}") from None
    return cast("Json", params or {})


def _is_id(value: object) -> TypeGuard[str | int]:
    if isinstance(value, str):
        return not _SURROGATE.search(value)
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


_SURROGATE = re.compile("[\ud800-\udfff]")


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as JSON."""
    return _ENCODER.encode(message).encode("utf-8", "replace")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Made once: ``json.dumps`` makes one for every call with options."""


def encode_notification(method: str, params: Json) -> bytes:
    """Return a notification as JSON, with the time."""
    return encode({"method": method, "params": params, "emittedAtMs": int(time.time() * 1000)})
