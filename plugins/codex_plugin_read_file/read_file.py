"""The ``read_file`` tool."""

from __future__ import annotations

import asyncio
import itertools
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from codex_framework import (
    Argument,
    FunctionSpec,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    arguments_schema,
    parse_arguments,
)
from codex_framework.toolkit.os_errors import os_error_text
from codex_plugin_read_file.offering import Offering

__all__ = ["ReadFile"]

_DEFAULT_LIMIT = 2000
_LARGEST_INDENTED = 64 * 1024 * 1024
"""Bytes; ``indentation`` mode has to look at the whole file."""

_AROUND = {
    "anchor_line": Argument("usize", "The line whose block is shown. Default: offset."),
    "max_levels": Argument("usize", "How many enclosing blocks; 0 (default): all."),
    "include_siblings": Argument("boolean", "Show neighbouring blocks of the outermost level too. Default false."),
    "include_header": Argument("boolean", "Show comments right above the outermost block. Default true."),
    "max_lines": Argument("usize", "Most lines to show. Default: limit."),
}
_ARGUMENTS = {
    "file_path": Argument("string", "Absolute path of the file.", required=True),
    "offset": Argument("usize", "The first line to show, from 1. Default 1."),
    "limit": Argument("usize", "Most lines to show. Default 2000."),
    "mode": Argument(
        "string",
        "slice (default): lines one after the other. indentation: the block of code around a line.",
        choices=("slice", "indentation"),
    ),
    "indentation": Argument("object", "What to show in indentation mode.", fields=_AROUND),
}


class ReadFile(Offering):
    """Shows lines of a text file with their numbers."""

    parallel_safe = True
    tells_clients = True
    spec = FunctionSpec(
        "read_file",
        "Shows lines of a text file, each with its number (L1: ...). Reads a range of lines, or the block of code around one.",
        arguments_schema(_ARGUMENTS),
    )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Carry out one call."""
        from codex_plugin_read_file.paths import absolute

        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        offset = arguments.get("offset", 1)
        limit = arguments.get("limit", _DEFAULT_LIMIT)
        if offset == 0:
            raise ToolError("offset must be a 1-indexed line number")
        if limit == 0:
            raise ToolError("limit must be greater than zero")
        path = absolute(arguments["file_path"], "file_path", context)
        if arguments.get("mode") == "indentation":
            lines = await asyncio.to_thread(_indented, path, offset, limit, arguments.get("indentation") or {})
        else:
            lines = await asyncio.to_thread(_slice, path, offset, limit)
        return ToolOutput("\n".join(lines))


def _slice(path: Path, offset: int, limit: int) -> list[str]:
    with _opened(path) as file:
        lines = [
            f"L{number}: {line}"
            for number, line in enumerate(itertools.islice(_lines(file), offset - 1, offset - 1 + limit), offset)
        ]
    if not lines:
        raise ToolError("offset exceeds file length")
    return lines


def _indented(path: Path, offset: int, limit: int, wanted: Mapping[str, Any]) -> list[str]:
    from codex_plugin_read_file.indentation import Around, block

    wanted = {key: value for key, value in wanted.items() if value is not None}
    anchor = wanted.get("anchor_line", offset)
    most = wanted.get("max_lines", limit)
    if anchor == 0:
        raise ToolError("anchor_line must be a 1-indexed line number")
    if most == 0:
        raise ToolError("max_lines must be greater than zero")
    with _opened(path) as file:
        if path.stat().st_size > _LARGEST_INDENTED:
            raise ToolError(f"file is larger than {_LARGEST_INDENTED:,} bytes; read it in slice mode")
        lines = list(_lines(file))
    if anchor > len(lines):
        raise ToolError("anchor_line exceeds file length")
    around = Around(
        max_levels=wanted.get("max_levels", 0),
        include_siblings=wanted.get("include_siblings", False),
        include_header=wanted.get("include_header", True),
    )
    return [f"L{index + 1}: {lines[index]}" for index in block(lines, anchor - 1, around, min(most, limit))]


def _opened(path: Path) -> BinaryIO:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ToolError(f"failed to read file: `{path}` is not a file")
        return path.open("rb")
    except OSError as error:
        raise ToolError(f"failed to read file: {os_error_text(error)}") from error


def _lines(file: BinaryIO) -> Iterator[str]:
    """Lines without their ends, long ones cut. A line of any length takes little memory."""
    from codex_plugin_read_file.paths import LONGEST_LINE, shortened

    most = LONGEST_LINE * 4 + 4  # UTF-8 has at most 4 bytes a character
    while part := file.readline(most):
        yield shortened(part.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r"))
        while not part.endswith(b"\n") and (part := file.readline(65536)):
            pass
