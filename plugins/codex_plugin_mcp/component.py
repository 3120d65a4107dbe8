"""The component, which connects each thread with the servers of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from codex_framework import Component, ThreadComponent, ThreadContext

__all__ = ["Mcp"]


class Mcp(Component):
    """Reads ``[mcp_servers]`` of each thread's configuration.

    Args:
        environ: The variables from which servers get the allowed ones.
        codex_home: ``$CODEX_HOME``. Without it, nothing is saved.
    """

    name = "mcp"

    def __init__(self, environ: Mapping[str, str], codex_home: Path | None = None) -> None:
        self._environ = environ
        self._codex_home = codex_home

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the connections of a thread, or None if its configuration names no server."""
        if not thread.config.get("mcp_servers"):
            return None
        from codex_plugin_mcp.connections import connections_for

        return connections_for(thread, self._environ, self._codex_home)
