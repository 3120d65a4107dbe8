"""The ``grep_files`` tool."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from codex_framework import (
    Argument,
    CommandRequest,
    CommandResult,
    FunctionSpec,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRefused,
    arguments_schema,
    parse_arguments,
)
from codex_framework.toolkit.environments import ENVIRONMENT_ID, in_environment
from codex_plugin_read_file.offering import Offering
from codex_plugin_read_file.settings import Settings

__all__ = ["GrepFiles"]

_DEFAULT_LIMIT = 100
_LARGEST_LIMIT = 2000
_PATIENCE_MS = 30_000
"""Bounds of Codex."""

_NOTHING = "No matches found."
_OPTIONS = ("--no-config", "--files-with-matches", "--sortr=modified", "--no-messages", "--no-ignore-global")

_ARGUMENTS = {
    "pattern": Argument("string", "A regular expression to find in the files' text.", required=True),
    "include": Argument("string", 'Only files whose path matches this glob, such as "*.py" or "*.{ts,tsx}".'),
    "path": Argument("string", "A file or folder to search. Default: the working folder."),
    "limit": Argument("usize", "Maximum number of paths. Default 100, at most 2000."),
    "environment_id": ENVIRONMENT_ID,
}


class GrepFiles(Offering):
    """Lists the files whose text matches a pattern. Uses ripgrep if it is installed, else its own search.

    The ripgrep of the extra ``search`` is on the ``PATH`` of commands, too, because models like to search with it.
    """

    parallel_safe = True
    tells_clients = True
    spec = FunctionSpec(
        "grep_files",
        "Finds files whose text matches a regular expression, and lists their paths, the most recently changed first. Files that git "
        "ignores, hidden files and binary files are left out.",
        arguments_schema(_ARGUMENTS),
    )

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        bundled = _bundled_ripgrep()
        self.programs = {"rg": (bundled,)} if os.access(bundled, os.X_OK) else {}

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call as a process, so that the sandbox applies and a slow pattern can be ended."""
        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        context = in_environment(context, arguments.get("environment_id"))
        if context.files is not None:
            raise ToolError("grep_files works on this machine only; search with a command in other environments")
        pattern = arguments["pattern"].strip()
        limit = arguments.get("limit", _DEFAULT_LIMIT)
        if not pattern:
            raise ToolError("pattern must not be empty")
        if limit == 0:
            raise ToolError("limit must be greater than zero")
        path = context.resolve(arguments.get("path") or ".")
        _check(path, context)
        include = (arguments.get("include") or "").strip()
        result = await self._search(pattern, include, str(path), context)
        if result.timed_out:
            raise ToolError(f"the search timed out after {_PATIENCE_MS // 1000} seconds; narrow path or include")
        if result.exit_code == 1:
            return ToolOutput(_NOTHING, truncate=False)
        if result.exit_code != 0:
            raise ToolError(f"the search failed: {result.stderr.strip() or f'exit code {result.exit_code}'}")
        found = result.stdout.splitlines()
        if not result.omitted_bytes:
            found = await asyncio.to_thread(_matching_files, found, include, str(path))
        return ToolOutput("\n".join(found[: min(limit, _LARGEST_LIMIT)]) or _NOTHING, truncate=bool(found))

    async def _search(self, pattern: str, include: str, path: str, context: ToolContext) -> CommandResult:
        """Search with ripgrep.

        Search without it if it is missing, cannot read the pattern, or finds too many files to choose from.
        """
        ripgrep = _ripgrep(context)
        if ripgrep is not None:
            argv = (ripgrep, *_OPTIONS, "--regexp", pattern, "--", path)
            result = await context.run(CommandRequest(argv=argv, timeout_ms=_PATIENCE_MS, announce=False))
            is_too_much = bool(include) and result.omitted_bytes > 0
            if result.timed_out or (result.exit_code in (0, 1) and not is_too_much):
                return result
        from codex_lib_confinement.standalone import standalone_argv

        program = standalone_argv(str(Path(__file__).with_name("search.py")))
        glob = ("--glob", include) if include else ()
        argv = (*program, "--regexp", pattern, *glob, "--", path)
        return await context.run(CommandRequest(argv=argv, timeout_ms=_PATIENCE_MS, announce=False))


def _check(path: Path, context: ToolContext) -> None:
    from codex_framework.toolkit.files import Files, NotPermittedError, refusal_text
    from codex_framework.toolkit.os_errors import os_error_text

    files = Files(context.access)
    try:
        try:
            files.folder(str(path)).close()
        except NotADirectoryError:
            os.close(files.open(str(path)))
    except NotPermittedError as error:
        raise ToolRefused(refusal_text("reading", path, error)) from None
    except OSError as error:
        raise ToolError(f"unable to access `{path}`: {os_error_text(error)}") from error
    except ValueError as error:  # a NUL in the path
        raise ToolError(f"unable to access {str(path)!r}: {error}") from error


def _bundled_ripgrep() -> str:
    """Return where the extra ``search`` installs ripgrep: beside this Python."""
    return os.path.join(os.path.dirname(sys.executable), "rg")  # noqa: PTH118, PTH120  # asked for at each call


def _ripgrep(context: ToolContext) -> str | None:
    """Return the ripgrep of this environment (the extra ``search``), or that on PATH. One that commands may write is not used."""
    from codex_framework.toolkit.programs import found_program

    for found in (_bundled_ripgrep(), found_program("rg", os.environ.get("PATH", os.defpath))):
        if found is None or not os.access(found, os.X_OK):
            continue
        if not context.access.confines_files or not context.access.may_write(Path(found).resolve()):
            return found
    return None


def _matching_files(files: list[str], include: str, path: str) -> list[str]:
    """Return the files that match the glob, the most recently changed first.

    The glob is not passed to ripgrep, where it would override the rules of ignored files.
    """
    from codex_plugin_read_file.search import changed_at, file_filter

    try:
        wanted = file_filter(include)
    except ValueError as error:
        raise ToolError(f"the search failed: error parsing glob {include!r}: {error}") from error
    kept = [file for file in files if wanted(os.path.relpath(file, path) if file != path else os.path.basename(path))]  # noqa: PTH119
    return sorted(kept, key=changed_at)
