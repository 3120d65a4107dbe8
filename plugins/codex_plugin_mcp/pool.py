"""The connections with the servers of one thread, which its children may share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework import PluginError, ThreadContext
from codex_plugin_mcp.connection import Connection
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.events import McpStartupCompleteEvent, McpStartupUpdateEvent, StartupFailure
from codex_plugin_mcp.features import ClientFeatures
from codex_plugin_mcp.servers import ServerConfig, enabled_servers, is_feature_on

if TYPE_CHECKING:
    from codex_plugin_mcp.transports.transport import Fault, Transport

__all__ = ["Pool"]


def _login_settings(config: Mapping[str, Any]) -> list[Any]:
    return [config.get(f"mcp_oauth_{word}") for word in ("credentials_store", "callback_port", "callback_url")]


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
        """Return whether the connections match a configuration."""
        return enabled_servers(config) == self._servers and _login_settings(config) == self._login_settings

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
            patience_s: How long to wait for a server that is not required, in seconds from when it can be reached. By default
                until it has started or failed.

        Raises:
            PluginError: A required server did not start.
        """
        self._open_all()
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._started())
        required = {name: one for name, one in self.connections.items() if self._servers[name].required}
        await asyncio.gather(
            *(one.wait_started(None if name in required else patience_s) for name, one in self.connections.items())
        )
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
        modern_first = is_feature_on(self._thread.config, "mcp_2026_07_28")
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
