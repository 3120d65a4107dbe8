"""The check of clients with which an interceptor wraps the clients of providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from codex_framework.contract.errors import CodexError, ModelError
from codex_framework.contract.protocol.items import Message, OutputText
from codex_framework.contract.roles.client_wrapper import CLIENT_ABILITIES
from codex_framework.contract.roles.models import (
    Completed,
    ItemDone,
    ModelClient,
    ModelEvent,
    ModelRequest,
    ProviderInfo,
)
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.testing.requests import model_request
from codex_framework.threads.interceptor_table import Guard

__all__ = ["check_wrapping"]

_SOON_S = 1.0
_CLOSING = "use `async with self.response(request)` of ClientWrapper, or aclosing()"


class _Client:
    """A client with all optional abilities, which records its requests.

    Attributes:
        asked: The requests.
        prepared: The requests for which it has prepared.
        open: The number of streams that have not ended.
        closed: The number of times it was closed.
        error: The error with which a response ends after its first item. None ends it normally.
        waits: Whether a response never ends after its first item.
    """

    compacts = True
    close_timeout_s = 5.0

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.prepared: list[ModelRequest | None] = []
        self.open = 0
        self.closed = 0
        self.error: ModelError | None = None
        self.waits = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append(request)
        self.open += 1
        try:
            for number in range(3):
                yield ItemDone(Message("assistant", (OutputText(f"Hello {number}."),)))
                if self.error is not None:
                    raise self.error
                if self.waits:
                    await asyncio.Event().wait()
            yield Completed("response")
        finally:
            self.open -= 1

    async def prepare(self, request: ModelRequest, whole: Callable[[], Awaitable[ModelRequest | None]]) -> None:
        self.prepared += [request, await whole()]

    async def aclose(self) -> None:
        self.closed += 1


async def check_wrapping(findings: Findings, guard: Guard, provider: ProviderInfo) -> None:
    """Check the client that ``client()`` returns: it keeps abilities, ends streams that end early, and closes the inner client."""
    inner = _Client()
    try:
        client: Any = findings.call(
            "client()", partial(guard.call, inner, provider), within_s=_SOON_S, allowed=(CodexError,)
        )
    except (CodexError, Unmet):
        return
    if client is inner or not findings.check_members(client, ModelClient):
        return
    what = f"the client that client() returns ({type(client).__name__})"
    for name in CLIENT_ABILITIES:
        cure = f"derive it from ClientWrapper, or set `{name}` to say that it gives it up"
        findings.require(hasattr(client, name), f"{what} has no `{name}`, which the client has that it wraps: {cure}")
    try:
        await _check_streams(findings, client, inner, what)
        await _check_ends(findings, client, inner, what)
        await _check_prepared(findings, client, inner, what)
    except Unmet:
        return
    await findings.close_twice(client.aclose, within_s=5.0, of=f" of {what}")
    findings.require(inner.closed, f"{what} does not close the client that it wraps")


async def _check_streams(findings: Findings, client: Any, inner: _Client, what: str) -> None:
    async def first() -> None:
        stream = client.stream(model_request("hello"))
        await anext(stream)
        await stream.aclose()

    try:
        await findings.wait_for(
            f"closing a stream of {what} early", first(), within_s=_SOON_S, allowed=(ModelError, StopAsyncIteration)
        )
    except (ModelError, StopAsyncIteration):
        return
    findings.require(
        not inner.open,
        f"{what} does not close the stream of the client that it wraps: {_CLOSING}",
    )


async def _check_ends(findings: Findings, client: Any, inner: _Client, what: str) -> None:
    """Check that the end of a response, its error and its cancellation are passed on. A wrapper may refuse each request itself."""
    inner.asked.clear()
    await _whole(findings, client, what)
    wrong = next((type(sent).__name__ for sent in inner.asked if not isinstance(sent, ModelRequest)), None)
    if wrong is not None:
        findings.note(f"{what} sends {wrong} instead of a ModelRequest: return the request from changed()")
    inner.error = ModelError("the server is busy", retryable=True, retry_after_s=7.0)
    await _whole(findings, client, what, "if the client that it wraps raises ModelError, ")
    inner.error, inner.waits = None, True
    began = len(inner.asked)
    task = asyncio.ensure_future(_read_events(client))
    for _ in range(100):
        if len(inner.asked) > began:
            break
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    if not task.done():
        await findings.cancel(f"a stream of {what}", task)
    elif not task.cancelled():
        task.exception()  # it refuses the request, which was found before
    inner.waits = False
    findings.require(
        not inner.open,
        f"{what} does not close the stream of the client that it wraps: {_CLOSING}",
    )


async def _whole(findings: Findings, client: Any, what: str, when: str = "") -> None:
    try:
        events = await findings.wait_for(
            f"{when}a stream of {what}", _read_events(client), within_s=_SOON_S, allowed=(ModelError,)
        )
    except (ModelError, Unmet):
        return
    ends = [place for place, event in enumerate(events) if isinstance(event, Completed)]
    cure = "pass on Completed as the last event, or raise ModelError"
    findings.require(ends == [len(events) - 1], f"{when}a stream of {what} does not end with one Completed: {cure}")


async def _read_events(client: Any) -> list[ModelEvent]:
    return [event async for event in client.stream(model_request("hello"))]


async def _check_prepared(findings: Findings, client: Any, inner: _Client, what: str) -> None:
    """Check that the server later gets exactly the request that it prepared for."""
    prepare = getattr(client, "prepare", None)
    if prepare is None:
        return
    request = model_request("hello")

    async def whole() -> ModelRequest:
        return request

    await findings.wait_for(f"prepare() of {what}", prepare(request, whole), within_s=_SOON_S)
    if len(inner.prepared) == 2 and inner.asked and inner.asked[-1] != request:
        findings.require(
            inner.prepared[1] == inner.asked[-1],
            f"{what} changes requests in stream(), but not those that prepare() sends: override changed() instead",
        )
