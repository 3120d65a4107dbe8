"""The images that a call of ``image_gen.imagegen`` edits, as URLs for the server: files, or images of the conversation."""

from __future__ import annotations

import base64
import importlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework import ToolError, ToolRefused
from codex_framework.contract.protocol.items import (
    ResponseItem,
    UnknownItem,
)
from codex_framework.toolkit.images import images_of
from codex_plugin_openai.saved_images import mime_of

if TYPE_CHECKING:
    from codex_framework.contract.permissions.file_access import FileAccess

__all__ = ["file_url", "last_images"]

_MOST_BYTES = 50 * 1024 * 1024
"""The largest file that is sent, in bytes: OpenAI's limit for an image to edit."""

_MOST_PIXEL_BYTES = 150_000_000
"""Maximum size of an image that is decoded, in bytes of its pixels."""


def file_url(path: Path, access: FileAccess) -> str:
    """Return an image file as a ``data:`` URL. A GIF becomes a PNG, because servers do not edit GIFs.

    Raises:
        ToolError: It is not an image that can be edited.
        ToolRefused: It must not be read.
    """
    data = _read(path, access)
    mime = mime_of(data)
    if mime is None:
        raise ToolError(f"unable to process referenced image at `{path}`: it is not a PNG, JPEG, WebP or GIF image")
    if mime == "image/gif":
        mime, data = "image/png", _first_frame(path, data)
    return f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"


def _read(path: Path, access: FileAccess) -> bytes:
    from codex_framework.toolkit.files import Files, NotAFileError, NotPermittedError
    from codex_framework.toolkit.os_errors import os_error_text

    fact = f"unable to read referenced image at `{path}`"
    try:
        with open(Files(access).open(str(path)), "rb") as file:  # noqa: PTH123  # a descriptor
            size = os.fstat(file.fileno()).st_size
            if size > _MOST_BYTES:
                raise ToolError(f"{fact}: it has {size:,} bytes, more than {_MOST_BYTES:,}")
            return file.read(_MOST_BYTES)
    except NotPermittedError as error:
        why = f" ({error})" if str(error) else ""
        raise ToolRefused(f"{fact}: reading it is not permitted{why}") from None
    except (NotAFileError, IsADirectoryError):
        raise ToolError(f"{fact}: it is not a file") from None
    except OSError as error:
        raise ToolError(f"{fact}: {os_error_text(error)}") from error
    except ValueError as error:  # a NUL in the path
        raise ToolError(f"unable to read referenced image at {str(path)!r}: {error}") from error


def _first_frame(path: Path, data: bytes) -> bytes:
    try:
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError:
        raise ToolError(
            f"unable to process referenced image at `{path}`: a GIF cannot be edited. Convert it to PNG first, or install Pillow"
            " (pip install 'codex-framework[images]')."
        ) from None
    target = io.BytesIO()
    try:
        with pillow.open(io.BytesIO(data)) as image:
            if 4 * image.width * image.height > _MOST_PIXEL_BYTES:
                raise ValueError(f"it has {image.width} x {image.height} pixels, which are too many")
            image.convert("RGBA").save(target, "PNG")
    except Exception as error:  # Pillow raises many kinds for broken files
        raise ToolError(f"unable to process referenced image at `{path}`: {error}") from error
    return target.getvalue()


def last_images(history: Sequence[ResponseItem], count: int) -> list[str]:
    """Return the URLs of the latest images of a conversation, the oldest of them first.

    Raises:
        ToolError: There are not so many.
    """
    found: list[str] = []
    for item in reversed(history):
        found.extend(reversed(list(_images(item))))
        if len(found) >= count:
            return found[:count][::-1]
    raise ToolError(f"requested the last {count} conversation images, but only {len(found)} were available")


def _images(item: ResponseItem) -> Iterator[str]:
    yield from (image.image_url for image in images_of(item))
    if isinstance(item, UnknownItem) and item.kind == "image_generation_call":
        result = item.raw.get("result")
        if isinstance(result, str) and result:
            yield f"data:image/png;base64,{result}"
