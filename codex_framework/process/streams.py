"""The descriptors between us and a command: pipes, or a terminal."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

__all__ = ["Streams", "open_pipes", "open_terminal", "terminal_streams"]

_TERMINAL_SIZE = (24, 80)
"""Rows and columns (measured on Codex)."""

_PIPE_BYTES = 1 << 18
"""Wanted capacity of output pipes: fewer wake-ups for a command that prints much. Linux gives 64 KiB unasked."""

_SET_PIPE_SIZE = 1031
"""``F_SETPIPE_SZ`` of Linux (``fcntl.F_SETPIPE_SZ``)."""


class Streams(NamedTuple):
    """Open descriptors. ``child`` ones belong to the command, the others are ours and do not block.

    Attributes:
        child: stdin, stdout and stderr of the command.
        sources: What we read: descriptor and name of the stream.
        stdin: Where we write, if the command's stdin is open.
        unfed: What did not fit into the stdin pipe yet.
    """

    child: tuple[int, ...]
    sources: tuple[tuple[int, str], ...]
    stdin: int | None
    unfed: bytes = b""

    def close_child(self) -> None:
        """Close the command's descriptors on our side, once it has been started (or not)."""
        for fd in set(self.child):
            os.close(fd)

    def close_ours(self) -> None:
        """Close our own."""
        for fd in {fd for fd, _ in self.sources} | ({self.stdin} if self.stdin is not None else set()):
            os.close(fd)


def open_terminal() -> Streams:
    """A pseudo-terminal of 24 x 80; the one stream is called ``stdout``."""
    import termios

    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, _TERMINAL_SIZE)
    return terminal_streams(ours)._replace(child=(theirs, theirs, theirs))


def terminal_streams(ours: int) -> Streams:
    """Those of a terminal whose other side the command has already."""
    os.set_blocking(ours, False)
    return Streams(child=(), sources=((ours, "stdout"),), stdin=ours)


def open_pipes(stdin: bytes | None, *, keep_open: bool) -> Streams:
    """Two output pipes; stdin is ``/dev/null``, or a pipe that already holds the beginning of ``stdin``."""
    opened: list[int] = []
    try:
        if stdin is None and not keep_open:
            child_in, our_in, unfed = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None, b""
            opened.append(child_in)
        else:
            child_in, our_in, unfed = _stdin_pipe(stdin or b"", keep_open=keep_open)
            opened += [child_in] if our_in is None else [child_in, our_in]
        out, child_out = _output_pipe(opened)
        err, child_err = _output_pipe(opened)
    except BaseException:
        for fd in opened:
            os.close(fd)
        raise
    return Streams((child_in, child_out, child_err), ((out, "stdout"), (err, "stderr")), our_in, unfed)


def _stdin_pipe(data: bytes, *, keep_open: bool) -> tuple[int, int | None, bytes]:
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    if data:
        data = data[os.write(ours, data) :]
    if data or keep_open:
        return theirs, ours, data
    os.close(ours)
    return theirs, None, b""


def _output_pipe(opened: list[int]) -> tuple[int, int]:
    import fcntl

    ours, theirs = os.pipe()
    opened += [ours, theirs]
    os.set_blocking(ours, False)
    with contextlib.suppress(OSError):  # not Linux, or the user's budget for pipes is spent: the default does
        fcntl.fcntl(theirs, _SET_PIPE_SIZE, _PIPE_BYTES)
    return ours, theirs
