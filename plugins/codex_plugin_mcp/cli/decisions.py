"""Whether a call runs immediately, asks first, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from codex_framework import ToolError, TurnFacts
from codex_framework.contract.protocol.policies import GranularApproval
from codex_plugin_mcp.approval import approval_for
from codex_plugin_mcp.servers import ServerConfig

__all__ = ["CallDecision", "decision_of"]

CallDecision: TypeAlias = Literal["run", "ask", "refuse"]
"""``refuse``: it needs an approval, and the approval policy does not allow asking."""


def decision_of(server: ServerConfig, tool: Mapping[str, Any], turn: TurnFacts) -> CallDecision:
    """Return what happens to a call in a turn, before interceptors and reviewers.

    Args:
        tool: The tool as the server describes it.
    """
    try:
        approval = approval_for(server, tool, "{}", turn)
    except ToolError:
        return "refuse"
    if approval is None:
        return "run"
    policy = turn.approval_policy
    return "refuse" if isinstance(policy, GranularApproval) and not policy.sandbox_approval else "ask"
