"""The size and the format of an image, from its first bytes."""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

__all__ = ["Picture", "examined", "source"]

_DATA_URL = re.compile(r"data:[^,]*;base64,", re.IGNORECASE)
_START_OF_FRAME = frozenset((*range(0xC0, 0xD0),)) - {0xC4, 0xC8, 0xCC}
"""The segments of a JPEG that state its size."""

_ALONE = frozenset((0x01, *range(0xD0, 0xD9)))
"""The segments of a JPEG that have no length."""


class Picture(NamedTuple):
    """The properties of an image that a server limits.

    Attributes:
        kind: The media type, or ``url`` for an image that the server fetches. Empty if the server does not support the format.
        size: The length in base64. 0 for an image that the server fetches.
        longest: The longer side in pixels. 0 if it is unknown.
    """

    kind: str
    size: int = 0
    longest: int = 0


def source(image_url: str, picture: Picture) -> dict[str, str]:
    """Return an image as the API has it."""
    if picture.kind == "url":
        return {"type": "url", "url": image_url}
    return {"type": "base64", "media_type": picture.kind, "data": image_url[-picture.size :]}


def examined(image_url: str) -> Picture:
    """Return the limited properties of an image. The format is read from its bytes, because the URL may be wrong."""
    if image_url.startswith("https://"):
        return Picture("url")
    head = _DATA_URL.match(image_url, 0, 512)
    if head is None:
        return Picture("")
    data = image_url[head.end() :]
    try:
        kind, longest = _format(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError, IndexError):
        return Picture("")
    return Picture(kind, len(data), longest)


def _format(image: bytes) -> tuple[str, int]:
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png", max(_number(image, 16, 4), _number(image, 20, 4))
    if image.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif", max(_little(image, 6, 2), _little(image, 8, 2))
    if image.startswith(b"\xff\xd8\xff"):
        return "image/jpeg", _jpeg(image)
    if image[:4] == b"RIFF" and image[8:12] == b"WEBP":
        return "image/webp", _webp(image)
    raise ValueError("unknown format")


def _jpeg(image: bytes) -> int:
    place = 2
    while True:
        if image[place] != 0xFF:
            raise ValueError("a segment is expected")
        kind = image[place + 1]
        if kind == 0xFF:  # filling
            place += 1
        elif kind in _ALONE:
            place += 2
        elif kind in _START_OF_FRAME:
            return max(_number(image, place + 5, 2), _number(image, place + 7, 2))
        else:
            place += 2 + _number(image, place + 2, 2)


def _webp(image: bytes) -> int:
    match image[12:16]:
        case b"VP8X":
            return max(_little(image, 24, 3), _little(image, 27, 3)) + 1
        case b"VP8L":
            sides = _little(image, 21, 4)
            return max(sides & 0x3FFF, sides >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return max(_little(image, 26, 2) & 0x3FFF, _little(image, 28, 2) & 0x3FFF)
        case _:
            raise ValueError("unknown kind of WebP")


def _number(image: bytes, place: int, length: int) -> int:
    part = image[place : place + length]
    if len(part) < length:
        raise IndexError("the image is cut off")
    return int.from_bytes(part, "big")


def _little(image: bytes, place: int, length: int) -> int:
    return int.from_bytes(_number(image, place, length).to_bytes(length, "big"), "little")
