"""Lines over stdin and stdout, which may be pipes, files or terminals.

Descriptors are read and written in threads, because regular files cannot be awaited, and because others may share the
descriptors, which must not become non-blocking for them. The threads do not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

__all__ = ["LONGEST_LINE", "LineReader", "LineWriter"]

LONGEST_LINE = 64 << 20
_CHUNK = 1 << 16
_ROOM = 1 << 20
"""The maximum number of bytes that wait for a client that does not read. Beyond that, its work stops."""


class _Worker:
    """A thread that runs blocking functions, one after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function, and return its result."""
        result = self._loop.create_future()
        self._jobs.put((function, result))
        return await result

    def _work(self) -> None:
        while True:
            function, result = self._jobs.get()
            try:
                settle, value = result.set_result, function()
            except OSError as error:
                settle, value = result.set_exception, error
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any longer
                self._loop.call_soon_threadsafe(self._settle, result, settle, value)

    @staticmethod
    def _settle(result: asyncio.Future[Any], settle: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            settle(value)


class LineReader:
    """Reads lines from a descriptor."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._worker = _Worker()

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield the lines that are not empty. A line that is too long is None."""
        waiting, is_too_long = bytearray(), False
        while chunk := await self._worker.run(lambda: os.read(self._source, _CHUNK)):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line = bytes(waiting + end).strip()
                waiting.clear()
                if is_too_long or line:
                    yield None if is_too_long else line
                is_too_long = False
            waiting += rest
            if len(waiting) > LONGEST_LINE:
                waiting.clear()
                is_too_long = True
        if is_too_long or waiting.strip():
            yield None if is_too_long else bytes(waiting)


class LineWriter:
    """Writes lines to a descriptor, in order.

    Attributes:
        failure: Why nothing more can be written, as a future that is done then.
    """

    def __init__(self, sink: int) -> None:
        self.failure: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()
        self._sink = sink
        self._worker = _Worker()
        self._waiting = bytearray()
        self._changed = asyncio.Condition()
        self._writing = asyncio.ensure_future(self._write())
        self._is_ending = False

    async def put(self, line: bytes) -> None:
        """Write a line, when the client has read most of what came before."""
        await self.room()
        self._waiting += line + b"\n"
        await self._notify()

    async def room(self) -> None:
        """Wait until the client has read most of the written data, or nothing more can be written."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < _ROOM or self.failure.done())

    async def end(self) -> None:
        """Wait until everything is written, or nothing more can be written."""
        self._is_ending = True
        await self._notify()
        await self._writing

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _write(self) -> None:
        while not self.failure.done():
            async with self._changed:
                await self._changed.wait_for(lambda: self._waiting or self._is_ending)
            if not self._waiting:
                return
            data = bytes(self._waiting)
            self._waiting.clear()
            try:
                await self._worker.run(partial(_write_all, self._sink, data))
            except OSError as error:
                self.failure.set_result(error)
            await self._notify()


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
