"""The compression ``zstd-stream-v1``, which Codex's clients offer: one zstd stream per direction, and one message a binary frame.

Codex 0.171 refuses text frames then, ends each message by a flush, and reads windows of at most 1 MiB.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["CompressedMessages"]

_WINDOW = 17
"""The base 2 logarithm of the window that this side writes with, in bytes. Each client costs as much memory."""

_LARGEST_WINDOW = 23
"""The largest window that is read."""


class CompressedMessages:
    """The two streams of one connection.

    Args:
        longest: How long a message may be, in bytes.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._writing = zstd.ZstdCompressor(
            options={zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.window_log: _WINDOW}
        )
        self._reading = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _LARGEST_WINDOW})

    def compress(self, message: bytes) -> bytes:
        """Return the frame of the next message."""
        return self._writing.compress(message, self._writing.FLUSH_BLOCK)

    def decompress(self, frame: bytes) -> bytes | None:
        """Return the message of the next frame. None if the stream is broken or has ended, or if the message is too long."""
        try:
            message = self._reading.decompress(frame, self._longest + 1)
        except (zstd.ZstdError, EOFError):
            return None
        return None if len(message) > self._longest or self._reading.eof else message
