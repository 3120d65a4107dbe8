"""``mcp call``: one call of a tool, without a model."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from codex_framework import (
    ApprovalRequest,
    CodexError,
    ConfigError,
    Decision,
    EventMsg,
    PluginContext,
    Request,
    ReviewDecision,
    TaskContext,
    ToolApprovalRequestEvent,
)
from codex_framework.toolkit.approval_questions import answer_labels, approval_question
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_mcp.cli.asking import answer, at_terminal, line_of
from codex_plugin_mcp.cli.configured import Configured, ServerName
from codex_plugin_mcp.cli.text import block_text, paragraph

if TYPE_CHECKING:
    from codex_plugin_mcp.connection import Connection

__all__ = ["call_command"]


def call_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp call``."""

    @click.command("call", short_help="Call a tool of a server.")
    @click.argument("server", type=ServerName(plugin))
    @click.argument("tool")
    @click.argument("arguments", metavar="[JSON]", default="{}")
    @click.option("-y", "--yes", is_flag=True, help="Approve the call.")
    @click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
    @click.pass_context
    def command(context: click.Context, server: str, tool: str, arguments: str, *, yes: bool, as_json: bool) -> None:
        """Start a server, call one of its tools, and print the result.

        TOOL is the name on the server or the name that the model sees, and JSON an object with the arguments; - reads it from
        stdin. If the call needs approval, you are asked; without a terminal, --yes is required. Progress is shown on stderr.
        The exit status is 1 if the call fails.
        """
        text = _read() if arguments == "-" else arguments
        configured = Configured(plugin)
        call = _Call(configured.usable(server).name, tool, _parsed(text), approved=yes)
        result = asyncio.run(call.result(plugin))
        if as_json:
            click.echo(json.dumps(result, indent=2))
        else:
            for line in _result_lines(result):
                click.echo(line)
        context.exit(1 if result.get("isError") is True else 0)

    return command


def _read() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _wrong_arguments(f"the arguments on stdin are not UTF-8: {error.reason}") from None


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        arguments = json.loads(text)
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()  # NaN and lone surrogates cannot be sent
    except (ValueError, RecursionError) as error:
        raise _wrong_arguments(f"the arguments are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise _wrong_arguments("the arguments are not a JSON object")
    return arguments


def _wrong_arguments(fact: str) -> ConfigError:
    return ConfigError(
        fact, path="JSON", slug="mcp-arguments", hint="""Write an object, such as '{"name": "value"}'."""
    )


class _Call:
    """One call.

    Args:
        approved: Whether the user has approved it in advance.
    """

    def __init__(self, server: str, tool: str, arguments: Mapping[str, Any], *, approved: bool) -> None:
        self._server = server
        self._tool = tool
        self._arguments = arguments
        self._approved = approved
        self._result: Mapping[str, Any] | None = None
        self._refusal: CodexError | None = None
        self._kept: list[str] | None = []

    async def result(self, plugin: PluginContext) -> Mapping[str, Any]:
        """Make the call, and return its result as the server gave it.

        Raises:
            CodexError: The server or the tool does not exist, or the call was refused or failed.
        """
        from codex_plugin_mcp.cli.thread import opened

        async with opened(
            plugin,
            [self._server],
            on_event=self._on_event,
            on_request=self._answer,
            approval_policy="on-request" if self._approved else None,
        ) as thread:
            connections = await thread.connections()
            connection = connections.pool.connections[self._server]
            self._started(connection)
            output = await thread.run(lambda turn: self._made(turn, connections.tools(turn.facts)))
        if self._refusal is not None:
            raise self._refusal
        if self._result is None:  # refused by an interceptor or a policy
            raise CodexError(f"the call was not made: {paragraph(str(output))}", slug="mcp")
        if "Ok" not in self._result:
            raise CodexError(paragraph(str(self._result.get("Err"))), slug="mcp")
        found: Mapping[str, Any] = self._result["Ok"]
        return found

    async def _made(self, turn: TaskContext, tools: Any) -> object:
        from codex_plugin_mcp.cli.decisions import decision_of
        from codex_plugin_mcp.tools import McpTool

        offered = [tool for tool in tools if isinstance(tool, McpTool)]
        found = next((tool for tool in offered if self._tool == tool.name.tool), None)
        found = found or next((tool for tool in offered if self._tool == tool.spec.name), None)
        if found is None:
            from codex_framework.toolkit.suggestions import did_you_mean

            names = [printable(tool.name.tool) for tool in offered]
            raise ConfigError(
                f"the MCP server {self._server!r} offers the model no tool {self._tool!r}",
                path="TOOL",
                slug="mcp-unknown",
                hint=f"{did_you_mean(self._tool, names)}`codex-framework mcp tools {self._server}` lists its tools.",
            )
        if decision_of(found.connection.server, found.raw, turn.facts) == "refuse":
            raise self._unapproved("the approval policy does not allow asking")
        return (await turn.call_tool(found.spec.name, self._arguments)).content

    def _unapproved(self, why: str) -> CodexError:
        return CodexError(
            f"the call of {self._tool!r} needs approval, and {why}",
            slug="mcp-approval",
            hint="Add --yes to approve it.",
        )

    def _on_event(self, event: EventMsg) -> None:
        match event.type:
            case "mcp_tool_call_end":
                self._result = event.result  # type: ignore[attr-defined]
            case "tool_call_progress":
                done, text = event.done, event.text  # type: ignore[attr-defined]
                share = "" if done is None else f"{done:.0%} "
                click.echo(f"progress: {share}{printable(text)}".rstrip(), err=True)
            case "warning":
                self._warn(event.message)  # type: ignore[attr-defined]

    def _warn(self, text: str) -> None:
        """Print a warning. Until the server has started it is kept, since the reason why it does not start is an error."""
        if self._kept is None:
            click.echo(f"warning: {paragraph(text)}", err=True)
        else:
            self._kept.append(text)

    def _started(self, connection: Connection) -> None:
        kept, self._kept = self._kept or (), None
        for text in kept:
            if text != connection.error:
                self._warn(text)
        if connection.session is None:
            raise CodexError(
                paragraph(connection.error),
                slug="mcp",
                hint=f"`codex-framework mcp get {connection.name}` shows its settings.",
            )

    async def _answer(self, request: Request[Any]) -> object:
        if not isinstance(request, ApprovalRequest):
            return await answer(request, at_terminal())
        if self._approved:
            return ReviewDecision(Decision.APPROVED)
        if not at_terminal():
            self._refusal = self._unapproved("there is no terminal to ask on")
            return ReviewDecision(Decision.DENIED)
        return ReviewDecision(await _ask_user(request))


async def _ask_user(request: ApprovalRequest) -> Decision:
    """Ask on the terminal. ^C and the end of input count as no."""
    if isinstance(request, ToolApprovalRequestEvent):  # the session ends with this call
        request = request.evolve(approval=request.approval.evolve(key=None))
    always = "/[a]lways" if "approved_always" in answer_labels(request) else ""
    word = (await line_of(f"{approval_question(request)}\n[y]es{always}/[N]o: ")).strip().lower()
    if word in ("a", "always"):
        return Decision.APPROVED_ALWAYS
    return Decision.APPROVED if word in ("y", "yes") else Decision.DENIED


def _result_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the result for people: texts unchanged, and one line for each other part."""
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    if not blocks and result.get("structuredContent") is not None:
        yield json.dumps(result["structuredContent"], indent=2)
    for block in blocks:
        yield block_text(block)
