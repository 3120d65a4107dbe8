"""The servers of one thread, and their tools.

Creating a thread imports only the code that reads the configuration. The rest is imported when servers start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from codex_framework import ServiceError, ThreadComponent, ThreadContext, Tool, TurnFacts
from codex_plugin_mcp.servers import ServerConfig, enabled_servers, is_feature_on, read_servers
from codex_plugin_mcp.settings import Settings

if TYPE_CHECKING:
    from codex_plugin_mcp.pool import Pool

__all__ = ["Connections", "connections_for"]

_DEFERRED_FROM = 100
"""Number of tools from which on they are deferred (Codex's)."""

GRACE_MS = 1_000
"""How long the first sample waits for a server that is not required, in milliseconds (Codex's default)."""

_AFTER_LIMITS_S = 3.0
"""How much longer than its servers the component may take for its start, in seconds. The servers' own limits come first."""


def connections_for(thread: ThreadContext, environ: Mapping[str, str], codex_home: Path | None) -> Connections | None:
    """Return the connections of a thread, which shares its parent's if the configuration is the same.

    Returns:
        The connections, or None if no server is enabled. Servers whose tables are wrong are reported.
    """
    servers, errors = read_servers(thread.config)
    for error in errors.values():
        thread.warn(f"{error}. {error.hint}")
    for server in servers.values():
        if server.enabled and server.disabled_reason:
            thread.warn(f"MCP server `{server.name}` is not used: {server.disabled_reason}")
    enabled = enabled_servers(thread.config)
    if not enabled:
        return None
    parent = None if thread.parent is None else _pool_of(thread.parent)
    shared = parent if parent is not None and parent.serves(enabled, thread) else None
    return Connections(thread, enabled, environ, codex_home, shared=shared)


def _pool_of(thread: ThreadContext) -> Pool | None:
    try:
        return thread.component(Connections).pool
    except ServiceError:
        return None


class Connections(ThreadComponent):
    """The servers of one thread.

    Args:
        servers: The servers that are enabled.
        environ: The variables from which servers get the allowed ones.
        codex_home: ``$CODEX_HOME``. Without it, nothing is saved.
        shared: The connections of the parent, if the thread uses them.
    """

    def __init__(
        self,
        thread: ThreadContext,
        servers: Mapping[str, ServerConfig],
        environ: Mapping[str, str],
        codex_home: Path | None,
        *,
        shared: Pool | None = None,
    ) -> None:
        self._thread = thread
        self._servers = servers
        self._environ = environ
        self._codex_home = codex_home
        self._shared = shared
        self._version = -1
        self._tools: Sequence[Tool] = ()
        self.required = any(server.required for server in servers.values())
        self.ready_timeout_s = max(server.startup_timeout_sec for server in servers.values()) + _AFTER_LIMITS_S
        if shared is not None:
            shared.join(self, thread.tools_changed)

    @cached_property
    def pool(self) -> Pool:
        """The connections: the thread's own, or its parent's."""
        if self._shared is not None:
            return self._shared
        from codex_plugin_mcp.pool import Pool

        pool = Pool(self._servers, self._thread, self._environ, self._codex_home)
        pool.join(self, self._thread.tools_changed)
        return pool

    async def start(self) -> None:
        """Start the servers. Wait until each required one is ready or has failed, and briefly for the others."""
        await self.pool.start(_patience_s(self._thread))

    def reconfigured(self) -> bool:
        """Return whether the servers and the settings of their logins are the same."""
        return self.pool.fits(self._thread.config)

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:  # noqa: ARG002  # the role's
        """Return the tools of all servers that are ready, and those for their resources."""
        if self._shared is None:
            self.pool.moved()
        if self._version != self.pool.version:
            self._version = self.pool.version
            self._tools = self._made()
        return self._tools

    async def aclose(self) -> None:
        """End the servers, unless a child thread still uses them."""
        await self.pool.leave(self)

    def _made(self) -> Sequence[Tool]:
        from codex_plugin_mcp.naming import tool_names
        from codex_plugin_mcp.resources import resource_tools
        from codex_plugin_mcp.tools import McpTool

        raw = {name: {tool["name"]: tool for tool in one.tools} for name, one in self.pool.connections.items()}
        names = tool_names(
            {name: tuple(tools) for name, tools in raw.items()}, prefixed=_uses_prefix(self._thread.config)
        )
        exposure: Literal["direct", "deferred"] = (
            "deferred" if _defers_tools(len(names), self._thread.config) else "direct"
        )
        tools = [
            McpTool(
                self.pool.connections[name.server],
                name,
                raw[name.server][name.tool],
                exposure,
            )
            for name in names
        ]
        return [*resource_tools(self.pool.connections), *tools]

    def described_tools(self) -> dict[str, Mapping[str, Any]]:
        """Return the tools of all servers as these describe them, by the names for the model."""
        from codex_plugin_mcp.tools import McpTool

        return {tool.name.full: tool.raw for tool in self._made() if isinstance(tool, McpTool)}


def _patience_s(thread: ThreadContext) -> float | None:
    """Return how long the first sample waits for an optional server, or None if it waits until the server has started or failed."""
    patience_s = thread.plugin_settings(Settings).startup_patience_s
    if patience_s is None:
        patience_s = thread.config.get("mcp_optional_startup_grace_ms", GRACE_MS) / 1000 or None
    return patience_s


def _uses_prefix(config: Mapping[str, Any]) -> bool:
    return not is_feature_on(config, "non_prefixed_mcp_tool_names")


def _defers_tools(count: int, config: Mapping[str, Any]) -> bool:
    """Return whether the tools are found by a search instead of being offered. This requires the plugin ``tool_search``."""
    if count < _DEFERRED_FROM and not is_feature_on(config, "tool_search_always_defer_mcp_tools"):
        return False
    plugins = config.get("framework", {}).get("plugins", {})
    return "tool_search" not in plugins.get("disabled", ())
