"""Atomic appending to a file."""

from __future__ import annotations

import os

__all__ = ["append_whole"]


def append_whole(descriptor: int, data: bytes, size: int, *, sync: bool = False) -> None:
    """Write all data at the end of a file, or leave the file unchanged.

    Args:
        descriptor: The file, opened for appending. Hold a lock on it if other programs append as well.
        data: The bytes to append.
        size: The file's size.
        sync: Whether the data must be on the disk when this returns.

    Raises:
        OSError: The data cannot be written.
    """
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
        if sync:
            os.fsync(descriptor)
    except BaseException:
        if written and os.fstat(descriptor).st_size == size + written:  # nobody else has appended in the meantime
            os.ftruncate(descriptor, size)
        raise
