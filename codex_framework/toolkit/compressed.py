"""Reading of compressed files, such as the sessions that Codex compresses, piece by piece and within bounds."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO

__all__ = ["ZstandardNeededError", "decompressing"]

_PIECE = 1024
"""Compressed bytes that are decompressed in one step. They become 32 MiB at most, because 4 bytes can represent a block of 128
KiB.
"""

_BUFFER = 1 << 16
"""Bytes of content that are passed on in one step."""

_SHORT = 64 << 20
"""Bytes of content that every file may have."""

_RATIO = 50
"""How many times as long as the file its content may be, beyond that. Sessions become 5 to 20 times as long."""


class ZstandardNeededError(Exception):
    """The file is compressed, and the package that decompresses it is not installed."""


def decompressing(file: BinaryIO) -> BinaryIO:
    """Return the content of a zstd file. Closing it closes the file.

    Reading it raises OSError if the file is broken, or if its content exceeds both 64 MiB and 50 times the length of the file,
    because a few kilobytes can represent terabytes.

    Raises:
        ZstandardNeededError: The package ``zstandard`` is not installed. The file is closed.
        OSError: The length of the file cannot be read.
    """
    try:
        import zstandard  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        file.close()
        raise ZstandardNeededError from None
    most = max(_SHORT, _RATIO * os.fstat(file.fileno()).st_size)
    return io.BufferedReader(_Pieces(file, zstandard, most), _BUFFER)


class _Pieces(io.RawIOBase):
    """The content of all frames. The package's own reader does not report a frame that is cut."""

    def __init__(self, file: BinaryIO, zstandard: Any, most: int) -> None:
        self._file = file
        self._zstandard = zstandard
        self._most = self._left = most
        self._frame: Any = None
        self._rest = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes. Returns their number, 0 at the end."""
        while not self._ready and self._more():
            pass
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _more(self) -> bool:
        """Decompress another piece. Returns False at the end of the file."""
        piece = self._rest or self._file.read(_PIECE)
        self._rest = b""
        if not piece:
            if self._frame is not None:
                raise OSError("its end is missing")
            return False
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        try:
            self._ready = memoryview(self._frame.decompress(piece))
        except self._zstandard.ZstdError as error:
            raise OSError(f"it is not a zstd file: {error}") from error
        self._left -= len(self._ready)
        if self._left < 0:
            raise OSError(f"its content is longer than {self._most} bytes, which is too much for so short a file")
        if self._frame.eof:
            self._rest = self._frame.unused_data
            self._frame = None
        return True
