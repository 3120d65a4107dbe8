"""Recognition of the format and size of an image by its first bytes."""

from __future__ import annotations

import struct

import attrs

__all__ = ["Picture", "picture"]


@attrs.frozen
class Picture:
    """The format and size of an image.

    Attributes:
        mime: ``image/png``, ``image/jpeg``, ``image/gif``, ``image/webp`` or ``image/bmp``.
        width, height: In pixels.
    """

    mime: str
    width: int
    height: int


def picture(data: bytes) -> Picture | None:
    """Return the format and size of an image, or None if the format is unknown or the data is incomplete."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return Picture("image/png", *struct.unpack_from(">II", data, 16))
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return Picture("image/gif", *struct.unpack_from("<HH", data, 6))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if data[:2] == b"BM":
            width, height = struct.unpack_from("<ii", data, 18)
            return Picture("image/bmp", abs(width), abs(height))
        if data[:3] == b"\xff\xd8\xff":
            return _jpeg(data)
    except struct.error:
        return None
    return None


def _webp(data: bytes) -> Picture | None:
    kind = data[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        return Picture("image/webp", width, height) if len(data) >= 30 else None
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return Picture("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Picture("image/webp", width & 0x3FFF, height & 0x3FFF)
    return None


def _jpeg(data: bytes) -> Picture | None:
    """Walk the segments to the frame header, which contains the size."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return Picture("image/jpeg", width, height)
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None
