"""The ``update_plan`` tool."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework import Argument, FunctionSpec, ToolCall, ToolContext, ToolOutput, TurnFacts, parse_arguments
from codex_framework.contract.protocol.events.turn import PlanStep, PlanUpdateEvent

__all__ = ["UpdatePlan"]

_STATUSES = ("pending", "in_progress", "completed")

_FIELDS = {
    "explanation": Argument("string"),
    "plan": Argument(
        "objects",
        required=True,
        fields={
            "step": Argument("string", required=True),
            "status": Argument("string", required=True, choices=_STATUSES),
        },
    ),
}

_PARAMETERS = {
    "type": "object",
    "properties": {
        "explanation": {"type": "string", "description": "Why the plan has changed, if it has."},
        "plan": {
            "type": "array",
            "description": "All steps, in order.",
            "items": {
                "type": "object",
                "properties": {
                    "step": {"type": "string", "description": "What is done in this step, in a few words."},
                    "status": {"type": "string", "enum": list(_STATUSES)},
                },
                "required": ["step", "status"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["plan"],
    "additionalProperties": False,
}


class UpdatePlan:
    """Shows the model's plan to people. Offered unless config says ``tools.update_plan = {enabled = false}``."""

    parallel_safe = True
    tells_clients = True
    spec = FunctionSpec(
        "update_plan",
        "Shows your plan for the task to the user, and how far you are. Each call replaces the whole plan. At most one step is "
        "in_progress at a time. Use it for work of several steps; update it as soon as a step is done.",
        _PARAMETERS,
    )

    def offered(self, facts: TurnFacts) -> bool:
        """Unless switched off: ``tools.update_plan`` is false, or a table with ``enabled = false``."""
        tools = facts.config.get("tools")
        setting = tools.get("update_plan") if isinstance(tools, Mapping) else None
        if isinstance(setting, Mapping):
            setting = setting.get("enabled")
        return setting is not False

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Carry out one call."""
        arguments = parse_arguments(call.arguments, _FIELDS)
        steps = tuple(PlanStep(item["step"], item["status"]) for item in arguments["plan"])
        context.emit(PlanUpdateEvent(steps, arguments.get("explanation")))
        return ToolOutput("Plan updated", truncate=False)
