"""The ops with which clients answer and inspect servers, and use their prompts.

This module is loaded with the plugin, so it imports nothing else from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, ThreadError, Value
from codex_framework.contract.value import field

if TYPE_CHECKING:
    from codex_plugin_mcp.questions import ElicitationRequest

__all__ = [
    "CallMcpTool",
    "CallToolHandler",
    "ListMcpPrompts",
    "ListMcpTools",
    "ListPromptsHandler",
    "ListToolsHandler",
    "LoginHandler",
    "LoginMcpServer",
    "ReadMcpResource",
    "ReadResourceHandler",
    "RefreshHandler",
    "RefreshMcpServers",
    "ResolveElicitation",
    "ResolveHandler",
    "ServersConfig",
    "UseMcpPrompt",
    "UsePromptHandler",
]


class ResolveElicitation(Op):
    """The answer to a question; ``request_id`` is the request's ``id``."""

    type: ClassVar[Literal["resolve_elicitation"]] = "resolve_elicitation"
    server_name: str
    request_id: str
    decision: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None


class ListMcpTools(Op):
    """Ask for the tools, resources and templates of all servers, answered with ``mcp_list_tools_response``."""

    type: ClassVar[Literal["list_mcp_tools"]] = "list_mcp_tools"


class ListMcpPrompts(Op):
    """Ask for the prompts of all servers, answered with ``mcp_list_prompts_response``."""

    type: ClassVar[Literal["list_mcp_prompts"]] = "list_mcp_prompts"


class UseMcpPrompt(Op):
    """Send a prompt of a server to the model, as if the user had written it. It starts a turn with a new id.

    Attributes:
        server: The server's name in the configuration.
        name: The name of the prompt.
        arguments: The arguments of the prompt, by name.
    """

    type: ClassVar[Literal["use_mcp_prompt"]] = "use_mcp_prompt"
    server: str
    name: str
    arguments: Mapping[str, str] = field(factory=dict)


class CallMcpTool(Op, kw_only=True):
    """Call a tool of a server for the user, without a model and without approval. Answered with ``mcp_answer``.

    Attributes:
        server: The server's name in the configuration.
        tool: The tool's name on the server.
        arguments: A JSON object.
        meta: The ``_meta`` of the call, to which the thread's id is added.
    """

    type: ClassVar[Literal["call_mcp_tool"]] = "call_mcp_tool"
    server: str
    tool: str
    arguments: Any = None
    meta: Mapping[str, Any] | None = None


class ReadMcpResource(Op, kw_only=True):
    """Read a resource of a server for the user. Answered with ``mcp_answer``.

    Attributes:
        meta: The ``_meta`` of the request.
    """

    type: ClassVar[Literal["read_mcp_resource"]] = "read_mcp_resource"
    server: str
    uri: str
    meta: Mapping[str, Any] | None = None


class LoginMcpServer(Op, kw_only=True):
    """Log in to a server over HTTP. ``mcp_login_started`` and ``mcp_login_completed`` follow.

    Attributes:
        scopes: The scopes to request. The default is the server's `scopes` setting, else the scopes that the server names.
        registration: ``auto``, ``cimd`` or ``dcr``, as for the command.
        timeout_s: How long to wait for the user, in seconds; by default 300.
    """

    type: ClassVar[Literal["login_mcp_server"]] = "login_mcp_server"
    server: str
    scopes: tuple[str, ...] | None = None
    registration: str = "auto"
    timeout_s: float | None = None


class ServersConfig(Value, kw_only=True):
    """Servers for a thread.

    Attributes:
        mcp_servers: Their tables by name, as in ``config.toml``. They replace all earlier servers.
        mcp_oauth_credentials_store_mode: The store of tokens: ``auto``, ``file`` or ``keyring``. None changes nothing.
    """

    mcp_servers: Mapping[str, Any]
    mcp_oauth_credentials_store_mode: str | None = None


class RefreshMcpServers(Op):
    """Replace the servers of the thread. The next turn starts the new ones."""

    type: ClassVar[Literal["refresh_mcp_servers"]] = "refresh_mcp_servers"
    config: ServersConfig


class ResolveHandler(OpHandler[ResolveElicitation]):
    """Passes an answer to the server that waits for it."""

    op = ResolveElicitation

    async def handle(self, op: ResolveElicitation, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Answer the question. An answer that does not fit the form is refused, and the question stays open.

        Raises:
            ThreadError: No such question is open, or the answer does not fit.
        """
        from codex_plugin_mcp.questions import DECISIONS, ElicitationAnswer, forms_of

        number = op.request_id
        question = forms_of(thread).get(number)
        if op.decision not in DECISIONS or (question is not None and question.server_name != op.server_name):
            raise _not_open(op)
        if question is not None and op.decision == "accept" and question.request.requested_schema is not None:
            _check(question, op.content)
        if not thread.answer(number, ElicitationAnswer(op.decision, op.content, op.meta)):
            raise _not_open(op)


def _check(question: ElicitationRequest, content: Mapping[str, Any] | None) -> None:
    from codex_plugin_mcp.forms import answered

    assert question.request.requested_schema is not None
    _, problems = answered(question.request.requested_schema, content or {})
    if problems:
        hint = "Correct these values, or decline. The question is still open."
        raise ThreadError(f"the answer does not fit: {'; '.join(problems)}", slug="bad-request", hint=hint)


def _not_open(op: ResolveElicitation) -> ThreadError:
    return ThreadError(
        f"no question {op.request_id!r} of the MCP server {op.server_name!r} is waiting for an answer",
        slug="bad-request",
        hint="It was answered already, its call has ended, or the server or id is wrong.",
    )


class ListToolsHandler(OpHandler[ListMcpTools]):
    """Answers ``list_mcp_tools``."""

    op = ListMcpTools

    async def handle(self, op: ListMcpTools, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Ask the servers in the background, so that a slow one does not delay other ops."""
        from codex_plugin_mcp.client_lists import list_tools

        thread.background(list_tools(thread, id), name="list_mcp_tools")


class ListPromptsHandler(OpHandler[ListMcpPrompts]):
    """Answers ``list_mcp_prompts``."""

    op = ListMcpPrompts

    async def handle(self, op: ListMcpPrompts, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Ask the servers in the background."""
        from codex_plugin_mcp.client_lists import list_prompts

        thread.background(list_prompts(thread, id), name="list_mcp_prompts")


class UsePromptHandler(OpHandler[UseMcpPrompt]):
    """Handles ``use_mcp_prompt``."""

    op = UseMcpPrompt

    async def handle(self, op: UseMcpPrompt, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Ask the server in the background, and then submit its messages as the user's input.

        Raises:
            ThreadError: There is no such server.
        """
        from codex_plugin_mcp.client_lists import connections_of, use_prompt

        found = connections_of(thread)
        connection = None if found is None else found.pool.connections.get(op.server)
        if connection is None:
            known = ", ".join(found.pool.connections) if found is not None else ""
            hint = f"The servers are: {known}." if known else "This thread has no MCP server."
            raise ThreadError(f"unknown MCP server {op.server!r}", slug="bad-request", hint=hint)
        thread.background(use_prompt(connection, op.name, op.arguments, thread, id), name="use_mcp_prompt")


class CallToolHandler(OpHandler[CallMcpTool]):
    """Handles ``call_mcp_tool``."""

    op = CallMcpTool

    async def handle(self, op: CallMcpTool, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Call the tool in the background."""
        from codex_plugin_mcp.client_calls import call_tool

        work = call_tool(op.server, op.tool, op.arguments, op.meta, thread, id)
        thread.background(work, name="call_mcp_tool")


class ReadResourceHandler(OpHandler[ReadMcpResource]):
    """Handles ``read_mcp_resource``."""

    op = ReadMcpResource

    async def handle(self, op: ReadMcpResource, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Read the resource in the background."""
        from codex_plugin_mcp.client_calls import read_resource

        thread.background(read_resource(op.server, op.uri, op.meta, thread, id), name="read_mcp_resource")


class LoginHandler(OpHandler[LoginMcpServer]):
    """Handles ``login_mcp_server``.

    Args:
        codex_home: ``$CODEX_HOME``, where the login is stored.
    """

    op = LoginMcpServer

    def __init__(self, codex_home: Path) -> None:
        self._codex_home = codex_home

    async def handle(self, op: LoginMcpServer, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Log in in the background.

        Raises:
            ThreadError: There is no such server, or it is not reached over HTTP.
        """
        from codex_plugin_mcp.client_calls import log_in
        from codex_plugin_mcp.servers import read_servers

        servers, _ = read_servers(thread.config)
        server = servers.get(op.server)
        if server is None:
            raise ThreadError(f"No MCP server named '{op.server}' found.", slug="bad-request")
        if server.url is None:
            raise ThreadError("OAuth login is only supported for streamable HTTP servers.", slug="bad-request")
        work = log_in(
            server,
            scopes=op.scopes,
            registration=op.registration,
            timeout_s=op.timeout_s,
            thread=thread,
            submission=id,
            codex_home=self._codex_home,
        )
        thread.background(work, name="login_mcp_server")


class RefreshHandler(OpHandler[RefreshMcpServers]):
    """Handles ``refresh_mcp_servers``."""

    op = RefreshMcpServers

    async def handle(self, op: RefreshMcpServers, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Keep the servers for the next turn. If a table is invalid, the thread keeps its current servers.

        Raises:
            ConfigError: A table is invalid.
        """
        from codex_plugin_mcp.servers import read_servers

        tables = _without_nulls(op.config.mcp_servers)
        _, errors = read_servers({**thread.config, "mcp_servers": tables})
        for error in errors.values():
            raise error
        values: dict[str, Any] = {"mcp_servers": tables}
        if op.config.mcp_oauth_credentials_store_mode is not None:
            values["mcp_oauth_credentials_store"] = op.config.mcp_oauth_credentials_store_mode
        thread.reconfigure(values)


def _without_nulls(value: Any) -> Any:
    """Return tables without null values, which TOML cannot express. JSON clients send null for unset keys."""
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(each) for key, each in value.items() if each is not None}
    return value
