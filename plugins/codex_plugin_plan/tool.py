"""The ``update_plan`` tool."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)

__all__ = ["UpdatePlan"]

_ARGUMENTS = {
    "explanation": Argument("string", "Why the plan has changed, if it has."),
    "plan": Argument(
        "objects",
        "All steps, in order.",
        required=True,
        fields={
            "step": Argument("string", "What is done in this step, in a few words.", required=True),
            "status": Argument("string", required=True, choices=("pending", "in_progress", "completed")),
        },
    ),
}


class UpdatePlan(Tool):
    """Shows the model's plan to the user. Offered with ``tools.update_plan = {enabled = true}``."""

    parallel_safe = True
    reads = frozenset({"config"})
    tells_clients = True
    spec = FunctionSpec(
        "update_plan",
        "Shows your plan for the task to the user, and how far you are. Each call replaces the whole plan. At most one step is "
        "in_progress at a time. Use it for work of several steps; update it as soon as a step is done.",
        arguments_schema(_ARGUMENTS),
    )

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether ``tools.update_plan`` is true or a table with ``enabled = true``."""
        tools = turn.config.get("tools")
        setting = tools.get("update_plan") if isinstance(tools, Mapping) else None
        if isinstance(setting, Mapping):
            setting = setting.get("enabled")
        return setting is True

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_framework.contract.protocol.events.turn import PlanStep, PlanUpdateEvent

        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        steps = tuple(PlanStep(item["step"], item["status"]) for item in arguments["plan"])
        context.emit(PlanUpdateEvent(steps, arguments.get("explanation")))
        return ToolOutput("Plan updated", truncate=False)
