"""The ``grep_files`` tool."""

from __future__ import annotations

from pathlib import Path

from codex_framework import (
    Argument,
    CommandRequest,
    FunctionSpec,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRefused,
    arguments_schema,
    parse_arguments,
)
from codex_plugin_read_file.offering import Offering

__all__ = ["GrepFiles"]

_DEFAULT_LIMIT = 100
_LARGEST_LIMIT = 2000
_PATIENCE_MS = 30_000
"""Bounds of Codex."""

_NOTHING = "No matches found."

_ARGUMENTS = {
    "pattern": Argument("string", "A regular expression to find in the files' text.", required=True),
    "include": Argument("string", 'Only files whose path fits this glob, such as "*.py" or "*.{ts,tsx}".'),
    "path": Argument("string", "A file or folder to search. Default: the working folder."),
    "limit": Argument("usize", "Most paths to show. Default 100, at most 2000."),
}


class GrepFiles(Offering):
    """Names the files whose text fits a pattern. Uses ripgrep where it is installed, else a search of its own."""

    parallel_safe = True
    tells_clients = True
    spec = FunctionSpec(
        "grep_files",
        "Finds files whose text fits a regular expression, and lists their paths, the last changed ones first. Files that git "
        "ignores, hidden files and binary files are left out.",
        arguments_schema(_ARGUMENTS),
    )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Carry out one call: a process, so that the sandbox holds and a slow pattern can be ended."""
        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        pattern = arguments["pattern"].strip()
        limit = arguments.get("limit", _DEFAULT_LIMIT)
        if not pattern:
            raise ToolError("pattern must not be empty")
        if limit == 0:
            raise ToolError("limit must be greater than zero")
        path = context.resolve(arguments.get("path") or ".")
        _check(path, context)
        argv = _argv(pattern, (arguments.get("include") or "").strip(), str(path))
        result = await context.run(CommandRequest(argv=argv, timeout_ms=_PATIENCE_MS, announce=False))
        if result.timed_out:
            raise ToolError(f"the search timed out after {_PATIENCE_MS // 1000} seconds; narrow path or include")
        if result.exit_code == 1:
            return ToolOutput(_NOTHING, truncate=False)
        if result.exit_code != 0:
            raise ToolError(f"the search failed: {result.stderr.strip() or f'exit code {result.exit_code}'}")
        found = result.stdout.splitlines()[: min(limit, _LARGEST_LIMIT)]
        return ToolOutput("\n".join(found) or _NOTHING)


def _check(path: Path, context: ToolContext) -> None:
    from codex_framework.toolkit.os_errors import os_error_text

    if not context.access.may_read(path):
        raise ToolRefused(f"reading {path} is not permitted")
    try:
        path.stat()
    except OSError as error:
        raise ToolError(f"unable to access `{path}`: {os_error_text(error)}") from error
    except ValueError as error:  # a NUL in the path
        raise ToolError(f"unable to access {str(path)!r}: {error}") from error


def _argv(pattern: str, include: str, path: str) -> tuple[str, ...]:
    import shutil

    from codex_framework.toolkit.standalone import standalone_argv

    glob = ("--glob", include) if include else ()
    ripgrep = shutil.which("rg")
    if ripgrep is not None:
        options = ("--files-with-matches", "--sortr=modified", "--regexp", pattern, "--no-messages")
        return (ripgrep, *options, *glob, "--", path)
    program = standalone_argv(str(Path(__file__).with_name("search.py")))
    return (*program, "--regexp", pattern, *glob, "--", path)
