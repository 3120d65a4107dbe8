"""The life of the connection to one server: its start, its tools, its end, and its restarts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from codex_framework import ThreadContext, ToolContext
from codex_plugin_mcp.errors import ConnectionFailed, McpError, RequestTimedOut, ServerError
from codex_plugin_mcp.pace import Pace, Patience
from codex_plugin_mcp.peer import Handler, Peer
from codex_plugin_mcp.servers import ServerConfig
from codex_plugin_mcp.session import Session
from codex_plugin_mcp.texts import plain
from codex_plugin_mcp.transports.transport import Fault, Transport

__all__ = ["Connection", "Feature", "State"]

State: TypeAlias = Literal["starting", "ready", "restarting", "failed", "closed"]
"""``restarting``: it was ready, has ended, and is started again. ``failed``: it is not started again."""

T = TypeVar("T")

_BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Waits before the restarts of a server that ends again and again, in seconds. Then it is given up."""

_STABLE_S = 60.0
"""How long a server must have run for its end to count as the first one, in seconds."""

_LIST_AT_ONCE, _LIST_EVERY_S = 5, 2.0
"""How often a changed list of tools is read without a pause, and then at most once in this time, in seconds."""

_MAX_FAULTS = 10
"""Maximum number of warnings about a server's mistakes, until it is restarted."""

_MAX_TEXT = 4_000
"""Longest text about a server that users are shown, in characters. Much of it may be the server's own."""

_EXPERIMENTAL = "experimental"
_SANDBOX_STATE = "codex/sandbox-state-meta"


class Feature(Protocol):
    """A feature that the client offers to a server: roots, elicitation or sampling."""

    def capabilities(self, connection: Connection) -> Mapping[str, Any]:
        """Return the client's capabilities, for ``initialize``."""
        ...

    def handlers(self, connection: Connection) -> Mapping[str, Handler]:
        """Return the handlers of the server's requests and notifications, by method."""
        ...

    async def removed(self, error: ServerError, connection: Connection) -> bool:
        """Remove the reason of an error that a call had, for example by asking the user. Returns whether it is removed."""
        ...


class Connection:
    """The connection to one server.

    Args:
        make_transport: Makes a transport for each start.
        features: The features that the client offers to the server.
        changed: Called when the list of tools has changed.
        told: Called when the state has changed.
        save_approval: Saves that the user allowed a tool permanently.

    Attributes:
        thread: The thread that the connection belongs to. Child threads may use it too.
        state: See ``State``.
        error: Why it has no connection, with a hint for the user. Empty while it is ready.
        session: The session, while there is a connection.
        tools: The tools that the configuration admits, as the server describes them.
    """

    def __init__(
        self,
        server: ServerConfig,
        thread: ThreadContext,
        *,
        make_transport: Callable[[Fault], Transport],
        features: Sequence[Feature] = (),
        changed: Callable[[], None],
        told: Callable[[Connection], None],
        save_approval: Callable[[str], Awaitable[None]],
    ) -> None:
        self.server = server
        self.thread = thread
        self.state: State = "starting"
        self.error = ""
        self.session: Session | None = None
        self.tools: Sequence[Mapping[str, Any]] = ()
        self._make_transport = make_transport
        self._features = features
        self._changed = changed
        self._told = told
        self._save_approval = save_approval
        self._peer: Peer | None = None
        self._reachable = asyncio.Event()
        self._settled = asyncio.Event()
        self._faults = 0
        self._calls: dict[str, ToolContext] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._listing = False
        self._lists = Pace(_LIST_AT_ONCE, _LIST_EVERY_S)
        self._list_again = False

    @property
    def name(self) -> str:
        """The server's name."""
        return self.server.name

    @property
    def wants_sandbox_state(self) -> bool:
        """Whether the server wants to know the permissions of each call."""
        if self.session is None:
            return False
        experimental = self.session.server_capabilities.get(_EXPERIMENTAL)
        return isinstance(experimental, Mapping) and _SANDBOX_STATE in experimental

    @property
    def caller(self) -> ToolContext | None:
        """The context of the newest call that waits for the server, or None if no call does."""
        return next(reversed(self._calls.values()), None)

    # Starting and ending

    async def open(self) -> None:
        """Start the server and read its tools. Afterwards it is restarted when it ends.

        Raises:
            ConnectionFailed: It did not start. The text is a sentence for the user, with a hint.
        """
        self._reachable.clear()
        self._set("starting")
        try:
            await self._connect()
        except ConnectionFailed as error:
            self._set("failed", str(error))
            raise
        except BaseException as error:
            self._set("closed", f"its start ended with {type(error).__name__}")
            raise
        finally:
            self._reachable.set()
        self._set("ready")
        self._spawn(self._keep())

    async def wait_started(self, patience_s: float | None = None) -> None:
        """Wait until the server has started or failed.

        Args:
            patience_s: How long to wait from when the server can be reached, in seconds. By default, there is no limit but its
                own.
        """
        await self._reachable.wait()
        patience = None if patience_s is None else Patience(patience_s, self._transport.process_id)
        while not self._settled.is_set() and (patience is None or patience.left_s > 0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if patience is None else patience.left_s):
                    await self._settled.wait()

    async def aclose(self) -> None:
        """End the server. May be called twice."""
        self._set("closed", "the thread has ended")
        peer, self._peer, self.session = self._peer, None, None
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if peer is not None:
            await peer.aclose()
        if tasks:
            await asyncio.wait(tasks)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _connect(self) -> None:
        """Start the server, and read its tools.

        Raises:
            ConnectionFailed: It did not start.
        """
        from codex_plugin_mcp.hints import failure_text

        self._faults = 0
        transport = self._transport = self._make_transport(self.fault)
        handlers: dict[str, Handler] = {"notifications/tools/list_changed": self._tools_changed}
        capabilities: dict[str, Any] = {}
        for feature in self._features:
            handlers |= feature.handlers(self)
            capabilities |= feature.capabilities(self)
        peer = Peer(transport, handlers, on_fault=self.fault)
        limit_s = self.server.startup_timeout_sec
        try:
            async with asyncio.timeout(limit_s):
                await peer.start()
                self._reachable.set()
                session = Session(peer, transport, capabilities)
                await session.initialize()
                tools = await self._listed(session)
        except TimeoutError:
            late = ConnectionFailed(f"it did not start within {limit_s:g} s", kind="timeout")
            raise self._given_up(peer, failure_text(self.server, late)) from None
        except McpError as error:
            raise self._given_up(peer, failure_text(self.server, error)) from error
        except BaseException:
            self._given_up(peer, "")
            raise
        self._peer, self.session = peer, session
        self._take(tools)
        if session.offers("resources"):
            self._changed()  # the tools for resources are offered from now on
        if session.offers("logging"):
            self._spawn(self._log_level(session))

    def _given_up(self, peer: Peer, text: str) -> ConnectionFailed:
        """End a server that did not start, without waiting, and return the error. The end of the connection waits for it."""
        task = asyncio.get_running_loop().create_task(peer.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return ConnectionFailed(text)

    async def _keep(self) -> None:
        """Start the server again each time that it ends, until it ends too often."""
        deaths = 0
        while (peer := self._peer) is not None:
            began = time.monotonic()
            await peer.ended.wait()
            why = peer.why_ended()
            deaths = 1 if time.monotonic() - began > _STABLE_S else deaths + 1
            self._peer = self.session = None
            self._set("restarting", why)
            self._warn(f"{why}. It is started again.")
            await peer.aclose()
            deaths = await self._restart(deaths)

    async def _restart(self, deaths: int) -> int:
        """Start the server again, after a while. Return how often it has ended or failed in a row."""
        while deaths <= len(_BACKOFF_S):
            await asyncio.sleep(_BACKOFF_S[deaths - 1])
            try:
                await self._connect()
            except ConnectionFailed as error:
                deaths += 1
                self._set("restarting", str(error))
                continue
            self._set("ready")
            return deaths
        self._take(())
        text = f"it has ended or failed {deaths} times in a row and is not started again: {self.error}"
        self._set("failed", text)
        self._warn(text)
        return deaths

    # Tools

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        context: ToolContext,
        meta: Mapping[str, Any],
        *,
        check: Callable[[Mapping[str, Any] | None], None],
    ) -> Mapping[str, Any]:
        """Call a tool. If the server is being started, wait for it.

        Args:
            context: The context of the call, which receives the progress.
            check: Called with the tool as the server describes it at the time of the call. It gets None if the server no longer
                lists the tool. It may raise.

        Raises:
            ServerError, RequestTimedOut, ConnectionFailed: As for ``Peer.request``.
        """
        limit_s = self.server.tool_timeout_sec

        def progress(done: float, total: float | None, text: str) -> None:
            fraction = None if not total or total <= 0 else max(0.0, min(1.0, done / total))
            context.progress(text, done=fraction)

        self._calls[context.call_id] = context
        try:
            session = await self.ready(limit_s)
            check(self._described(tool))
            try:
                return await session.call_tool(tool, arguments, meta=meta, timeout_s=limit_s, on_progress=progress)
            except ServerError as error:
                if not await self._can_go_on(error):
                    raise
            session = await self.ready(limit_s)
            check(self._described(tool))
            return await session.call_tool(tool, arguments, meta=meta, timeout_s=limit_s, on_progress=progress)
        finally:
            self._calls.pop(context.call_id, None)

    def _described(self, tool: str) -> Mapping[str, Any] | None:
        return next((one for one in self.tools if one["name"] == tool), None)

    async def _can_go_on(self, error: ServerError) -> bool:
        """Return whether a failed call can be tried once more, because a feature has removed the reason."""
        for feature in self._features:
            if await feature.removed(error, self):
                return True
        return False

    async def ask(self, work: Callable[[Session, float], Awaitable[T]], context: ToolContext | None = None) -> T:
        """Ask the server something other than a call of a tool.

        Args:
            work: Asks the session, within a number of seconds.
            context: The call that asks. Questions of the server belong to it.

        Raises:
            ServerError, RequestTimedOut, ConnectionFailed: As for ``Peer.request``.
        """
        limit_s = self.server.tool_timeout_sec
        if context is not None:
            self._calls[context.call_id] = context
        try:
            return await work(await self.ready(limit_s), limit_s)
        finally:
            if context is not None:
                self._calls.pop(context.call_id, None)

    async def ready(self, within_s: float) -> Session:
        """Return the session. If the server is being started, wait for it.

        Raises:
            ConnectionFailed: There is no connection.
            RequestTimedOut: The server did not start in time.
        """
        try:
            async with asyncio.timeout(within_s):
                await self._settled.wait()
        except TimeoutError:
            raise RequestTimedOut(f"the server did not start within {within_s:g} seconds") from None
        if self.session is None:
            raise ConnectionFailed(self.error or "there is no connection", kind="ended")
        return self.session

    def tell(self, method: str) -> None:
        """Send a notification without waiting, if there is a connection."""
        if self.session is not None:
            self._spawn(self._notify(self.session, method))

    async def _notify(self, session: Session, method: str) -> None:
        with contextlib.suppress(McpError):
            await session.peer.notify(method)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the time limits of calls, while the user answers a question of the server."""
        peer = self._peer
        if peer is None:
            yield
            return
        with peer.paused():
            yield

    async def remember_approval(self, tool: str) -> None:
        """Save that the user allowed a tool permanently, and do not ask again in this thread."""
        tools = {**self.server.tools, tool: {**self.server.tools.get(tool, {}), "approval_mode": "approve"}}
        self.server = self.server.evolve(tools=tools)
        await self._save_approval(tool)

    async def _listed(self, session: Session) -> list[Mapping[str, Any]]:
        if not session.offers("tools"):
            return []
        try:
            tools, problem = await session.every("tools/list", "tools")
        except ServerError:
            if "tools" in session.server_capabilities:
                raise
            return []  # the server did not say that it has tools
        if problem:
            self.fault(problem)
        return tools

    def _take(self, tools: Sequence[Mapping[str, Any]]) -> None:
        from codex_plugin_mcp.tool_lists import admitted

        found = admitted(tools, self.server, self.fault)
        if found != self.tools:
            self.tools = found
            self._changed()

    async def _tools_changed(self, params: Mapping[str, Any]) -> None:  # noqa: ARG002  # a handler's
        """Read the list of tools again. Notifications that arrive meanwhile cause one more reading.

        Some servers report a change with each reading, so the readings are slowed down.
        """
        self._list_again = True
        if self._listing:
            return
        self._listing = True
        try:
            while self._list_again and (session := self.session) is not None:
                await self._lists.wait()
                self._list_again = False
                async with asyncio.timeout(self.server.startup_timeout_sec):
                    tools = await self._listed(session)
                if self.session is session:
                    self._take(tools)
        except (McpError, TimeoutError) as error:
            self.fault(f"its changed list of tools could not be read: {error or 'no answer in time'}")
        finally:
            self._listing = False

    async def _log_level(self, session: Session) -> None:
        """Ask the server for the log messages that this program logs."""
        from codex_plugin_mcp.logs import level_of

        with contextlib.suppress(McpError):  # many servers state that they log, and know no levels
            await session.set_log_level(level_of(), timeout_s=self.server.startup_timeout_sec)

    # Telling

    def fault(self, text: str) -> None:
        """Warn the user about a server's mistake, at most a few times."""
        self._faults += 1
        if self._faults < _MAX_FAULTS:
            self._warn(text)
        elif self._faults == _MAX_FAULTS:
            self._warn(f"{text} (further faults are not reported)")

    def _warn(self, text: str) -> None:
        self.thread.warn(f"MCP server `{self.name}`: {plain(text, _MAX_TEXT)}")

    def _set(self, state: State, error: str = "") -> None:
        if self.state == "closed":
            return
        self.state, self.error = state, plain(error, _MAX_TEXT)
        if state in ("starting", "restarting"):
            self._settled.clear()
        else:
            self._settled.set()
        self._told(self)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
