"""Edits of the servers in the user's ``config.toml``.

Comments and layout stay; a file that cannot be edited is unchanged. The functions block while they access the file. From
``async`` code, call them in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import ConfigError, UserConfig

__all__ = ["add_server", "elsewhere", "own_server", "remember_approval", "remove_server"]

_SERVERS = "mcp_servers"


def add_server(codex_home: Path, name: str, table: Mapping[str, Any]) -> bool:
    """Add a server, or replace the server of this name.

    Args:
        codex_home: The folder with ``config.toml``.
        name: The server's name.
        table: Its whole table.

    Returns:
        Whether the file has changed.

    Raises:
        ConfigError: The table is wrong, the file is invalid, or it cannot be written.
    """
    from codex_plugin_mcp.servers import read_server

    user = UserConfig(codex_home)
    read_server(name, dict(table), user.tables())
    return user.set((_SERVERS, name), dict(table))


def remove_server(codex_home: Path, name: str) -> bool:
    """Remove a server with all its settings.

    Returns:
        Whether the file contained it.

    Raises:
        ConfigError: The file is invalid or cannot be written.
    """
    return UserConfig(codex_home).clear((_SERVERS, name))


def own_server(codex_home: Path, name: str) -> Mapping[str, Any] | None:
    """Return the table of a server in the user's own file, or None if that file does not define the server.

    Raises:
        ConfigError: The file is not TOML or cannot be read.
    """
    servers = UserConfig(codex_home).tables().get(_SERVERS)
    table = servers.get(name) if isinstance(servers, Mapping) else None
    return table if isinstance(table, Mapping) and ("command" in table or "url" in table) else None


def elsewhere(codex_home: Path, name: str, hint: str, place: str = "") -> ConfigError:
    """Return the error for a server that is configured, but not in the user's own file.

    Args:
        codex_home: The folder with ``config.toml``.
        name: The server's name.
        hint: How to fix it.
        place: The place where the server is defined. Empty if unknown.
    """
    path = str(UserConfig(codex_home).path)
    where = place or "another source of settings: the file of a project, a profile or an administrator"
    return ConfigError(
        f"the MCP server {name!r} is not defined in {path}, but in {where}",
        path=path,
        key=f"{_SERVERS}.{name}",
        slug="mcp-elsewhere",
        hint=hint,
    )


def remember_approval(codex_home: Path, server: str, tool: str) -> bool:
    """Save that the user has permanently allowed the calls of a tool: ``[mcp_servers.S.tools.T] approval_mode = "approve"``.

    Args:
        codex_home: The folder with ``config.toml``.
        server: The server's name in the configuration.
        tool: The name that the server gives the tool.

    Returns:
        Whether the file has changed.

    Raises:
        ConfigError: The server is not defined in this file, the file is invalid, or it cannot be written.
    """
    key = (_SERVERS, server, "tools", tool, "approval_mode")
    if own_server(codex_home, server) is None:
        hint = f'Add this where the server is defined: tools.{tool!r}.approval_mode = "approve"'
        raise elsewhere(codex_home, server, hint)
    return UserConfig(codex_home).set(key, "approve")
