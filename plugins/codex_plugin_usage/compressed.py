"""Reads compressed session files piece by piece."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

__all__ = ["ZstandardNeededError", "decompressing"]

_PIECE = 1 << 16


class ZstandardNeededError(Exception):
    """The file is compressed, and the package that decompresses it is not installed."""


def decompressing(file: BinaryIO) -> BinaryIO:
    """Return the content of a zstd file. Reading it raises OSError where the file is broken.

    Raises:
        ZstandardNeededError: The package ``zstandard`` is not installed.
    """
    try:
        import zstandard  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ZstandardNeededError from None
    return io.BufferedReader(_Pieces(file, zstandard), _PIECE)


class _Pieces(io.RawIOBase):
    """The content of all frames. The package's own reader does not report a frame that is cut."""

    def __init__(self, file: BinaryIO, zstandard: Any) -> None:
        self._file = file
        self._zstandard = zstandard
        self._frame: Any = None
        self._rest = b""
        self._ready = b""

    def readable(self) -> bool:
        """Return True."""
        return True

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
            self._ready = self._frame.decompress(piece)
        except self._zstandard.ZstdError as error:
            raise OSError(f"it is not a zstd file: {error}") from error
        if self._frame.eof:
            self._rest = self._frame.unused_data
            self._frame = None
        return True
