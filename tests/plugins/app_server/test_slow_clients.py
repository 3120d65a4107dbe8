"""Clients that do not read: what is kept for them, and when they are disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from codex_plugin_app_server import outbox
from codex_plugin_app_server.outbox import Outbox


def test_deltas_are_left_out_behind_a_full_queue_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_MOST_BYTES", 10)

    async def run() -> None:
        box = Outbox()
        box.put(b"12345", droppable=True)
        box.put(b"67890", droppable=True)
        box.put(b"delta", droppable=True)
        box.put(b"item")
        waiting = asyncio.ensure_future(box.room())
        taken = await box.take()
        assert taken == [b"12345", b"67890", b"item"]
        assert not waiting.done()
        box.put(b"delta", droppable=True)  # what was taken has not left yet
        box.sent(taken)
        await waiting
        box.put(b"more", droppable=True)
        assert await box.take() == [b"more"]

    asyncio.run(run())


def test_client_that_never_reads_is_disconnected_and_the_others_are_not(
    home: Any, serving: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_MOST_BYTES", 1000)
    monkeypatch.setattr(outbox, "_TOO_MANY_BYTES", 4000)
    home.serve()

    async def run() -> None:
        async with serving() as running:
            deaf, other = running.connect(), running.connect()
            await deaf.hello()
            await other.hello()
            deaf.reading.clear()
            for number in range(200):
                running.server.broadcast("warning", {"message": f"{number:0100}", "threadId": None})
                await asyncio.sleep(0)  # the other one reads
                if deaf.closed:
                    break
            deaf.reading.set()
            await deaf.until_closed()
            assert await other.call("model/list")
            assert not other.closed

    asyncio.run(run())
