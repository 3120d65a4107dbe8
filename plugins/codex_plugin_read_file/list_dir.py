"""The ``list_dir`` tool."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

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
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.toolkit.os_errors import os_error_text
from codex_plugin_read_file.offering import Offering

__all__ = ["ListDir"]

_ARGUMENTS = {
    "dir_path": Argument("string", "Absolute path of the folder.", required=True),
    "offset": Argument("usize", "The first entry to show, from 1. Default 1."),
    "limit": Argument("usize", "Most entries to show. Default 25."),
    "depth": Argument("usize", "How many levels of folders to look into. Default 2."),
}


class ListDir(Offering):
    """Shows what is in a folder and in those below it."""

    parallel_safe = True
    tells_clients = True
    spec = FunctionSpec(
        "list_dir",
        "Lists a folder and the folders in it, sorted by name and indented by level. A name ends in / for a folder, @ for a "
        "symlink, ? for anything else that is no file.",
        arguments_schema(_ARGUMENTS),
    )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Carry out one call."""
        from codex_plugin_read_file.paths import absolute

        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        offset, limit, depth = (
            arguments.get(name, default) for name, default in (("offset", 1), ("limit", 25), ("depth", 2))
        )
        if offset == 0:
            raise ToolError("offset must be a 1-indexed entry number")
        for name, value in (("limit", limit), ("depth", depth)):
            if value == 0:
                raise ToolError(f"{name} must be greater than zero")
        path = absolute(arguments["dir_path"], "dir_path", context)
        lines = await asyncio.to_thread(_listing, path, offset, limit, depth, context.access)
        return ToolOutput("\n".join(lines))


def _listing(path: Path, offset: int, limit: int, depth: int, access: FileAccess) -> list[str]:
    entries = _entries(path, depth, access)
    try:
        found = list(itertools.islice(entries, offset - 1, offset - 1 + limit + 1))
    except OSError as error:
        raise ToolError(f"failed to read directory: {os_error_text(error)}") from error
    if not found and offset > 1:
        raise ToolError("offset exceeds directory entry count")
    more = [f"More than {limit} entries found"] if len(found) > limit else []
    return [f"Absolute path: {path}", *found[:limit], *more]


def _entries(path: Path, depth: int, access: FileAccess) -> Iterator[str]:
    """The lines, made as they are asked for: a large tree is not walked to its end.

    Raises:
        OSError: The folder itself cannot be read.
    """
    levels = [iter(_sorted(path))]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            continue
        if access.denies and not access.may_read(Path(entry.path)):
            continue
        yield f"{'  ' * (len(levels) - 1)}{_shown(entry.name)}{_suffix(entry)}"
        if len(levels) < depth and entry.is_dir(follow_symlinks=False):
            levels.append(iter(_readable(entry.path)))


def _sorted(path: str | Path) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _readable(path: str) -> list[os.DirEntry[str]]:
    try:
        return _sorted(path)
    except OSError:
        return []  # a folder below that is closed to us or just gone: its name was shown


def _shown(name: str) -> str:
    from codex_plugin_read_file.paths import shortened

    return shortened(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _suffix(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "@"
    if entry.is_dir(follow_symlinks=False):
        return "/"
    return "" if entry.is_file(follow_symlinks=False) else "?"
