"""The file descriptors of a command: pipes or a terminal."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

__all__ = ["PIPE_BYTES", "TERMINAL_SIZE", "Streams", "enlarge", "open_pipes", "open_terminal", "terminal_streams"]

TERMINAL_SIZE = (24, 80)
"""Rows and columns (measured on Codex)."""

PIPE_BYTES = 1 << 16
"""Linux's default capacity of a pipe."""

_LARGE_PIPE_BYTES = 1 << 18
"""Requested capacity of a pipe with large output, for fewer wake-ups."""

_SET_PIPE_SIZE = 1031
"""``F_SETPIPE_SZ`` of Linux (``fcntl.F_SETPIPE_SZ``)."""


class Streams(NamedTuple):
    """Open file descriptors. The descriptors in ``child`` belong to the command; all others are ours and non-blocking.

    Attributes:
        child: stdin, stdout and stderr of the command.
        sources: The descriptors to read from, with the names of their streams.
        stdin: The descriptor to write to, or None if the command's stdin is closed.
        unwritten: The data that did not fit in the stdin pipe yet.
    """

    child: tuple[int, ...]
    sources: tuple[tuple[int, str], ...]
    stdin: int | None
    unwritten: bytes = b""

    def close_child(self) -> None:
        """Close the command's descriptors on our side, after it was started or failed to start."""
        for fd in set(self.child):
            os.close(fd)

    def close_ours(self) -> None:
        """Close our own descriptors."""
        for fd in {fd for fd, _ in self.sources} | ({self.stdin} if self.stdin is not None else set()):
            os.close(fd)


def open_terminal(size: tuple[int, int]) -> Streams:
    """Open a pseudo-terminal of so many rows and columns. Its only stream is called ``stdout``."""
    import termios

    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, size)
    return terminal_streams(ours)._replace(child=(theirs, theirs, theirs))


def terminal_streams(ours: int) -> Streams:
    """Return the streams of a terminal whose other side the command already has."""
    os.set_blocking(ours, False)
    return Streams(child=(), sources=((ours, "stdout"),), stdin=ours)


def open_pipes(stdin: bytes | None, *, keep_open: bool) -> Streams:
    """Open two output pipes. stdin is ``/dev/null``, or a pipe that already contains the beginning of ``stdin``."""
    descriptors: list[int] = []
    try:
        if stdin is None and not keep_open:
            child_in, our_in, unwritten = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None, b""
            descriptors.append(child_in)
        else:
            child_in, our_in, unwritten = _stdin_pipe(stdin or b"", keep_open=keep_open)
            descriptors += [child_in] if our_in is None else [child_in, our_in]
        out, child_out = _output_pipe(descriptors)
        err, child_err = _output_pipe(descriptors)
    except BaseException:
        for fd in descriptors:
            os.close(fd)
        raise
    return Streams((child_in, child_out, child_err), ((out, "stdout"), (err, "stderr")), our_in, unwritten)


def _stdin_pipe(data: bytes, *, keep_open: bool) -> tuple[int, int | None, bytes]:
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    if data:
        data = data[os.write(ours, data) :]
    if data or keep_open:
        return theirs, ours, data
    os.close(ours)
    return theirs, None, b""


def enlarge(pipe: int) -> None:
    """Enlarge a pipe that was found full. Most commands print little, so this is not done for every pipe."""
    import fcntl

    with contextlib.suppress(OSError):  # not Linux, or the user's budget for pipes is used up; the default size is used
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _LARGE_PIPE_BYTES)


def _output_pipe(descriptors: list[int]) -> tuple[int, int]:
    ours, theirs = os.pipe()
    descriptors += [ours, theirs]
    os.set_blocking(ours, False)
    return ours, theirs
