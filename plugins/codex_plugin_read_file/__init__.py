"""The tools ``read_file``, ``list_dir`` and ``grep_files``, for models that work better with them than with a shell."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl

__all__ = ["codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer the three tools."""
    from codex_plugin_read_file.grep_files import GrepFiles
    from codex_plugin_read_file.list_dir import ListDir
    from codex_plugin_read_file.read_file import ReadFile

    return [ReadFile(), ListDir(), GrepFiles()]
