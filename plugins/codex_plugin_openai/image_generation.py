"""The tool ``image_generation``, which the model's server runs itself. Its images are saved here."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import (
    NativeSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolSpec,
    TurnContext,
    TurnFacts,
)
from codex_framework.contract.protocol.items import user_message

__all__ = ["MOST_BYTES", "ImageGeneration"]

_NAME = "image_generation"

MOST_BYTES = 64 * 1024 * 1024
"""The largest image that is saved, in bytes."""

_MOST_FILES = 1000
"""How many images of a thread are saved."""

_LONGEST_NAME = 100
_COPIES = 100
_KEY = object()


class ImageGeneration(Tool):
    """Generates images on the model's server. It is offered if ``features.image_generation`` is true and the model sees images.

    The server runs the calls. Each image is saved as ``generated_images/THREAD/ID.png`` in ``$CODEX_HOME``, and the model is told
    where.
    """

    parallel_safe = True
    spec: ToolSpec = NativeSpec(_NAME, _NAME, {"output_format": "png"})

    def __init__(self, codex_home: Path) -> None:
        self._folder = codex_home / "generated_images"

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether the configuration asks for it and the model can use it."""
        features = turn.config.get("features")
        return isinstance(features, Mapping) and features.get(_NAME) is True and turn.model.supports_images

    async def shown(self, item: Mapping[str, Any], turn: TurnContext) -> Mapping[str, Any]:
        """Save the image and add its path to the item. If this fails, a warning says why, once in a thread."""
        result = item.get("result")
        if not isinstance(result, str) or not result:
            return item
        folder = self._folder / _file_name(turn.thread.id)
        try:
            path = await asyncio.to_thread(_save, folder, str(item.get("id") or "image"), result)
        except (OSError, ValueError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            told: set[str] = turn.thread.state(_KEY, set)
            if not told:
                told.add(why)
                turn.thread.warn(
                    f"A generated image could not be saved in {folder}: {why}. The conversation still contains it."
                )
            return item
        text = f"The generated image is the file {path}. Copy it to use it elsewhere, and leave this file as it is."
        turn.thread.deliver([user_message(text, role="developer")])
        return {**item, "saved_path": str(path)}

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the role's arguments
        """Refuse a call: servers run the calls of this tool themselves.

        Raises:
            ToolError: Always.
        """
        raise ToolError("image_generation is run by the model's server and cannot be called")


def _save(folder: Path, name: str, result: str) -> Path:
    """Write an image into a new file that only the user can read.

    Args:
        name: The id of the call. The server chose it, so it is not a file name yet.

    Raises:
        ValueError: The image is too large or is not base64, or there are too many.
        OSError: It cannot be written.
    """
    if len(result) // 4 * 3 > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 1024 // 1024} MiB")
    try:
        data = base64.b64decode(result, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the server sent something that is not base64") from None
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(os.listdir(folder)) >= _MOST_FILES:  # noqa: PTH208  # names only
        raise ValueError(f"there are {_MOST_FILES} images of this session already")
    path, file = _new_file(folder, _file_name(name))
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _new_file(folder: Path, name: str) -> tuple[Path, int]:
    """Open a new file. An earlier image of the same id stays. Raises OSError."""
    for number in range(1, _COPIES):
        path = folder / (f"{name}.png" if number == 1 else f"{name}-{number}.png")
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
    raise FileExistsError(17, f"there are {_COPIES - 1} images of the id {name}")


def _file_name(text: str) -> str:
    """Return a name that leads nowhere else."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)[:_LONGEST_NAME] or "image"
