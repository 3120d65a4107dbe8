"""``codex-framework mcp``: the configured servers, their accounts and their tools."""

from __future__ import annotations

from codex_plugin_mcp.cli.group import McpGroup

__all__ = ["McpGroup"]
