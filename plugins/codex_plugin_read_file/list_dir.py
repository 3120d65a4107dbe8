"""The ``list_dir`` tool."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework import (
    Argument,
    FunctionSpec,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolSpec,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.toolkit.environments import ENVIRONMENT_ID, in_environment, with_environments
from codex_framework.toolkit.os_errors import os_error_text
from codex_plugin_read_file.offering import Offering

if TYPE_CHECKING:
    from codex_framework.toolkit.files import Folder

__all__ = ["ListDir"]

_DEEPEST = 100
"""Maximum depth, because each level of folders takes a descriptor."""

_ARGUMENTS = {
    "dir_path": Argument("string", "Absolute path of the folder.", required=True),
    "offset": Argument("usize", "The first entry to show, from 1. Default 1."),
    "limit": Argument("usize", "Maximum number of entries. Default 25."),
    "depth": Argument("usize", "How many levels of folders to look into, at most 100. Default 2."),
    "environment_id": ENVIRONMENT_ID,
}


_SPEC = FunctionSpec(
    "list_dir",
    "Lists a folder and the folders in it, sorted by name and indented by level. A name ends in / for a folder, @ for a "
    "symlink, ? for anything else that is not a file.",
    arguments_schema(_ARGUMENTS),
)


class ListDir(Offering):
    """Lists a folder and the folders below it."""

    parallel_safe = True
    tells_clients = True
    spec = _SPEC

    def spec_for(self, turn: TurnFacts) -> ToolSpec:
        """Return the spec, with a choice of the environment if there are several."""
        return with_environments(_SPEC, turn)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_plugin_read_file.paths import absolute

        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        context = in_environment(context, arguments.get("environment_id"))
        offset, limit, depth = (
            arguments.get(name, default) for name, default in (("offset", 1), ("limit", 25), ("depth", 2))
        )
        if offset == 0:
            raise ToolError("offset must be a 1-indexed entry number")
        for name, value in (("limit", limit), ("depth", depth)):
            if value == 0:
                raise ToolError(f"{name} must be greater than zero")
        path = absolute(arguments["dir_path"], "dir_path")
        if (files := context.files) is not None:
            from codex_plugin_read_file.elsewhere import listed

            found = await listed(files, path, offset - 1 + limit + 1, min(depth, _DEEPEST))
            return ToolOutput("\n".join(_shown_lines(path, offset, limit, found[offset - 1 :])))
        stopped = threading.Event()
        try:
            lines = await asyncio.to_thread(
                _listing, path, offset, limit, min(depth, _DEEPEST), context.access, stopped
            )
        finally:
            stopped.set()  # a thread that nobody waits for would keep this process from ending
        return ToolOutput("\n".join(lines))


def _listing(
    path: Path, offset: int, limit: int, depth: int, access: FileAccess, stopped: threading.Event
) -> list[str]:
    from codex_framework.toolkit.files import NotPermittedError

    try:
        with contextlib.closing(_entries(path, depth, access)) as entries:
            wanted = itertools.takewhile(lambda _: not stopped.is_set(), entries)
            found = list(itertools.islice(wanted, offset - 1, offset - 1 + limit + 1))
    except NotPermittedError as error:
        from codex_plugin_read_file.paths import refused

        raise refused(path, error) from None
    except OSError as error:
        raise ToolError(f"failed to read directory: {os_error_text(error)}") from error
    return _shown_lines(path, offset, limit, found)


def _shown_lines(path: Path, offset: int, limit: int, found: list[str]) -> list[str]:
    if not found and offset > 1:
        raise ToolError("offset exceeds directory entry count")
    more = [f"More than {limit} entries found"] if len(found) > limit else []
    return [f"Absolute path: {path}", *found[:limit], *more]


def _entries(path: Path, depth: int, access: FileAccess) -> Generator[str]:
    """Yield the lines lazily, so that a large tree is not walked to its end.

    Raises:
        OSError, NotPermittedError: The folder itself cannot be read.
    """
    from codex_framework.toolkit.files import Files

    with Files(access).folder(str(path)) as top:
        yield from _entries_below(top, 0, depth, access)


def _entries_below(folder: Folder, level: int, depth: int, access: FileAccess) -> Iterator[str]:
    for entry in folder.entries():
        if access.denies and not access.may_read(Path(folder.path, entry.name)):
            continue
        yield f"{'  ' * level}{_display_name(entry.name)}{_suffix(entry)}"
        if level + 1 < depth and entry.is_dir(follow_symlinks=False):
            opened = _open_folder(folder, entry.name)
            if opened is not None:
                with opened:
                    yield from _entries_below(opened, level + 1, depth, access)


def _open_folder(folder: Folder, name: str) -> Folder | None:
    from codex_framework.toolkit.files import NotPermittedError

    try:
        return folder.folder(name)
    except (OSError, NotPermittedError):
        return None  # not readable, or just removed; its name has been shown


def _display_name(name: str) -> str:
    from codex_plugin_read_file.paths import shortened

    return shortened(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _suffix(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "@"
    if entry.is_dir(follow_symlinks=False):
        return "/"
    return "" if entry.is_file(follow_symlinks=False) else "?"
