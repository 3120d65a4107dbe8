"""The ``tool_search`` tool: finds deferred tools, which the model is not offered from the beginning."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl

__all__ = ["codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer ``tool_search``."""
    from codex_plugin_tool_search.tool import ToolSearch

    return [ToolSearch()]
