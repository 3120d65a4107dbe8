"""Pipes in place of files as standard streams.

A command can reopen its standard streams through ``/proc/self/fd``, and would then write to the file itself, bypassing all
mounts. So a stream that is a file or folder outside is read and written here.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading

__all__ = ["Relay"]

_CHUNK = 1 << 16


class Relay:
    """Copies data between the descriptors of a launch and of the command.

    Attributes:
        streams: stdin, stdout and stderr for the command.
    """

    def __init__(self, stdin: int, stdout: int, stderr: int) -> None:
        self._theirs: list[int] = []
        self._outputs: list[threading.Thread] = []
        self._pending: list[threading.Thread] = []
        made: dict[int, int] = {}
        streams = []
        for stream, outside in enumerate((stdin, stdout, stderr)):
            if not _is_file(outside):
                streams.append(outside)
                continue
            if outside not in made or stream == 0:
                made[outside] = self._piped(outside, inwards=stream == 0)
            streams.append(made[outside])
        self.streams = (streams[0], streams[1], streams[2])

    def started(self) -> None:
        """Start copying, because the command has its own descriptors now."""
        self.close()
        for thread in self._pending:
            thread.start()

    def close(self) -> None:
        """Close the command's ends."""
        theirs, self._theirs = self._theirs, []
        for descriptor in theirs:
            os.close(descriptor)

    def finish(self) -> None:
        """Wait until all output has been copied. Call it after the command's end."""
        for thread in self._outputs:
            thread.join()

    def _piped(self, outside: int, *, inwards: bool) -> int:
        reader, writer = os.pipe()
        own = os.dup(outside)
        theirs, source, target = (reader, own, writer) if inwards else (writer, reader, own)
        self._theirs.append(theirs)
        thread = threading.Thread(target=_pass_on, args=(source, target), name="relay", daemon=True)
        self._pending.append(thread)
        if not inwards:
            self._outputs.append(thread)
        return theirs


def _is_file(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)


def _pass_on(source: int, target: int) -> None:
    with contextlib.suppress(OSError):  # nobody reads any longer, or the disk is full; the command gets a broken pipe
        while data := os.read(source, _CHUNK):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(target, rest) :]
    os.close(source)
    os.close(target)
