"""The ``view_image`` tool."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from codex_framework.toolkit.environments import ENVIRONMENT_ID, in_environment, with_environments

if TYPE_CHECKING:
    from codex_framework.contract.permissions.file_access import FileAccess

__all__ = ["ViewImage"]

_MOST_READ = 64 * 1024 * 1024
"""Maximum size of a file to read, in bytes."""

_ARGUMENTS = {
    "path": Argument("string", "The image file, absolute or relative to the working folder.", required=True),
    "detail": Argument(
        "string",
        "original (the default) keeps the size of all but very large images; high makes an image smaller that is longer "
        "than 2048 pixels on a side.",
        choices=("high", "original"),
    ),
    "environment_id": ENVIRONMENT_ID,
}
_WITH_DETAIL = FunctionSpec(
    "view_image",
    "Shows you an image file (PNG, JPEG, GIF, WebP or BMP) of this machine.",
    arguments_schema(_ARGUMENTS),
    result={
        "type": "object",
        "properties": {
            "image_url": {"type": "string", "description": "The image as a data URL."},
            "detail": {"type": "string", "enum": ["high", "original"]},
        },
        "required": ["image_url", "detail"],
    },
)
_PLAIN = _WITH_DETAIL.evolve(parameters=arguments_schema({"path": _ARGUMENTS["path"]}))


class ViewImage(Tool):
    """Adds an image file to the conversation."""

    parallel_safe = True
    reads = frozenset({"config", "model", "environments"})
    tells_clients = True
    spec: ToolSpec = _PLAIN

    def offered(self, turn: TurnFacts) -> bool:
        """Return True for models that accept images, unless ``tools.view_image = false``."""
        return turn.model.supports_images and not _is_off(turn.config)

    def spec_for(self, turn: TurnFacts) -> ToolSpec:
        """Return the spec, with a choice of detail if the model supports more than one."""
        return with_environments(_WITH_DETAIL if turn.model.image_detail_original else _PLAIN, turn)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_framework import InputImage
        from codex_framework.contract.protocol.events.command import ViewImageToolCallEvent

        if _is_off(context.config):  # a plugin can call what is not offered
            raise ToolRefused("view_image is switched off in the configuration (tools.view_image = false)")
        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        if not context.model.supports_images:
            raise ToolError("view_image is not allowed because you do not support image inputs")
        context = in_environment(context, arguments.get("environment_id"))
        path = context.resolve(arguments["path"])
        original = context.model.image_detail_original and arguments.get("detail") != "high"
        data = await _data(path, context)
        url = await asyncio.to_thread(_data_url, data, original=original)
        context.emit(ViewImageToolCallEvent(context.call_id, str(path)))
        shown = "original" if original else "high"
        return ToolOutput((InputImage(url, shown),), truncate=False, result={"image_url": url, "detail": shown})


def _is_off(config: Mapping[str, Any]) -> bool:
    tools = config.get("tools")
    return isinstance(tools, Mapping) and tools.get("view_image") is False


async def _data(path: Path, context: ToolContext) -> bytes:
    """Return a file of the call's environment. Raises ToolError."""
    files = context.files
    if files is None:
        return await asyncio.to_thread(_read, path, context.access)
    from codex_framework.toolkit.os_errors import os_error_text

    try:
        return await files.read(str(path), _MOST_READ)
    except PermissionError:
        raise ToolRefused(f"unable to locate image at `{path}`: reading it is not permitted") from None
    except IsADirectoryError:
        raise ToolError(f"image path `{path}` is not a file") from None
    except OSError as error:
        raise ToolError(f"unable to locate image at `{path}`: {os_error_text(error)}") from error


def _data_url(data: bytes, *, original: bool) -> str:
    """Return an image as a ``data:`` URL. Raises ToolError if it is invalid or cannot be sent."""
    import base64

    from codex_plugin_view_image.shrinking import fitted
    from codex_plugin_view_image.signature import picture

    found = picture(data)
    if found is None or found.width == 0 or found.height == 0:
        raise ToolError("unable to process image: invalid or unsupported image data")
    sent, mime = fitted(data, found, original=original)
    return f"data:{mime};base64,{base64.b64encode(sent).decode('ascii')}"


def _read(path: Path, access: FileAccess) -> bytes:
    from codex_framework.toolkit.files import Files, NotAFileError, NotPermittedError
    from codex_framework.toolkit.os_errors import os_error_text

    try:
        with open(Files(access).open(str(path)), "rb") as file:  # noqa: PTH123  # a descriptor
            size = os.fstat(file.fileno()).st_size
            if size > _MOST_READ:
                raise ToolError(f"unable to process image: it has {size:,} bytes, more than {_MOST_READ:,}")
            return file.read(_MOST_READ)
    except NotPermittedError as error:
        why = f" ({error})" if str(error) else ""
        raise ToolRefused(f"unable to locate image at `{path}`: reading it is not permitted{why}") from None
    except (NotAFileError, IsADirectoryError):
        raise ToolError(f"image path `{path}` is not a file") from None
    except OSError as error:
        raise ToolError(f"unable to locate image at `{path}`: {os_error_text(error)}") from error
    except ValueError as error:  # a NUL in the path
        raise ToolError(f"unable to locate image at {str(path)!r}: {error}") from error
