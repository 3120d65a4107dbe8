"""Stdin and stdout as the wire of the protocol. Everything else in the process loses them.

Until the block ends, file descriptor 1 and ``sys.stdout`` write to stderr, and file descriptor 0 is empty. So output of a
plugin or a child cannot get into a message, and they cannot read parts of messages.

Reading and writing happen on two daemon threads: a pipe that blocks delays neither signals nor the end of the process, and the
flags of the descriptors, which other processes share, are unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["MAX_LINE", "Wires", "own_wires"]

MAX_LINE = 64 * 1024 * 1024
"""Longest message in bytes. The rest of a longer line is skipped."""

_AHEAD = 64
"""How many messages are read before the server has taken the first of them."""

_TOO_LONG = "a message was longer than 64 MiB and was skipped"


class Wires:
    """The wire, with the two methods and the iteration that the SDK's transport needs."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        self._out: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self.broken = False
        for work in (self._read, self._write):
            threading.Thread(target=work, name=f"mcp-server{work.__name__}", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the lines of stdin to its end."""
        while (line := await self._lines.get()) is not None:
            self._room.release()
            yield line

    async def write(self, text: str) -> None:
        """Write a text. If the reader is gone, it is dropped."""
        if self.broken:
            return
        written: asyncio.Future[None] = self._loop.create_future()
        self._out.put((text.encode("utf-8", "replace"), written))
        await written

    async def flush(self) -> None:
        """Do nothing: :meth:`write` has flushed."""

    def close(self) -> None:
        """Let the writing thread end once it has written all texts."""
        self._out.put(None)

    def _read(self) -> None:
        while line := self._line():
            self._room.acquire()
            if not self._call(self._lines.put_nowait, line.decode("utf-8-sig", "replace")):
                return
        self._call(self._lines.put_nowait, None)

    def _line(self) -> bytes:
        """Return the next line. A line that is too long becomes an invalid message."""
        try:
            line = self._source.readline(MAX_LINE)
            if len(line) < MAX_LINE or line.endswith(b"\n"):
                return line
            while (rest := self._source.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                pass
        except OSError:
            return b""
        print(f"warning: {_TOO_LONG}", file=sys.stderr)
        return b"{}\n"

    def _write(self) -> None:
        while (task := self._out.get()) is not None:
            data, written = task
            try:
                self._sink.write(data)
                self._sink.flush()
            except OSError:
                self.broken = True
                self._call(self._lines.put_nowait, None)
            if not self._call(_done, written):
                return

    def _call(self, function: object, *arguments: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]
        except RuntimeError:  # the loop is closed
            return False
        return True


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@contextlib.contextmanager
def own_wires() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Reserve stdin and stdout for the block."""
    before = sys.stdin, sys.stdout
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  # closed below
    os.dup2(sys.stdin.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield (
            os.fdopen(kept[0], "rb", closefd=False),
            os.fdopen(kept[1], "wb", closefd=False),
        )  # threads may still use them
    finally:
        sys.stdin.close()
        sys.stdin, sys.stdout = before
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
