"""Makes an image smaller, or another kind, with Pillow where that is installed."""

from __future__ import annotations

import importlib
import io
from typing import Any

from codex_framework import ToolError
from codex_plugin_view_image.signature import Picture

__all__ = ["LONGEST_SIDE", "fitted"]

LONGEST_SIDE = 2048
"""Pixels; larger images are made smaller before they are sent (Codex: 2048)."""

_MOST_BYTES = 20 * 1024 * 1024
"""Largest file that is sent as it is: base64 adds a third, and providers end at about 50 MB a request."""

_SENDABLE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_HINT = "Install Pillow (pip install 'codex-framework[images]'), or convert the file to a smaller PNG or JPEG first."


def fitted(data: bytes, found: Picture, *, original: bool) -> tuple[bytes, str]:
    """The bytes to send and their MIME type.

    Args:
        original: Keep the size in pixels.

    Raises:
        ToolError: The image cannot be sent; the text says what would help.
    """
    small = original or max(found.width, found.height) <= LONGEST_SIDE
    if small and found.mime in _SENDABLE and len(data) <= _MOST_BYTES:
        return data, found.mime
    pillow = _pillow()
    if pillow is None:
        if found.mime in _SENDABLE and len(data) <= _MOST_BYTES:
            return data, found.mime  # the provider makes it smaller
        raise ToolError(f"unable to send image: {_obstacle(data, found)}. {_HINT}")
    sent, mime = _converted(pillow, data, found, None if original else LONGEST_SIDE)
    if len(sent) > _MOST_BYTES:
        raise ToolError(f"unable to send image: {_obstacle(sent, Picture(mime, found.width, found.height))}")
    return sent, mime


def _obstacle(data: bytes, found: Picture) -> str:
    if found.mime not in _SENDABLE:
        return f"{found.mime} is not a kind that models take"
    return f"it has {len(data):,} bytes, and at most {_MOST_BYTES:,} can be sent"


def _pillow() -> Any | None:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        return None


def _converted(pillow: Any, data: bytes, found: Picture, side: int | None) -> tuple[bytes, str]:
    mime = found.mime if found.mime in ("image/jpeg", "image/png", "image/webp") else "image/png"
    target = io.BytesIO()
    try:
        with pillow.open(io.BytesIO(data)) as image:
            if side is not None:
                image.thumbnail((side, side))
            if mime != "image/jpeg" and image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
                image = image.convert("RGBA")  # noqa: PLW2901
            image.save(target, mime.removeprefix("image/").upper())
    except Exception as error:  # Pillow raises many kinds for broken files
        raise ToolError(f"unable to process image: {error}") from error
    return target.getvalue(), mime
