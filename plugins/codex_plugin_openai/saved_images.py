"""Generated images as files: ``generated_images/THREAD/ID.png`` in ``$CODEX_HOME``."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
from collections.abc import Callable
from pathlib import Path

from codex_framework import ThreadContext

__all__ = ["MOST_BYTES", "image_bytes", "mime_of", "save_image", "saved"]

_KEY = object()

MOST_BYTES = 64 * 1024 * 1024
"""The largest image that is saved, in bytes."""

_MOST_FILES = 1000
"""How many images of a thread are saved."""

_LONGEST_NAME = 100
_COPIES = 100

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


async def saved(thread: ThreadContext, codex_home: Path, save: Callable[[Path], Path]) -> Path | None:
    """Return the path of a saved image. If it cannot be saved, the result is None, and a warning says why, once in a thread.

    Args:
        save: Saves it in the folder of the thread's images, which need not exist, and returns its path.
    """
    folder = codex_home / "generated_images" / _file_name(thread.id)
    try:
        return await asyncio.to_thread(save, folder)
    except (OSError, ValueError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        told: set[str] = thread.state(_KEY, set)
        if not told:
            told.add(why)
            thread.warn(f"A generated image could not be saved in {folder}: {why}. The conversation still contains it.")
        return None


def image_bytes(result: str) -> bytes:
    """Return an image that a server sent in base64.

    Raises:
        ValueError: It is too large or is not base64.
    """
    if len(result) // 4 * 3 > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 1024 // 1024} MiB")
    try:
        return base64.b64decode(result, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the server sent something that is not base64") from None


def mime_of(data: bytes) -> str | None:
    """Return the MIME type of an image: PNG, JPEG, GIF or WebP, or None for other formats."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for signature, mime in _SIGNATURES.items() if data.startswith(signature)), None)


def save_image(folder: Path, name: str, data: bytes, *, suffix: str = ".png") -> Path:
    """Write an image into a new file that only the user can read, and return its path.

    Args:
        name: The id of the call. The server chose it, so it is not a file name yet.

    Raises:
        ValueError: There are too many.
        OSError: It cannot be written.
    """
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(os.listdir(folder)) >= _MOST_FILES:  # noqa: PTH208  # names only
        raise ValueError(f"there are {_MOST_FILES} images of this session already")
    path, file = _new_file(folder, _file_name(name), suffix)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _new_file(folder: Path, name: str, suffix: str) -> tuple[Path, int]:
    """Open a new file. An earlier image of the same id stays. Raises OSError."""
    for number in range(1, _COPIES):
        path = folder / (f"{name}{suffix}" if number == 1 else f"{name}-{number}{suffix}")
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
    raise FileExistsError(17, f"there are {_COPIES - 1} images of the id {name}")


def _file_name(text: str) -> str:
    """Return a file name without path components."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)[:_LONGEST_NAME] or "image"
