"""The reviewer, which asks the hooks of ``PermissionRequest`` before the user is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import (
    ApprovalRequest,
    ApprovalReviewer,
    CallView,
    Decision,
    FunctionCall,
    ReviewDecision,
    ToolCall,
    TurnContext,
)
from codex_framework.contract.protocol.items import CustomToolCall
from codex_plugin_hooks.calls import MadeCalls, call_view
from codex_plugin_hooks.definitions import Definitions
from codex_plugin_hooks.firing import Fired, Hooks, common

__all__ = ["HookReviewer"]


class HookReviewer(ApprovalReviewer):
    """Approves or denies what hooks decide. Without a decision the user is asked."""

    name = "user-hooks"
    order = 50

    def __init__(self, definitions: Definitions) -> None:
        self._hooks = Hooks(definitions, "PermissionRequest")
        self.time_limit_s = self._hooks.longest_s + 10.0  # the hooks' own limits decide

    async def review(self, request: ApprovalRequest, turn: TurnContext) -> ReviewDecision | None:
        """Run the hooks for one request."""
        view = _view(request, turn)
        handlers = self._hooks.selected("PermissionRequest", (view.name, *view.aliases))
        fields = {**common("PermissionRequest", turn), "tool_name": view.name, "tool_input": dict(view.arguments)}
        return _combine_decisions(await self._hooks.fire(handlers, turn, fields, suffix=request.call_id))


def _combine_decisions(fired: list[Fired]) -> ReviewDecision | None:
    """Return the decision of some hooks: the first refusal, else an approval."""
    for each in fired:
        if each.verdict.reason is not None:
            return ReviewDecision(Decision.DENIED, message=each.verdict.reason)
    return ReviewDecision(Decision.APPROVED) if any(each.verdict.allows for each in fired) else None


def _view(request: ApprovalRequest, turn: TurnContext) -> CallView:
    """Return what needs the approval: the call, with the reason for asking."""
    argv: Any = getattr(request, "command", None) or ()
    if argv[:1] == ("network-access",):  # a command that is running wants to reach a host
        view, reason = _of_call(request, turn), " ".join(map(str, argv))
    else:
        view = (_of_command(request, argv) if argv else None) or _of_call(request, turn)
        reason = _reason(request) or ""
    return view.evolve(arguments={**view.arguments, "description": reason}) if reason else view


def _of_command(request: ApprovalRequest, argv: Sequence[str]) -> CallView | None:
    """Return the view of a command. It can differ from the call's view, because a tool may run several commands."""
    from codex_framework.toolkit.command_views import argv_view

    return argv_view(ToolCall(request.call_id, "shell", json.dumps({"command": list(argv)})))


def _of_call(request: ApprovalRequest, turn: TurnContext) -> CallView:
    made = turn.thread.state(MadeCalls, MadeCalls).get(request.call_id)
    if made is not None:
        return call_view(made, turn)
    for item in reversed(turn.history):
        if getattr(item, "call_id", None) != request.call_id:
            continue
        if isinstance(item, FunctionCall):
            return call_view(ToolCall(item.call_id, item.name, item.arguments), turn)
        if isinstance(item, CustomToolCall):
            return call_view(ToolCall(item.call_id, item.name, item.input, "custom"), turn)
    tool = getattr(request, "tool", request.type.removesuffix("_request"))
    return CallView(name=str(tool), arguments=_details(request))


def _details(request: ApprovalRequest) -> Mapping[str, Any]:
    approval = getattr(request, "approval", None)
    return {} if approval is None else dict(approval.details)


def _reason(request: ApprovalRequest) -> str | None:
    approval = getattr(request, "approval", None)
    return getattr(request, "reason", None) if approval is None else approval.question
