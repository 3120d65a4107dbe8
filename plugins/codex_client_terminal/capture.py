"""Output of plugins and libraries to stdout and stderr, which must not disturb the screen."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

__all__ = ["captured_output"]

_LONGEST = 65_536


@contextlib.contextmanager
def captured_output() -> Iterator[tuple[int, int]]:
    """Redirect the descriptors 1 and 2 into a pipe for the block. Yield the terminal, and the pipe's end to read from."""
    terminal, kept = os.dup(1), os.dup(2)
    source, sink = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.set_blocking(sink, False)
    os.close(sink)
    try:
        yield terminal, source
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os.dup2(terminal, 1)
        os.dup2(kept, 2)
        os.close(terminal)
        os.close(kept)
        os.close(source)


class LineReader:
    """Makes lines of what arrives at a pipe.

    Args:
        on_line: Called with each line.
    """

    def __init__(self, source: int, on_line: Callable[[str], None]) -> None:
        os.set_blocking(source, False)
        self._source = source
        self._on_line = on_line
        self._rest = b""

    def read(self) -> bool:
        """Take pending input. Return whether any has arrived."""
        try:
            data = os.read(self._source, _LONGEST)
        except OSError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))
        return bool(data)

    def finish(self) -> None:
        """Take everything that is left, also a line without an end."""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        while self.read():
            pass
        if self._rest:
            self._on_line(self._rest.decode("utf-8", "replace"))
