"""The interceptor of plan mode."""

from __future__ import annotations

import time

from codex_framework import Interceptor, Message, ResponseItem, ToolCall, ToolRefused, TurnContext, TurnFacts
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent
from codex_framework.contract.protocol.items import message_text

__all__ = ["PlanMode", "proposed_plan"]

_OPEN, _CLOSE = "<proposed_plan>", "</proposed_plan>"

_CHECKLIST = "update_plan is a TODO/checklist tool and is not allowed in Plan mode"


def proposed_plan(text: str) -> str | None:
    """Return the last proposed plan in a message, without its tags. None means that there is none.

    The tags stand at the beginning of lines. A plan that is not closed ends with the message.
    """
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if line.strip() == _OPEN]
    if not starts:
        return None
    rest = lines[starts[-1] + 1 :]
    end = next((number for number, line in enumerate(rest) if line.strip() == _CLOSE), len(rest))
    plan = "\n".join(rest[:end]).strip("\n")
    return plan if plan.strip() else None


class PlanMode(Interceptor):
    """Shows proposed plans as items, and refuses the checklist tool."""

    name = "plan-mode"

    def applies(self, turn: TurnFacts) -> bool:
        """Return whether the turn is in plan mode."""
        return turn.mode == "plan"

    async def after_item(self, item: ResponseItem, turn: TurnContext) -> ResponseItem:
        """Show the plan of a message as an item of its own. The message stays as it is, because the model must remember its plan."""
        if isinstance(item, Message) and item.role == "assistant":
            plan = proposed_plan(message_text(item))
            if plan is not None:
                _show(plan, turn)
        return item

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
        """Refuse ``update_plan``."""
        if call.name == "update_plan":
            turn.because("plan mode")
            raise ToolRefused(_CHECKLIST)
        return call


def _show(plan: str, turn: TurnContext) -> None:
    from codex_plugin_plan_mode.events import PlanDeltaEvent  # not at every start

    thread_id, turn_id = turn.facts.thread_id, turn.facts.turn_id
    item_id = f"{turn_id}-plan"
    now = int(time.time() * 1000)
    turn.emit(ItemStartedEvent(thread_id, turn_id, {"type": "Plan", "id": item_id, "text": ""}, now))
    turn.emit(PlanDeltaEvent(thread_id, turn_id, item_id, plan))
    turn.emit(ItemCompletedEvent(thread_id, turn_id, {"type": "Plan", "id": item_id, "text": plan}, now))
