"""Actions of clients on servers, without a model: call tools, read resources, and log in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from codex_framework import EventMsg, ThreadContext, Value
from codex_plugin_mcp.client_lists import connections_of
from codex_plugin_mcp.errors import ConnectionFailed, McpError, ServerError

if TYPE_CHECKING:
    from codex_plugin_mcp.connection import Connection
    from codex_plugin_mcp.servers import ServerConfig
    from codex_plugin_mcp.session import Session

__all__ = [
    "McpAnswerEvent",
    "McpFault",
    "McpLoginCompletedEvent",
    "McpLoginStartedEvent",
    "call_tool",
    "log_in",
    "read_resource",
]

_INTERNAL = -32603


class McpFault(Value):
    """A server's failure to execute a client's request.

    Attributes:
        code: The code of the server's error, or -32603.
        data: The data of the server's error.
    """

    message: str
    code: int = _INTERNAL
    data: Any = None


class McpAnswerEvent(EventMsg, kw_only=True):
    """The answer to ``call_mcp_tool`` or ``read_mcp_resource``: a result as the server gave it, or an error."""

    type: ClassVar[Literal["mcp_answer"]] = "mcp_answer"

    result: Mapping[str, Any] | None = None
    error: McpFault | None = None


class McpLoginStartedEvent(EventMsg, kw_only=True):
    """A login waits for the user, who is to open an address."""

    type: ClassVar[Literal["mcp_login_started"]] = "mcp_login_started"

    server: str
    authorization_url: str


class McpLoginCompletedEvent(EventMsg, kw_only=True):
    """A login has ended.

    Attributes:
        error: Why it failed. None if it succeeded.
    """

    type: ClassVar[Literal["mcp_login_completed"]] = "mcp_login_completed"

    server: str
    error: str | None = None


async def call_tool(
    server: str, tool: str, arguments: object, meta: Mapping[str, Any] | None, thread: ThreadContext, submission: str
) -> None:
    """Call a tool, and answer with an event. Nobody is asked, because the user's client wants it."""
    given = {} if arguments is None else arguments
    failed = f"tool call failed for `{server}/{tool}`"

    def check(connection: Connection) -> None:
        if not connection.server.offers(tool):
            raise McpError(f"tool '{tool}' is disabled for MCP server '{server}'")
        if not isinstance(given, Mapping):
            raise McpError(f"{failed}: MCP tool arguments must be a JSON object, got {str(given)[:200]}")

    def call(session: Session, limit_s: float) -> Awaitable[Mapping[str, Any]]:
        assert isinstance(given, Mapping)
        return session.call_tool(tool, given, meta={**(meta or {}), "threadId": thread.id}, timeout_s=limit_s)

    thread.emit(await _ask(server, call, thread, failed, check), id=submission)


async def read_resource(
    server: str, uri: str, meta: Mapping[str, Any] | None, thread: ThreadContext, submission: str
) -> None:
    """Read a resource, and answer with an event."""

    def read(session: Session, limit_s: float) -> Awaitable[Mapping[str, Any]]:
        return session.read_resource(uri, meta=meta, timeout_s=limit_s)

    failed = f"resources/read failed for `{server}` ({uri})"
    thread.emit(await _ask(server, read, thread, failed), id=submission)


async def _ask(
    name: str,
    work: Callable[[Session, float], Awaitable[Mapping[str, Any]]],
    thread: ThreadContext,
    failed: str,
    check: Callable[[Connection], None] = lambda _: None,
) -> McpAnswerEvent:
    """Ask a server of the thread, once it has started.

    Args:
        failed: The start of the message if the connection is lost.
        check: Called before the server is asked. It may raise McpError.
    """
    found = connections_of(thread)
    connection = None if found is None else found.pool.connections.get(name)
    has_started = False

    def ask(session: Session, limit_s: float) -> Awaitable[Mapping[str, Any]]:
        nonlocal has_started
        has_started = True
        return work(session, limit_s)

    try:
        if connection is None:
            raise McpError(f"unknown MCP server '{name}'")
        check(connection)
        return McpAnswerEvent(result=await connection.ask(ask))
    except ServerError as error:
        return McpAnswerEvent(error=McpFault(str(error), error.code, error.data))
    except ConnectionFailed as error:
        return McpAnswerEvent(error=McpFault(f"{failed if has_started else 'failed to get client'}: {error}"))
    except McpError as error:
        return McpAnswerEvent(error=McpFault(str(error)))


async def log_in(
    server: ServerConfig,
    *,
    scopes: tuple[str, ...] | None,
    registration: str,
    timeout_s: float | None,
    thread: ThreadContext,
    submission: str,
    codex_home: Path,
) -> None:
    """Log in to a server. Events tell the address that the user is to open, and how it has ended."""
    from codex_framework import CodexError
    from codex_plugin_mcp.oauth.flow import LOGIN_S, login

    def show(address: str) -> bool:
        thread.emit(McpLoginStartedEvent(server=server.name, authorization_url=address), id=submission)
        return True

    error: str | None = None
    try:
        await login(
            server,
            codex_home=codex_home,
            config=thread.config,
            open_browser=show,
            echo=lambda _: None,
            scopes=scopes,
            registration=registration,
            timeout_s=LOGIN_S if timeout_s is None else timeout_s,
        )
    except CodexError as failure:
        error = str(failure)
    thread.emit(McpLoginCompletedEvent(server=server.name, error=error), id=submission)
