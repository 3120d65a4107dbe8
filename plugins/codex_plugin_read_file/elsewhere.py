"""Listing of folders in another environment."""

from __future__ import annotations

import contextlib
from pathlib import Path

from codex_framework import EnvironmentFiles, ToolError, ToolRefused
from codex_framework.toolkit.os_errors import os_error_text
from codex_plugin_read_file.paths import shortened

__all__ = ["listed"]


async def listed(files: EnvironmentFiles, path: Path, most: int, depth: int) -> list[str]:
    """Return the lines for a folder and the folders in it, at most ``most`` of them.

    Raises:
        ToolError: The folder cannot be read.
    """
    lines: list[str] = []
    try:
        await _walk(files, str(path), 0, depth, lines, most)
    except PermissionError:
        raise ToolRefused(f"reading {path} is not permitted") from None
    except OSError as error:
        raise ToolError(f"failed to read directory: {os_error_text(error)}") from error
    return lines


async def _walk(files: EnvironmentFiles, folder: str, level: int, depth: int, lines: list[str], most: int) -> None:
    for entry in await files.list(folder):
        if len(lines) >= most:
            return
        suffix = {"folder": "/", "file": ""}.get(entry.kind, "?")
        lines.append(f"{'  ' * level}{shortened(entry.name)}{suffix}")
        if entry.kind == "folder" and level + 1 < depth:
            with contextlib.suppress(PermissionError, FileNotFoundError):  # its name has been shown
                await _walk(files, f"{folder.rstrip('/')}/{entry.name}", level + 1, depth, lines, most)
