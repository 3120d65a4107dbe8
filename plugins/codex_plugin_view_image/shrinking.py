"""Scales or converts an image with Pillow, if that is installed."""

from __future__ import annotations

import importlib
import io
import math
import threading
from typing import Any

from codex_framework import ToolError
from codex_plugin_view_image.signature import Picture

__all__ = ["fitted", "fitting_size"]

_PATCH = 32
"""Side in pixels of the squares into which models divide an image."""

_HIGH = (2048, 2500)
_ORIGINAL = (6000, 10_000)
"""Maximum side in pixels and maximum number of patches. Larger images are scaled down before sending (Codex's limits)."""

_MOST_BYTES = 20 * 1024 * 1024
"""Maximum size of a file to send unchanged, in bytes. Base64 adds a third, and providers accept about 50 MB per request."""

_MOST_PIXEL_BYTES = 150_000_000
"""Maximum size of an image that is decoded, in bytes of its pixels. A file of some hundred kilobytes can have gigabytes of them."""

_DECODING = threading.Lock()
"""Lets one image be decoded at a time: calls of one response run in parallel."""

_SENDABLE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_HINT = "Install Pillow (pip install 'codex-framework[images]'), or convert the file to a smaller PNG or JPEG first."


def fitted(data: bytes, found: Picture, *, original: bool) -> tuple[bytes, str]:
    """Return the bytes to send and their MIME type.

    Args:
        original: Whether to use the limits of the detail ``original`` instead of ``high``.

    Raises:
        ToolError: The image cannot be sent; the text contains a hint.
    """
    size = fitting_size(found.width, found.height, original=original)
    fits = size == (found.width, found.height)
    if fits and found.mime in _SENDABLE and len(data) <= _MOST_BYTES:
        return data, found.mime
    pillow = _pillow()
    if pillow is None:
        if found.mime in _SENDABLE and len(data) <= _MOST_BYTES:
            return data, found.mime  # the provider scales it down
        raise ToolError(f"unable to send image: {_obstacle(data, found)}. {_HINT}")
    sent, mime = _convert_image(pillow, data, found, None if fits else size)
    if len(sent) > _MOST_BYTES:
        raise ToolError(f"unable to send image: {_obstacle(sent, Picture(mime, found.width, found.height))}")
    return sent, mime


def fitting_size(width: int, height: int, *, original: bool) -> tuple[int, int]:
    """Return the size in pixels at which an image is sent: the largest size that the limits of its detail allow."""
    side, most = _ORIGINAL if original else _HIGH
    scale = min(1.0, side / max(width, height))
    wide, high = (width, height) if scale == 1.0 else (round(width * scale), round(height * scale))
    if _patches(wide, high) > most:
        scale = math.sqrt(most * _PATCH**2 / (width * height))
        columns, rows = width * scale / _PATCH, height * scale / _PATCH
        scale *= min(math.floor(columns) / columns, math.floor(rows) / rows)  # as many whole patches as fit
        wide, high = int(width * scale), int(height * scale)
    return max(wide, 1), max(high, 1)


def _patches(width: int, height: int) -> int:
    return math.ceil(width / _PATCH) * math.ceil(height / _PATCH)


def _obstacle(data: bytes, found: Picture) -> str:
    if found.mime not in _SENDABLE:
        return f"{found.mime} is not a format that models accept"
    return f"it has {len(data):,} bytes, and at most {_MOST_BYTES:,} can be sent"


def _pillow() -> Any | None:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        return None


def _convert_image(pillow: Any, data: bytes, found: Picture, size: tuple[int, int] | None) -> tuple[bytes, str]:
    mime = found.mime if found.mime in ("image/jpeg", "image/png", "image/webp") else "image/png"
    target = io.BytesIO()
    try:
        with _DECODING, pillow.open(io.BytesIO(data)) as image:
            if size is not None and not image.info.get("progressive"):  # which is decoded in full first
                image.draft(None, (2 * size[0], 2 * size[1]))
            _check_pixels(image)
            if size is not None:
                image = image.resize(size, reducing_gap=2.0)  # noqa: PLW2901
            if mime != "image/jpeg" and image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
                image = image.convert("RGBA")  # noqa: PLW2901
            image.save(target, mime.removeprefix("image/").upper())
    except ToolError:
        raise
    except Exception as error:  # Pillow raises many kinds for broken files
        raise ToolError(f"unable to process image: {error}") from error
    return target.getvalue(), mime


def _check_pixels(image: Any) -> None:
    """Refuse an image whose pixels need too much memory, before they are decoded."""
    width, height = image.size
    size = width * height * len(image.getbands())
    if size > _MOST_PIXEL_BYTES:
        raise ToolError(
            f"unable to process image: its {width} x {height} pixels have {size:,} bytes, and at most {_MOST_PIXEL_BYTES:,} are"
            " decoded. Scale it down first."
        )
