"""The reading of images that servers send.

A model's server refuses a request with an image that it cannot read, and all later requests of the conversation too.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from codex_framework import Value

__all__ = ["Image", "decode_base64", "read_image"]

_MAX_CHARACTERS = 20 * 1024 * 1024
_KINDS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
"""The kinds of images that models read, with their first bytes."""

_DATA_URL = re.compile(r"\s*data:[^,]*,")
_SPACE = re.compile(r"\s+")


class Image(Value):
    """An image of a server.

    Attributes:
        url: The data URL for the model. Empty if models cannot read it.
        problem: Why models cannot read it, as a clause. Empty if they can.
    """

    url: str
    problem: str = ""


def read_image(data: Any, kind: Any) -> Image:
    """Read an image. Its type is determined by its first bytes, not by the server.

    Args:
        data: The server's bytes in base64, or a data URL.
        kind: The MIME type from the server.
    """
    if not isinstance(data, str):
        return Image("", f"its type {str(kind)[:60]!r} is not PNG, JPEG, GIF or WebP")
    if len(data) > _MAX_CHARACTERS:
        return Image("", "it is too large")
    text = _DATA_URL.sub("", data, count=1)
    content = decode_base64(text)
    if content is None:
        return Image("", "its data is not base64")
    for found, beginning in _KINDS.items():
        if beginning.match(content):
            encoded = text if kind == found and _is_plain(text) else base64.b64encode(content).decode()
            return Image(f"data:{found};base64,{encoded}")
    if isinstance(kind, str) and kind in _KINDS:
        return Image("", f"its data is not of the type {kind}")
    return Image("", f"its type {str(kind)[:60]!r} is not PNG, JPEG, GIF or WebP")


def _is_plain(text: str) -> bool:
    """Return whether a text is base64 in the form that models read: the standard alphabet, padded, without spaces."""
    return len(text) % 4 == 0 and re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", text) is not None


def decode_base64(text: str) -> bytes | None:
    """Return the bytes in base64 with or without padding and line breaks, in either alphabet, or None for another text."""
    compact = _SPACE.sub("", text).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
