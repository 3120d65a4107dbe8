"""The reports about a review for clients, and refused actions that the user can approve later."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import TurnContext
from codex_framework.contract.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    ToolApprovalRequestEvent,
)
from codex_plugin_guardian.action import Request
from codex_plugin_guardian.events import GuardianAssessmentEvent

__all__ = ["Refused", "action_of", "tell"]

_MOST_REFUSED = 100


class Refused:
    """The refused actions of a thread.

    Attributes:
        approved: The actions that the user has approved since. Each approval counts for one request.
    """

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.approved: set[str] = set()

    def add(self, review_id: str, key: str, action: Mapping[str, Any]) -> None:
        """Remember a refused action. Only the newest ones are kept."""
        self._refused[review_id] = key, action
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]

    def approve(self, review_id: str) -> Mapping[str, Any] | None:
        """Approve a refused action, once. Return it, or None."""
        found = self._refused.pop(review_id, None)
        if found is None:
            return None
        self.approved.add(found[0])
        return found[1]

    def take(self, key: str) -> bool:
        """Use the approval of an action. Return whether there was one."""
        approved = key in self.approved
        self.approved.discard(key)
        return approved


def action_of(request: Request, cwd: Path) -> dict[str, Any]:
    """Return an action in Codex's form for clients."""
    if isinstance(request, ApplyPatchApprovalRequestEvent):
        return {"type": "apply_patch", "cwd": str(cwd), "files": list(request.changes)}
    if isinstance(request, ToolApprovalRequestEvent):
        parts = request.tool.split("__", 2)
        server, name = parts[1:] if len(parts) == 3 and parts[0] == "mcp" else ("", request.tool)
        return {"type": "mcp_tool_call", "server": server, "tool_name": name}
    return _of_command(request)


def _of_command(request: ExecApprovalRequestEvent) -> dict[str, Any]:
    network = request.network_approval_context
    if network is not None:
        known = {key: network[key] for key in ("host", "protocol", "port") if network.get(key) is not None}
        return {"type": "network_access", "target": str(network.get("host", "")), **known}
    command = shlex.join(request.command)
    return {"type": "command", "source": "unified_exec", "command": command, "cwd": request.cwd}


def tell(turn: TurnContext, begun: GuardianAssessmentEvent, **changes: Any) -> GuardianAssessmentEvent:
    """Send clients the current state of a review, and return the event."""
    event = begun.evolve(**changes)
    turn.emit(event)
    return event
