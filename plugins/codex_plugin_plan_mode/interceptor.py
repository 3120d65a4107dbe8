"""The interceptor of plan mode."""

from __future__ import annotations

from codex_framework import Interceptor, MessageView, ModelRequest, ToolCall, ToolRefused, TurnContext, TurnFacts

__all__ = ["PlanEffort", "PlanMode"]

_CHECKLIST = "update_plan is a TODO/checklist tool and is not allowed in Plan mode"


class PlanMode(Interceptor):
    """Shows proposed plans as separate items, and refuses the checklist tool."""

    name = "plan-mode"

    def applies(self, turn: TurnFacts) -> bool:
        """Return whether the turn is in plan mode."""
        return turn.mode == "plan"

    def view_message(self, turn: TurnContext) -> MessageView | None:
        """Return a view that shows the plan of a message as a separate item.

        A sub-agent keeps the plan in its message, because the agent that started it reads nothing else.
        """
        if turn.facts.depth:
            return None
        from codex_plugin_plan_mode.plan_view import PlanView  # not at every start

        return PlanView(turn)

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
        """Refuse ``update_plan``."""
        if call.name == "update_plan":
            turn.because("plan mode")
            raise ToolRefused(_CHECKLIST)
        return call


class PlanEffort(Interceptor):
    """Asks for the effort of ``plan_mode_reasoning_effort``, unless the client has set one for the mode. Sub-agents keep their own."""

    name = "plan-effort"

    def applies(self, turn: TurnFacts) -> bool:
        """Return whether the turn is in plan mode and the configuration sets an effort for it."""
        mode = turn.collaboration_mode
        if mode is None or mode.kind != "plan" or turn.depth or mode.settings.reasoning_effort is not None:
            return False
        return bool(turn.config.get("plan_mode_reasoning_effort"))

    async def request(self, request: ModelRequest, turn: TurnContext) -> ModelRequest:
        """Return the request with that effort."""
        turn.because("plan mode")
        effort = turn.facts.config.get("plan_mode_reasoning_effort")
        return request.evolve(reasoning_effort=effort) if effort else request
