"""Messages over stdin and stdout, one per line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat

__all__ = ["StdioTransport"]

_LONGEST_LINE = 256 << 20
"""A longer message ends the connection."""


class StdioTransport:
    """The client that started this process."""

    def __init__(self, reader: asyncio.StreamReader, sink: int, writer: asyncio.StreamWriter | None) -> None:
        self._reader = reader
        self._sink = sink
        self._writer = writer

    @classmethod
    async def open(cls, source: int, sink: int) -> StdioTransport:
        """Connect the descriptors to the event loop. Regular files work too."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(reader)
        file = os.fdopen(source, "rb", buffering=0)
        mode = os.fstat(source).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(source):
            await loop.connect_read_pipe(lambda: protocol, file)
        else:  # a file or /dev/null, which the event loop cannot wait for
            with file:
                reader.feed_data(await asyncio.to_thread(file.read))
            reader.feed_eof()
        writer: asyncio.StreamWriter | None = None
        with contextlib.suppress(ValueError):  # a regular file never blocks
            transport, flow = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(sink, "wb", buffering=0)
            )
            writer = asyncio.StreamWriter(transport, flow, None, loop)
        return cls(reader, sink, writer)

    async def receive(self) -> bytes | None:
        """Return the next line. A line that is too long is the end."""
        try:
            line = await self._reader.readline()
        except ValueError:
            return None
        return line or None

    async def send(self, messages: list[bytes]) -> None:
        """Write lines, and wait until the client reads. Raises OSError if it is gone."""
        data = b"".join(message + b"\n" for message in messages)
        if self._writer is None:
            os.write(self._sink, data)
            return
        self._writer.write(data)
        await self._writer.drain()

    async def aclose(self) -> None:
        """Close the descriptor for writing. Pending output is sent first."""
        if self._writer is not None:
            self._writer.close()
