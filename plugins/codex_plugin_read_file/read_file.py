"""The ``read_file`` tool."""

from __future__ import annotations

import asyncio
import codecs
import os
import threading
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
    ToolRefused,
    ToolSpec,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.toolkit.environments import ENVIRONMENT_ID, in_environment, with_environments
from codex_framework.toolkit.os_errors import os_error_text
from codex_plugin_read_file.offering import Offering

__all__ = ["ReadFile"]

_DEFAULT_LIMIT = 2000
_LARGEST_INDENTED = 64 * 1024 * 1024
"""Maximum size of a file for ``indentation`` mode in bytes, because it reads the whole file."""

_LARGEST_SLICE = 4 * 1024 * 1024
"""Maximum number of characters of all lines of a slice. Models get much less, because the middle of long output is omitted."""

_LONGEST_KEPT = 8192
"""Bytes of a line that are kept until secrets are removed and it is cut to its final length."""

_AROUND = {
    "anchor_line": Argument("usize", "The line whose block is shown. Default: offset."),
    "max_levels": Argument("usize", "How many enclosing blocks; 0 (default): all."),
    "include_siblings": Argument("boolean", "Show neighbouring blocks of the outermost level too. Default false."),
    "include_header": Argument("boolean", "Show comments right above the outermost block. Default true."),
    "max_lines": Argument("usize", "Maximum number of lines. Default: limit."),
}
_ARGUMENTS = {
    "file_path": Argument("string", "Absolute path of the file.", required=True),
    "offset": Argument("usize", "The first line to show, from 1. Default 1."),
    "limit": Argument("usize", "Maximum number of lines. Default 2000."),
    "mode": Argument(
        "string",
        "slice (default): lines one after the other. indentation: the block of code around a line.",
        choices=("slice", "indentation"),
    ),
    "indentation": Argument("object", "What to show in indentation mode.", fields=_AROUND),
    "environment_id": ENVIRONMENT_ID,
}


_SPEC = FunctionSpec(
    "read_file",
    "Shows lines of a text file, each with its number (L1: ...). Reads a range of lines, or the block of code around one.",
    arguments_schema(_ARGUMENTS),
)


class ReadFile(Offering):
    """Shows lines of a text file with their numbers."""

    parallel_safe = True
    tells_clients = True
    spec = _SPEC

    def spec_for(self, turn: TurnFacts) -> ToolSpec:
        """Return the spec, with a choice of the environment if there are several."""
        return with_environments(_SPEC, turn)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_plugin_read_file.paths import absolute, shortened

        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        context = in_environment(context, arguments.get("environment_id"))
        offset = arguments.get("offset", 1)
        limit = arguments.get("limit", _DEFAULT_LIMIT)
        if offset == 0:
            raise ToolError("offset must be a 1-indexed line number")
        if limit == 0:
            raise ToolError("limit must be greater than zero")
        path = absolute(arguments["file_path"], "file_path")
        access = await _source(path, context)
        stopped = threading.Event()
        try:
            if arguments.get("mode") == "indentation":
                wanted = arguments.get("indentation") or {}
                lines = await asyncio.to_thread(_indented_block, path, offset, limit, wanted, access, stopped)
            else:
                lines = await asyncio.to_thread(_slice, path, offset, limit, access, stopped)
        finally:
            stopped.set()  # a thread that nobody waits for would keep this process from ending
        return ToolOutput("\n".join(f"L{number}: {shortened(context.redact(line))}" for number, line in lines))


async def _source(path: Path, context: ToolContext) -> FileAccess | bytes:
    """Return the permissions with which a file is opened here, or the file itself if it is in another environment."""
    files = context.files
    if files is None:
        return context.access
    try:
        return await files.read(str(path), _LARGEST_INDENTED)
    except PermissionError:
        raise ToolRefused(f"reading {path} is not permitted") from None
    except IsADirectoryError:
        raise ToolError(f"failed to read file: `{path}` is not a file") from None
    except OSError as error:
        raise ToolError(f"failed to read file: {os_error_text(error)}") from error


def _slice(
    path: Path, offset: int, limit: int, access: FileAccess | bytes, stopped: threading.Event
) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    size = 0
    with _open_file(path, access) as file:
        for number, line in enumerate(_lines(file, stopped), 1):
            if number < offset:
                continue
            lines.append((number, line))
            size += len(line)
            if len(lines) >= limit:
                break
            if size > _LARGEST_SLICE:
                lines.append((number + 1, f"not shown; continue with offset {number + 1}"))
                break
    if not lines:
        raise ToolError("offset exceeds file length")
    return lines


def _indented_block(
    path: Path, offset: int, limit: int, wanted: Mapping[str, Any], access: FileAccess | bytes, stopped: threading.Event
) -> list[tuple[int, str]]:
    from codex_plugin_read_file.indentation import Around, block

    wanted = {key: value for key, value in wanted.items() if value is not None}
    anchor = wanted.get("anchor_line", offset)
    most = wanted.get("max_lines", limit)
    if anchor == 0:
        raise ToolError("anchor_line must be a 1-indexed line number")
    if most == 0:
        raise ToolError("max_lines must be greater than zero")
    with _open_file(path, access) as file:
        if not isinstance(access, bytes) and os.fstat(file.fileno()).st_size > _LARGEST_INDENTED:
            raise ToolError(f"file is larger than {_LARGEST_INDENTED:,} bytes; read it in slice mode")
        lines = list(_lines(file, stopped))
    if anchor > len(lines):
        raise ToolError("anchor_line exceeds file length")
    around = Around(
        max_levels=wanted.get("max_levels", 0),
        include_siblings=wanted.get("include_siblings", False),
        include_header=wanted.get("include_header", True),
    )
    return [(index + 1, lines[index]) for index in block(lines, anchor - 1, around, min(most, limit))]


def _open_file(path: Path, access: FileAccess | bytes) -> BinaryIO:
    if isinstance(access, bytes):
        import io

        return io.BytesIO(access)
    from codex_framework.toolkit.files import Files, NotAFileError, NotPermittedError

    try:
        return open(Files(access).open(str(path)), "rb")  # noqa: PTH123  # a descriptor
    except NotPermittedError as error:
        from codex_plugin_read_file.paths import refused

        raise refused(path, error) from None
    except (NotAFileError, IsADirectoryError):
        raise ToolError(f"failed to read file: `{path}` is not a file") from None
    except OSError as error:
        raise ToolError(f"failed to read file: {os_error_text(error)}") from error


def _lines(file: BinaryIO, stopped: threading.Event) -> Iterator[str]:
    """Yield lines without their ends until the generator is closed. Very long lines are truncated, but to more than is shown."""
    file.seek(len(codecs.BOM_UTF8) if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else 0)
    while not stopped.is_set() and (part := file.readline(_LONGEST_KEPT)):
        yield part.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        while not part.endswith(b"\n") and not stopped.is_set() and (part := file.readline(65536)):
            pass
