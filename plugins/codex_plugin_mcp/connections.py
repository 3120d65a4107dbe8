"""The servers of one thread, and the tools that they give it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from codex_framework import PluginError, ServiceError, ThreadComponent, ThreadContext, Tool, TurnFacts
from codex_plugin_mcp.connection import Connection
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.events import McpStartupCompleteEvent, McpStartupUpdateEvent, StartupFailure
from codex_plugin_mcp.features import ClientFeatures
from codex_plugin_mcp.naming import tool_names
from codex_plugin_mcp.servers import ServerConfig, read_servers
from codex_plugin_mcp.settings import Settings

if TYPE_CHECKING:
    from codex_plugin_mcp.transports.transport import Fault, Transport

__all__ = ["Connections", "Pool", "connections_for"]

_DEFERRED_FROM = 100
"""Number of tools from which on they are deferred (Codex's)."""

PATIENCE_S = 1.0
"""How long the first sample waits for servers that are not required, in seconds (Codex's). Tools join when their servers are ready."""

_AFTER_LIMITS_S = 3.0
"""How much longer than its servers the component may take for its start, in seconds. The servers' own limits come first."""


def connections_for(thread: ThreadContext, environ: Mapping[str, str], codex_home: Path | None) -> Connections | None:
    """Return the connections of a thread: those of its parent if their configuration is the same, and otherwise its own.

    Returns:
        None if no server is enabled. Servers whose tables are wrong are reported.
    """
    servers, errors = read_servers(thread.config)
    for error in errors.values():
        thread.warn(f"{error}. {error.hint}")
    enabled = _enabled(servers)
    for server in servers.values():
        if server.enabled and server.disabled_reason:
            thread.warn(f"MCP server `{server.name}` is not used: {server.disabled_reason}")
    if not enabled:
        return None
    parent = None if thread.parent is None else _pool_of(thread.parent)
    if parent is not None and parent.serves(enabled, thread):
        return Connections(thread, parent, owner=False)
    return Connections(thread, Pool(enabled, thread, environ, codex_home), owner=True)


def _enabled(servers: Mapping[str, ServerConfig]) -> dict[str, ServerConfig]:
    return {name: server for name, server in servers.items() if server.enabled and not server.disabled_reason}


def _login_settings(config: Mapping[str, Any]) -> list[Any]:
    return [config.get(f"mcp_oauth_{word}") for word in ("credentials_store", "callback_port", "callback_url")]


def _pool_of(thread: ThreadContext) -> Pool | None:
    try:
        return thread.component(Connections).pool
    except ServiceError:
        return None


class Pool:
    """The connections of a thread, which its children may share.

    Attributes:
        connections: The connections by server, in the order of the names.
        version: Changes whenever the tools do.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerConfig],
        thread: ThreadContext,
        environ: Mapping[str, str],
        codex_home: Path | None,
    ) -> None:
        self._servers = servers
        self._thread = thread
        self._environ = environ
        self._codex_home = codex_home
        self._cwd = thread.settings.cwd
        self._login_settings = _login_settings(thread.config)
        self._users: dict[int, Callable[[], None]] = {}
        self._starting: asyncio.Task[None] | None = None
        self._opening: dict[str, asyncio.Task[None]] = {}
        self.version = 0
        self.features = ClientFeatures(thread)
        self.connections = {name: self._connection(server) for name, server in sorted(servers.items())}

    def serves(self, servers: Mapping[str, ServerConfig], thread: ThreadContext) -> bool:
        """Return whether a child thread with these servers can use the connections."""
        return servers == self._servers and thread.settings.cwd == self._cwd

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether the connections are those that a configuration asks for."""
        servers, _ = read_servers(config)
        return _enabled(servers) == self._servers and _login_settings(config) == self._login_settings

    def join(self, user: object, changed: Callable[[], None]) -> None:
        """Add a user of the connections, who learns of changed tools."""
        self._users[id(user)] = changed

    async def leave(self, user: object) -> None:
        """Remove a user. The last one ends the servers."""
        self._users.pop(id(user), None)
        if not self._users:
            await self.aclose()

    async def start(self, patience_s: float | None = None) -> None:
        """Start all servers that are not running, concurrently, and wait for them.

        Args:
            patience_s: How long to wait for those that are not required, in seconds. None means until they have started or failed.

        Raises:
            PluginError: A required server did not start.
        """
        self._open_all()
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._started())
        await asyncio.wait((self._starting,), timeout=patience_s)
        required = {name: one for name, one in self.connections.items() if self._servers[name].required}
        if awaited := [task for name, task in self._opening.items() if name in required]:
            await asyncio.wait(awaited)
        if failed := [one.error for one in required.values() if one.session is None]:
            raise PluginError("mcp", f"required MCP servers failed: {'; '.join(failed)}")

    def _open_all(self) -> None:
        """Start each server that is neither running nor being started."""
        for name, one in self.connections.items():
            task = self._opening.get(name)
            if one.state in ("starting", "failed") and (task is None or task.done()):
                self._opening[name] = asyncio.get_running_loop().create_task(self._open(one))

    async def _started(self) -> None:
        """Tell the clients how the start of the servers went, once it is known of all of them."""
        while opening := [task for task in self._opening.values() if not task.done()]:
            await asyncio.wait(opening)
        failed = {name: one.error for name, one in self.connections.items() if one.session is None}
        self._thread.emit(
            McpStartupCompleteEvent(
                ready=tuple(name for name in self.connections if name not in failed),
                failed=tuple(StartupFailure(name, error) for name, error in failed.items()),
            )
        )
        for name, error in failed.items():
            if not self._servers[name].required:  # the turn fails with that error
                self._thread.warn(error)

    async def _open(self, connection: Connection) -> None:
        try:
            await connection.open()
        except ConnectionFailed:
            return  # the connection keeps the reason

    async def aclose(self) -> None:
        """End all servers, concurrently."""
        if self._starting is not None:
            tasks = (self._starting, *self._opening.values())
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await asyncio.gather(*(connection.aclose() for connection in self.connections.values()))

    def moved(self) -> None:
        """Tell the servers if the folder of the thread is another one now."""
        if self.features.roots is not None and self.features.roots.changed():
            for connection in self.connections.values():
                connection.tell("notifications/roots/list_changed")

    def _connection(self, server: ServerConfig) -> Connection:
        return Connection(
            server,
            self._thread,
            make_transport=lambda on_fault: self._transport(server, on_fault),
            features=(self.features,),
            changed=lambda: self._changed(server.name),
            told=self._told,
            save_approval=lambda tool: self._save_approval(server.name, tool),
        )

    def _transport(self, server: ServerConfig, on_fault: Fault) -> Transport:
        from codex_plugin_mcp.transports.revisions import NegotiatingTransport

        inner = self._bare_transport(server, on_fault)
        modern_first = _feature(self._thread.config, "mcp_2026_07_28")
        return NegotiatingTransport(inner, modern_first=modern_first, on_fault=on_fault)

    def _bare_transport(self, server: ServerConfig, on_fault: Fault) -> Transport:
        if server.is_stdio:
            from codex_plugin_mcp.transports.stdio import StdioTransport

            return StdioTransport(server, self._thread, environ=self._environ, on_fault=on_fault)
        from codex_plugin_mcp.remote import remote_transport

        config = self._thread.config
        return remote_transport(
            server, codex_home=self._codex_home, config=config, on_fault=on_fault, environ=self._environ
        )

    async def _save_approval(self, server: str, tool: str) -> None:
        if self._codex_home is not None:
            from codex_plugin_mcp.edits import remember_approval

            await asyncio.to_thread(remember_approval, self._codex_home, server, tool)

    async def auth_statuses(self) -> dict[str, str]:
        """Return how each server is authorized. One whose stored tokens cannot be read counts as not logged in."""
        statuses = await asyncio.gather(*(self._auth_status(server) for server in self._servers.values()))
        return dict(zip(self._servers, statuses, strict=True))

    async def _auth_status(self, server: ServerConfig) -> str:
        if server.url is None or self._codex_home is None:
            return "unsupported"
        from codex_plugin_mcp.errors import McpError
        from codex_plugin_mcp.oauth.flow import auth_status

        try:
            return await auth_status(
                server, codex_home=self._codex_home, config=self._thread.config, environ=self._environ
            )
        except McpError:
            return "not_logged_in"

    def _changed(self, server: str) -> None:
        self.version += 1
        if self.connections[server].state == "ready":
            self.features.changed(server, "tools")
        for changed in tuple(self._users.values()):
            changed()

    def _told(self, connection: Connection) -> None:
        """Tell the clients the state of a server, as on Codex's wire."""
        match connection.state:
            case "starting" | "restarting":
                status: dict[str, Any] = {"state": "starting"}
            case "ready":
                status = {"state": "ready"}
            case "failed":
                status = {"state": "failed", "error": connection.error}
            case _:
                return
        self._thread.emit(McpStartupUpdateEvent(connection.name, status))


class Connections(ThreadComponent):
    """The servers of one thread.

    Args:
        pool: The connections: the thread's own, or its parent's.
        owner: Whether they are the thread's own.
    """

    def __init__(self, thread: ThreadContext, pool: Pool, *, owner: bool) -> None:
        self.pool = pool
        self._thread = thread
        self._owner = owner
        self._version = -1
        self._tools: Sequence[Tool] = ()
        servers = [connection.server for connection in pool.connections.values()]
        self.required = any(server.required for server in servers)
        patience_s = thread.plugin_settings(Settings).startup_patience_s
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self.ready_timeout_s = max(server.startup_timeout_sec for server in servers) + _AFTER_LIMITS_S
        pool.join(self, thread.tools_changed)

    async def start(self) -> None:
        """Start the servers. Wait until each required one is ready or has failed, and briefly for the others."""
        await self.pool.start(self._patience_s)

    def reconfigured(self) -> bool:
        """Return whether the servers and the settings of their logins are the same."""
        return self.pool.fits(self._thread.config)

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:  # noqa: ARG002  # the role's
        """Return the tools of all servers that are ready, and those for their resources."""
        if self._owner:
            self.pool.moved()
        if self._version != self.pool.version:
            self._version = self.pool.version
            self._tools = self._made()
        return self._tools

    async def aclose(self) -> None:
        """End the servers, unless a child thread still uses them."""
        await self.pool.leave(self)

    def _made(self) -> Sequence[Tool]:
        from codex_plugin_mcp.resources import resource_tools
        from codex_plugin_mcp.tool_lists import parameters_of
        from codex_plugin_mcp.tools import McpTool

        raw = {name: {tool["name"]: tool for tool in one.tools} for name, one in self.pool.connections.items()}
        names = tool_names({name: tuple(tools) for name, tools in raw.items()}, prefixed=_prefixed(self._thread.config))
        exposure: Literal["direct", "deferred"] = "deferred" if _deferred(len(names), self._thread.config) else "direct"
        tools = [
            McpTool(
                self.pool.connections[name.server],
                name,
                raw[name.server][name.tool],
                parameters_of(raw[name.server][name.tool]),
                exposure,
            )
            for name in names
        ]
        return [*resource_tools(self.pool.connections), *tools]

    def described_tools(self) -> dict[str, Mapping[str, Any]]:
        """Return the tools of all servers as these describe them, by the names for the model."""
        from codex_plugin_mcp.tools import McpTool

        return {tool.name.full: tool.raw for tool in self._made() if isinstance(tool, McpTool)}


def _feature(config: Mapping[str, Any], name: str) -> bool:
    features = config.get("features")
    return isinstance(features, Mapping) and features.get(name) is True


def _prefixed(config: Mapping[str, Any]) -> bool:
    return not _feature(config, "non_prefixed_mcp_tool_names")


def _deferred(count: int, config: Mapping[str, Any]) -> bool:
    """Return whether the tools are found by a search instead of being offered. This requires the plugin ``tool_search``."""
    if count < _DEFERRED_FROM and not _feature(config, "tool_search_always_defer_mcp_tools"):
        return False
    plugins = config.get("framework", {}).get("plugins", {})
    return "tool_search" not in plugins.get("disabled", ())
