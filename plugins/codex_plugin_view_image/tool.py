"""The ``view_image`` tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRefused,
    ToolSpec,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)

__all__ = ["ViewImage"]

_MOST_READ = 256 * 1024 * 1024
"""Largest file that is read at all, in bytes."""

_ARGUMENTS = {
    "path": Argument("string", "The image file, absolute or relative to the working folder.", required=True),
    "detail": Argument(
        "string",
        "original (the default) keeps the size in pixels; high makes an image smaller that is longer than 2048 "
        "pixels on a side.",
        choices=("high", "original"),
    ),
}
_WITH_DETAIL = FunctionSpec(
    "view_image",
    "Shows you an image file (PNG, JPEG, GIF, WebP or BMP) of this machine.",
    arguments_schema(_ARGUMENTS),
)
_PLAIN = _WITH_DETAIL.evolve(parameters=arguments_schema({"path": _ARGUMENTS["path"]}))


class ViewImage(Tool):
    """Puts an image file into the conversation."""

    parallel_safe = True
    tells_clients = True
    spec: ToolSpec = _PLAIN

    def offered(self, turn: TurnFacts) -> bool:
        """To models that can see, unless config says ``tools.view_image = false``."""
        return turn.model.supports_images and not _is_off(turn.config)

    def spec_for(self, turn: TurnFacts) -> ToolSpec:
        """With a choice of detail where the model knows more than one."""
        return _WITH_DETAIL if turn.model.image_detail_original else _PLAIN

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Carry out one call."""
        from codex_framework import InputImage
        from codex_framework.contract.protocol.events.command import ViewImageToolCallEvent

        if _is_off(context.config):  # a model can call what it is not offered
            raise ToolRefused("view_image is switched off in the configuration (tools.view_image = false)")
        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        if not context.model.supports_images:
            raise ToolError("view_image is not allowed because you do not support image inputs")
        path = context.resolve(arguments["path"])
        if not context.access.may_read(path):
            raise ToolRefused(f"unable to locate image at `{path}`: reading it is not permitted")
        original = context.model.image_detail_original and arguments.get("detail") != "high"
        url = await asyncio.to_thread(_data_url, path, original=original)
        context.emit(ViewImageToolCallEvent(context.call_id, str(path)))
        return ToolOutput((InputImage(url, "original" if original else "high"),), truncate=False)


def _is_off(config: Mapping[str, Any]) -> bool:
    tools = config.get("tools")
    return isinstance(tools, Mapping) and tools.get("view_image") is False


def _data_url(path: Path, *, original: bool) -> str:
    """The image as a ``data:`` URL.

    Raises:
        ToolError: It is none, or cannot be sent.
    """
    import base64

    from codex_plugin_view_image.shrinking import fitted
    from codex_plugin_view_image.signature import picture

    data = _read(path)
    found = picture(data)
    if found is None or found.width == 0 or found.height == 0:
        raise ToolError("unable to process image: invalid or unsupported image data")
    sent, mime = fitted(data, found, original=original)
    return f"data:{mime};base64,{base64.b64encode(sent).decode('ascii')}"


def _read(path: Path) -> bytes:
    import stat

    from codex_framework.toolkit.os_errors import os_error_text

    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise ToolError(f"image path `{path}` is not a file")
        if about.st_size > _MOST_READ:
            raise ToolError(f"unable to process image: it has {about.st_size:,} bytes, more than {_MOST_READ:,}")
        return path.read_bytes()
    except OSError as error:
        raise ToolError(f"unable to locate image at `{path}`: {os_error_text(error)}") from error
    except ValueError as error:  # a NUL in the path
        raise ToolError(f"unable to locate image at {str(path)!r}: {error}") from error
