"""Server-sent events: the log of a thread for one client, which can lose its connection and come back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.types import Receive, Scope, Send

from codex_contrib_web.threads import LiveThread, LiveThreads
from codex_framework import ThreadError

__all__ = ["EventStream"]

_SEND_TIMEOUT_S = 60.0
"""The time limit for a client to read sent data. After that it is disconnected, and can reconnect."""

_CHUNK_BYTES = 64 << 10
"""The maximum size of one write, apart from larger events."""

_GRACE_S = 10
"""How long the threads may take to end when the server stops, while clients still listen."""


class EventStream(EventSourceResponse):
    """The response to ``GET /threads/ID/events``.

    A client that has missed events gets an event of the type ``lost``, and then the remaining events.

    Args:
        cursor: The position after which the client continues. Empty for all available events.
        stopping: Set when the server must stop.
    """

    def __init__(self, threads: LiveThreads, live: LiveThread, cursor: str, stopping: anyio.Event) -> None:
        super().__init__(
            _frames(threads, live, cursor),
            send_timeout=_SEND_TIMEOUT_S,
            shutdown_event=stopping,
            shutdown_grace_period=_GRACE_S,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the client leaves, stops reading, or the thread ends."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            return


async def _frames(threads: LiveThreads, live: LiveThread, cursor: str) -> AsyncIterator[bytes]:
    if threads.was_newest(live.thread.id, cursor):
        cursor = ""
    with threads.reader(live):
        while True:
            try:
                events = await live.log.read(cursor)
            except ThreadError as error:
                yield b"event: lost\ndata: " + _lost_event(error) + b"\n\n"
                cursor = live.log.oldest
                continue
            if not events:
                return
            frames, size = [], 0
            for (
                event
            ) in events:  # no more than the client can take, so that one that does not read holds nothing in memory
                frames.append(b"id: %b\ndata: %b\n\n" % (event.cursor.encode(), event.data))
                size += len(event.data)
                cursor = event.cursor
                if size >= _CHUNK_BYTES:
                    break
            del events
            yield b"".join(frames)


def _lost_event(error: ThreadError) -> bytes:
    told: dict[str, Any] = {
        "slug": error.slug,
        "message": str(error),
        "hint": "GET the `history` of the thread for what you have missed.",
    }
    return json.dumps({"error": told}).encode()
