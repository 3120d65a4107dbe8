"""The thread of a webhook: a bounded queue, requests with retries, and an end within a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

from codex_framework import Value
from codex_plugin_notify.component import Reports
from codex_plugin_notify.posting import Failed, Poster
from codex_plugin_notify.target import Target

__all__ = ["Delivery", "Message"]

_MOST = 100
"""Longest queue; beyond it the oldest message is dropped."""

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class Message(Value):
    """One message. All attempts have the same id, by which a server recognises repetitions."""

    id: str
    body: bytes
    thread_id: str

    @classmethod
    def of(cls, fields: Mapping[str, Any], thread_id: str) -> Self:
        """Return the message for the fields of a notification."""
        body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        return cls(f"msg_{uuid.uuid4().hex}", body, thread_id)


class Delivery:
    """Posts messages in order, one at a time, on a separate thread with its own event loop.

    Args:
        what: The webhook's name in messages.
    """

    def __init__(self, what: str, target: Target, reports: Reports) -> None:
        self._what = what
        self._target = target
        self._reports = reports
        self._queue: deque[Message] = deque()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived: asyncio.Event | None = None
        self._work: asyncio.Task[None] | None = None
        self._closing: float | None = None
        self._outage = ""
        self._said: set[str] = set()
        self._broken = False
        self._thread = threading.Thread(target=self._run, name=what.replace("the ", "notify-"), daemon=True)

    def add(self, message: Message) -> None:
        """Queue a message."""
        with self._lock:
            if self._broken:
                return
            if len(self._queue) >= _MOST:
                dropped = self._queue.popleft()
                self._tell(f"is so slow that messages are dropped, because {_MOST} wait already", dropped.thread_id)
            self._queue.append(message)
            if self._thread.ident is None:
                self._thread.start()
            self._wake()

    def close(self) -> None:
        """Post the remaining messages within the time limit, and end the thread."""
        with self._lock:
            self._closing = time.monotonic() + self._target.close_timeout_s
            self._wake()
        self._thread.join(self._target.close_timeout_s)
        if self._thread.is_alive():
            with self._lock:
                if self._loop is not None and self._work is not None:
                    with contextlib.suppress(RuntimeError):  # it has just ended
                        self._loop.call_soon_threadsafe(self._work.cancel)
            self._thread.join(0.5)
        left = len(self._queue)
        if left:
            many = "a message" if left == 1 else f"{left} messages"
            self._reports.tell("", f"{self._what} did not take {many} before the end{self._because}")

    @property
    def _because(self) -> str:
        return f" ({self._outage})" if self._outage else ""

    def _wake(self) -> None:
        if self._loop is not None and self._arrived is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._arrived.set)

    def _run(self) -> None:
        from codex_plugin_notify.loops import run

        try:
            run(self._posting())
        except Exception as error:  # a bug here must not be lost with the thread
            self._reports.tell("", f"{self._what} failed: {type(error).__name__}: {error}")

    async def _posting(self) -> None:
        with self._lock:
            self._loop, self._arrived = asyncio.get_running_loop(), asyncio.Event()
            self._work = asyncio.current_task()
        try:
            async with Poster(self._target) as poster:
                while (message := await self._next()) is not None:
                    await self._deliver(poster, message)
        except Failed as error:
            self._give_up(str(error))
        except asyncio.CancelledError:
            return
        finally:
            with self._lock:
                self._loop = None

    async def _next(self) -> Message | None:
        """Wait for the next message. None if nothing is left at the end."""
        assert self._arrived is not None
        while True:
            with self._lock:
                if self._queue:
                    return self._queue[0]
                if self._closing is not None:
                    return None
                self._arrived.clear()
            await self._arrived.wait()

    async def _deliver(self, poster: Poster, message: Message) -> None:
        """Post a message, with retries until it is accepted, permanently refused, or its time is over."""
        began = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await poster.post(message.id, message.body)
            except Failed as error:
                wait_s = max(pause_s * random.uniform(0.5, 1.0), error.retry_after_s)  # noqa: S311  # only spreads requests
                if not error.retryable or not self._has_time(began, wait_s):
                    self._drop(message, error)
                    return
                self._outage = str(error)
                await self._pause(wait_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            self._forget(message)
            self._recovered()
            return

    def _has_time(self, began: float, wait_s: float) -> bool:
        until = time.monotonic() + wait_s
        return until < began + self._target.retry_s and (self._closing is None or until < self._closing)

    async def _pause(self, seconds: float) -> None:
        """Wait before the next attempt. The end of the kernel cuts the waiting short, once."""
        assert self._arrived is not None
        deadline = time.monotonic() + seconds
        was_closing = self._closing is not None
        while time.monotonic() < deadline and (was_closing or self._closing is None):
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(deadline - time.monotonic()):
                    await self._arrived.wait()

    def _forget(self, message: Message) -> None:
        with self._lock, contextlib.suppress(ValueError):  # it was dropped meanwhile
            self._queue.remove(message)

    def _drop(self, message: Message, error: Failed) -> None:
        self._forget(message)
        self._tell(f"did not take a message: {error}", message.thread_id)

    def _give_up(self, reason: str) -> None:
        """Take no messages any more, because none can be posted."""
        with self._lock:
            self._broken = True
            thread_id = self._queue[0].thread_id if self._queue else ""
            self._queue.clear()
        self._tell(f"cannot be used: {reason}", thread_id)

    def _tell(self, fact: str, thread_id: str) -> None:
        """Tell about lost messages, each reason once until a message is delivered."""
        text = f"{self._what} {fact}"
        self._said.add(text)
        self._reports.tell(thread_id, text)

    def _recovered(self) -> None:
        self._outage = ""
        for text in self._said:
            self._reports.again(text)
        self._said.clear()
