"""The check of clients with which an interceptor wraps those of providers."""

from __future__ import annotations

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
from codex_framework.plugins.interceptor_table import Guard
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.testing.requests import model_request

__all__ = ["check_wrapping"]

_SOON_S = 1.0


class _Client:
    """A client with all optional abilities, which writes down what it is asked.

    Attributes:
        asked: The requests.
        prepared: The requests for which it has prepared.
        open: The number of streams that have not ended.
        closed: How often it was closed.
    """

    compacts = True
    close_timeout_s = 5.0

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.prepared: list[ModelRequest | None] = []
        self.open = 0
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append(request)
        self.open += 1
        try:
            for number in range(3):
                yield ItemDone(Message("assistant", (OutputText(f"Hello {number}."),)))
            yield Completed("response")
        finally:
            self.open -= 1

    async def prepare(self, request: ModelRequest, whole: Callable[[], Awaitable[ModelRequest | None]]) -> None:
        self.prepared += [request, await whole()]

    async def aclose(self) -> None:
        self.closed += 1


async def check_wrapping(findings: Findings, guard: Guard, provider: ProviderInfo) -> None:
    """Check what ``client()`` returns: a client that keeps abilities, ends streams that end early, and closes the other one."""
    inner = _Client()
    try:
        client: Any = findings.called(
            "client()", partial(guard.call, inner, provider), within_s=_SOON_S, allowed=(CodexError,)
        )
    except (CodexError, Unmet):
        return
    if client is inner or not findings.members(client, ModelClient):
        return
    what = f"the client that client() returns ({type(client).__name__})"
    for name in CLIENT_ABILITIES:
        cure = f"derive it from ClientWrapper, or set `{name}` to say that it gives it up"
        findings.require(hasattr(client, name), f"{what} has no `{name}`, which the client has that it wraps: {cure}")
    try:
        await _check_streams(findings, client, inner, what)
        await _check_prepared(findings, client, inner, what)
    except Unmet:
        return
    await findings.closed_twice(client.aclose, within_s=5.0, of=what)
    findings.require(inner.closed, f"{what} does not close the client that it wraps")


async def _check_streams(findings: Findings, client: Any, inner: _Client, what: str) -> None:
    async def first() -> None:
        stream = client.stream(model_request("hello"))
        await anext(stream)
        await stream.aclose()

    try:
        await findings.awaited(
            f"closing a stream of {what} early", first(), within_s=_SOON_S, allowed=(ModelError, StopAsyncIteration)
        )
    except (ModelError, StopAsyncIteration):
        return
    findings.require(not inner.open, f"{what} does not close the stream of the client that it wraps: use aclosing()")


async def _check_prepared(findings: Findings, client: Any, inner: _Client, what: str) -> None:
    """Check that what the server prepares for is the request that it gets later."""
    prepare = getattr(client, "prepare", None)
    if prepare is None:
        return
    request = model_request("hello")

    async def whole() -> ModelRequest:
        return request

    await findings.awaited(f"prepare() of {what}", prepare(request, whole), within_s=_SOON_S)
    if len(inner.prepared) == 2 and inner.asked and inner.asked[-1] != request:
        findings.require(
            inner.prepared[1] == inner.asked[-1],
            f"{what} changes requests in stream(), but not those that prepare() sends: override changed() instead",
        )
