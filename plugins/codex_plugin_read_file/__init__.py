"""The tools ``read_file``, ``list_dir`` and ``grep_files``, for models that work better with them than with a shell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import PluginContext, Tool, hookimpl

__all__ = ["codex_settings", "codex_tools"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.read_file]``."""
    from codex_plugin_read_file.settings import Settings

    return Settings


@hookimpl
def codex_tools(plugin: PluginContext) -> Iterable[Tool]:
    """Offer the three tools."""
    from codex_plugin_read_file.grep_files import GrepFiles
    from codex_plugin_read_file.list_dir import ListDir
    from codex_plugin_read_file.read_file import ReadFile
    from codex_plugin_read_file.settings import Settings

    settings = plugin.settings(Settings)
    return [ReadFile(settings), ListDir(settings), GrepFiles(settings)]
