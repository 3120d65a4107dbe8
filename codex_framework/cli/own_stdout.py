"""The stdout of a run, reserved for the run itself: output of plugins and their children goes to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

__all__ = ["OwnStdout", "own_stdout"]


class OwnStdout:
    """The original stdout of the run.

    Attributes:
        binary: The binary stream.
    """

    def __init__(self, binary: BinaryIO, encoding: str, errors: str | None) -> None:
        self.binary = binary
        self._encoding = encoding
        self._errors = errors or "backslashreplace"

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self.binary.isatty()

    def line(self, text: str) -> None:
        """Write a line of text and flush it."""
        self.binary.write(f"{text}\n".encode(self._encoding, self._errors))
        self.binary.flush()


@contextlib.contextmanager
def own_stdout() -> Iterator[OwnStdout]:
    """Reserve stdout for the block. Until the block ends, file descriptor 1 and ``sys.stdout`` lead to stderr."""
    before = sys.stdout
    before.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    stream = open(kept, "wb", closefd=False)  # noqa: SIM115  # closed below, with the descriptor
    try:
        yield OwnStdout(stream, before.encoding, before.errors)
    finally:
        sys.stdout = before
        with contextlib.suppress(OSError):  # the reader is gone, which was already noticed
            stream.close()
        os.dup2(kept, 1)
        os.close(kept)
