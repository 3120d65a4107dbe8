"""The check of images that servers send.

A model's server refuses a request with an image that it cannot read, and all later requests of the conversation too.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

__all__ = ["image_problem"]

_MAX_CHARACTERS = 20 * 1024 * 1024
_KINDS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
"""The kinds of images that models read, with their first bytes."""


def image_problem(data: Any, kind: Any) -> str | None:
    """Return why models could not read an image, as a clause, or None if they can.

    Args:
        data: The bytes in base64, as the server sent them.
        kind: The MIME type, as the server sent it.
    """
    if not isinstance(data, str) or not isinstance(kind, str) or kind not in _KINDS:
        return f"its type {str(kind)[:60]!r} is not PNG, JPEG, GIF or WebP"
    if len(data) > _MAX_CHARACTERS:
        return "it is too large"
    try:
        first = base64.b64decode(data, validate=True)[:16]
    except (binascii.Error, ValueError):
        return "its data is not base64"
    return None if first.startswith(_KINDS[kind]) else f"its data is not of the type {kind}"
