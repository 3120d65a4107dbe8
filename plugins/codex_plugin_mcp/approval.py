"""Whether a call of a tool needs approval: by the configured mode, the tool's annotations and the turn's permissions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from codex_framework import Approval, ApprovalPolicy, ToolError, TurnFacts
from codex_framework.contract.protocol.policies import GranularApproval
from codex_plugin_mcp.servers import ServerConfig
from codex_plugin_mcp.texts import one_line

__all__ = ["NEVER_ASKED", "NOT_ASKED", "approval_for", "is_risky", "promises"]

NEVER_ASKED = "MCP tool call requires approval, but approval policy is never"
"""The text for the model if no user may be asked (Codex's sentence)."""

NOT_ASKED = "MCP tool call requires approval, but approval policy does not allow questions about MCP servers"

_PROMISES = ("name", "title", "description", "inputSchema", "annotations")
_DIGEST = 16


def promises(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a tool's description by which the user and the model decide about a call."""
    return {key: tool[key] for key in _PROMISES if key in tool}


def is_risky(annotations: Mapping[str, Any]) -> bool:
    """Return whether a tool's annotations require approval in the mode ``auto``.

    A destructive tool does, whatever else it says; a reading one does not. Any other does, unless it says that it neither
    destroys anything nor reaches the outside.
    """
    destructive = annotations.get("destructiveHint")
    if destructive is True:
        return True
    if annotations.get("readOnlyHint") is True:
        return False
    return destructive is not False or annotations.get("openWorldHint") is not False


def approval_for(server: ServerConfig, tool: Mapping[str, Any], arguments: str, turn: TurnFacts) -> Approval | None:
    """Return the approval that a call requires, or None.

    Args:
        tool: The tool as the server describes it.
        arguments: The call's arguments as text.

    Raises:
        ToolError: An approval is required, and the approval policy is ``never``, or granular without ``mcp_elicitations``.
    """
    name = tool["name"]
    mode = server.tool_approval_mode(name)
    annotations = tool.get("annotations")
    hints = annotations if isinstance(annotations, Mapping) else {}
    only_reads = hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True
    if mode == "approve" or (mode == "auto" and not is_risky(hints)) or (mode == "writes" and only_reads):
        return None
    if turn.approval_policy is ApprovalPolicy.NEVER:
        if turn.access.full:
            return None
        raise ToolError(NEVER_ASKED)
    if isinstance(turn.approval_policy, GranularApproval) and not turn.approval_policy.mcp_elicitations:
        raise ToolError(NOT_ASKED)
    shown = one_line(name).replace("`", "'")
    title = hints.get("title") or tool.get("title")
    return Approval(
        question=f"Allow the MCP server `{server.name}` to run the tool `{shown}`?",
        details={
            "codex_approval_kind": "mcp_tool_call",
            "server": server.name,
            "tool_name": name,
            "tool_title": title if isinstance(title, str) else None,
            "tool_params": arguments,
            "annotations": dict(hints),
        },
        key=_key(server, tool),
        always=True,
    )


def _key(server: ServerConfig, tool: Mapping[str, Any]) -> str:
    """Return the key of the approval: this tool of this server, with its current description."""
    approved = [server.name, server.command, server.args, server.url, promises(tool)]
    digest = hashlib.sha256(json.dumps(approved, sort_keys=True).encode()).hexdigest()[:_DIGEST]
    return f"{server.name}/{tool['name']}#{digest}"
