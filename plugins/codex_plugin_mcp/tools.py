"""A tool of a server, as a tool for the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from codex_framework import (
    Approval,
    CallView,
    FunctionSpec,
    InputText,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolNamespace,
    ToolOutput,
    TurnContext,
    TurnFacts,
    __version__,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.strict_json import strict_json
from codex_plugin_mcp.approval import approval_for, promises
from codex_plugin_mcp.connection import Connection
from codex_plugin_mcp.errors import ConnectionFailed, McpError, RequestTimedOut, ServerError
from codex_plugin_mcp.naming import ToolName
from codex_plugin_mcp.records import CallRecord
from codex_plugin_mcp.results import for_model, heading, limit_tokens
from codex_plugin_mcp.texts import one_line, plain
from codex_plugin_mcp.tool_lists import describe_tool

__all__ = ["McpTool"]

_MAX_ABOUT = 8_000
"""Longest instructions of a server that models read, in characters."""

_SANDBOX_STATE = "codex/sandbox-state-meta"


class McpTool(Tool):
    """One tool of a server.

    Args:
        raw: The tool as the server describes it.
        exposure: As for ``Tool``.
    """

    tells_clients = True

    def __init__(
        self,
        connection: Connection,
        name: ToolName,
        raw: Mapping[str, Any],
        exposure: Literal["direct", "deferred", "hidden"] = "direct",
    ) -> None:
        description, parameters = describe_tool(raw)
        self.connection = connection
        self.name = name
        self.raw = raw
        self.spec = FunctionSpec(
            name.full,
            description,
            parameters,
            namespace=ToolNamespace(name.namespace, _about(connection, name)),
            local_name=name.local,
        )
        self.exposure = exposure
        self.keywords = _text(raw.get("title")) or _text(_mapping(raw.get("annotations")).get("title"))
        self.source = _source(connection)
        self.parallel_safe = connection.server.supports_parallel_tool_calls

    def needs_approval(self, call: ToolCall, turn: TurnFacts) -> Approval | None:
        """Return the approval that the configuration and the tool's annotations require."""
        return approval_for(self.connection.server, self.raw, call.arguments, turn)

    async def allow_always(self, call: ToolCall, turn: TurnContext) -> None:  # noqa: ARG002  # the role's
        """Save the approval mode ``approve`` for the tool in the user's ``config.toml``."""
        await self.connection.remember_approval(self.name.tool)

    def refused(self, call: ToolCall, context: ToolContext, why: str) -> None:
        """Report the call to clients as failed."""
        record = self._record(call, context)
        record.begin()
        record.failed(why)

    def view(self, call: ToolCall) -> CallView | None:
        """Return the call under the name ``mcp__server__tool``."""
        try:
            arguments = _arguments(call.arguments)
        except ToolError:
            arguments = {}
        return CallView(
            name=self.name.full, arguments=arguments, server=self.name.server, read_only=self._says_read_only
        )

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with other arguments."""
        return call.evolve(arguments=json.dumps(arguments))

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Call the tool on its server."""
        record = self._record(call, context)
        record.begin()
        try:
            with context.span("mcp.call", server=self.name.server, tool=self.name.tool) as span:
                meta = self._meta(call, context, None if span.trace is None else span.trace.traceparent)
                result = await self.connection.call_tool(
                    self.name.tool,
                    _arguments(call.arguments),
                    context,
                    meta,
                    check=lambda tool: self._check_unchanged(tool, call, context),
                )
        except (McpError, ToolError) as error:
            text = self._failure(error)
            return ToolOutput((InputText(heading(record.failed(text))), InputText(text)), success=False)
        except BaseException:
            record.failed("the call was interrupted")
            raise
        success = result.get("isError") not in (True, "true")
        content = for_model(result, record.ended(result, success=success), context.model)
        limit = self.connection.server.output_token_limit(self.name.tool)
        if limit is None:
            return ToolOutput(content, success=success, result=result)
        return ToolOutput(limit_tokens(content, limit), success=success, result=result, truncate=False)

    @property
    def _says_read_only(self) -> bool | None:
        hint = _mapping(self.raw.get("annotations")).get("readOnlyHint")
        return hint if isinstance(hint, bool) else None

    def _record(self, call: ToolCall, context: ToolContext) -> CallRecord:
        read_only = self._says_read_only is True
        return CallRecord(self.name.server, self.name.tool, call, context, read_only=read_only)

    def _check_unchanged(self, tool: Mapping[str, Any] | None, call: ToolCall, context: ToolContext) -> None:
        """Refuse a call that requires approval, if the tool differs from the offered and approved tool.

        Args:
            tool: The tool's current description on the server, or None if it is no longer listed.
        """
        if tool is None or promises(tool) == promises(self.raw):
            return
        if approval_for(self.connection.server, tool, call.arguments, context.turn.facts) is not None:
            raise ToolError(
                f"the tool `{self.name.full}` has changed since it was offered, and was not called."
                " Read its new description, and call it again if it still fits."
            )

    def _failure(self, error: McpError | ToolError) -> str:
        called = f"tool call error: tool call failed for `{self.name.server}/{self.name.tool}`\n\nCaused by:\n    "
        match error:
            case ServerError():
                return f"{called}{error.whole_text()}"
            case RequestTimedOut():
                limit = f"{self.connection.server.tool_timeout_sec:g}"
                return f"{called}timed out awaiting tools/call after {limit} seconds (`tool_timeout_sec`)"
            case ConnectionFailed():
                return f"{called}the connection to the MCP server `{self.name.server}` was lost: {error}"
        return f"{called}{error}"

    def _meta(self, call: ToolCall, context: ToolContext, traceparent: str | None) -> dict[str, Any]:
        """Return the ``_meta`` of the call: who calls, as Codex sends it."""
        turn = context.turn.facts
        policy = to_wire(turn.sandbox_policy)
        effort = context.turn.thread.settings.reasoning_effort or turn.model.default_effort
        meta: dict[str, Any] = {
            "callId": call.call_id,
            "threadId": context.thread_id,
            "sessionId": context.thread_id,
            "x-codex-turn-metadata": {
                "session_id": context.thread_id,
                "thread_id": context.thread_id,
                **({} if effort is None else {"reasoning_effort": effort}),
                "turn_id": context.turn_id,
                "model": turn.model.slug,
                "sandbox_mode": policy.get("type") if isinstance(policy, dict) else None,
                "codex_version": __version__,
            },
            **({} if call.item_id is None else {"itemId": call.item_id}),
        }
        if traceparent is not None:
            meta["traceparent"] = traceparent
        if self.connection.wants_sandbox_state:
            meta[_SANDBOX_STATE] = {
                "permissionProfile": to_wire(turn.permissions.profile),
                "sandboxPolicy": policy,
                "sandboxCwd": turn.cwd.as_uri(),
                "codexLinuxSandboxExe": None,
                "useLegacyLandlock": False,
            }
        return meta


def _about(connection: Connection, name: ToolName) -> str:
    """Return the server's instructions, which models read as the description of its namespace."""
    session = connection.session
    about = "" if session is None else plain(session.instructions, _MAX_ABOUT).strip()
    return about or f"Tools in the {name.namespace} namespace."


def _source(connection: Connection) -> str:
    """Return one line about the server, for a search of tools."""
    session = connection.session
    about = "" if session is None else session.instructions or _text(session.server_info.get("title"))
    return one_line(f"{connection.name}: {about}".rstrip(": "))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        arguments = strict_json(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ToolError(f"failed to parse function arguments: {error}") from error
    if not isinstance(arguments, dict):
        raise ToolError(f"MCP tool arguments must be a JSON object, got {text[:200]}")
    return arguments
