"""The end of a connection while requests are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from codex_plugin_mcp.errors import RequestTimedOut
from codex_plugin_mcp.peer import Peer


class Slow:
    """A transport that takes a moment for each message, such as one over HTTP."""

    def __init__(self, pause_s: float) -> None:
        self.sent: list[str] = []
        self._pause_s = pause_s
        self._closed = asyncio.Event()

    async def start(self) -> None: ...

    async def send(self, message: Mapping[str, Any]) -> None:
        await asyncio.sleep(self._pause_s)
        self.sent.append(message["method"])

    async def messages(self) -> AsyncIterator[Mapping[str, Any]]:
        await self._closed.wait()
        for message in ():
            yield message

    def negotiated(self, version: str) -> None: ...

    async def aclose(self) -> None:
        self._closed.set()


async def _cancelled_and_closed(pause_s: float) -> list[str]:
    transport = Slow(0)
    peer = Peer(transport, {})
    await peer.start()
    request = asyncio.ensure_future(peer.request("tools/call", {}))
    while not transport.sent:
        await asyncio.sleep(0)
    transport._pause_s = pause_s
    request.cancel()
    await asyncio.wait([request])
    await peer.aclose()
    return transport.sent


def test_a_server_is_told_of_cancelled_requests_before_the_end() -> None:
    assert asyncio.run(_cancelled_and_closed(0.02)) == ["tools/call", "notifications/cancelled"]


def test_a_server_that_does_not_read_does_not_hold_up_the_end() -> None:
    assert asyncio.run(_cancelled_and_closed(3600)) == ["tools/call"]


async def _asked_after_a_pause(timeout_s: float) -> list[str]:
    transport = Slow(0)
    peer = Peer(transport, {})
    await peer.start()
    request = asyncio.ensure_future(peer.request("tools/call", {}, timeout_s=timeout_s))
    while not transport.sent:
        await asyncio.sleep(0)
    with peer.paused(), peer.paused():
        await asyncio.sleep(0)
    with pytest.raises(RequestTimedOut):
        await asyncio.wait_for(request, 30)
    await peer.aclose()
    return transport.sent


def test_the_time_limit_of_a_call_goes_on_after_a_question() -> None:
    assert asyncio.run(_asked_after_a_pause(0.05)) == ["tools/call", "notifications/cancelled"]
