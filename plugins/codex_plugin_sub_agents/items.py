"""The items that clients see for calls of the tools (wire: ``CollabAgentToolCall``), and the older events that say the same."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import EventMsg, ToolContext
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent
from codex_plugin_sub_agents.older_events import older_end, older_start
from codex_plugin_sub_agents.status import Status, is_trouble
from codex_plugin_sub_agents.tree import Member

__all__ = ["CallItem", "tell"]


class CallItem:
    """The item of one call.

    Args:
        tool: The word for the tool in items.
        receivers: The ids of the agents that the call affects.
        members: The open agents among them.
        about: Further fields.
    """

    def __init__(
        self,
        context: ToolContext,
        tool: str,
        receivers: Sequence[str],
        prompt: str | None = None,
        members: Sequence[Member] = (),
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._context = context
        self._fields: dict[str, Any] = {
            "type": "CollabAgentToolCall",
            "id": context.call_id,
            "tool": tool,
            "sender_thread_id": context.thread_id,
            **(about or {}),
        }
        self._prompt = {} if prompt is None else {"prompt": prompt}
        self._receivers = list(receivers)
        item = {**self._fields, "status": "in_progress", "receiver_thread_ids": self._receivers, **self._prompt}
        item |= {"receiver_agents": _agents(members)} if members else {}
        item["agents_states"] = {}
        now = _now_ms()
        context.emit(ItemStartedEvent(context.thread_id, context.turn_id, item, now))
        tell(context, older_start(item, now))

    def end(
        self,
        states: Mapping[str, Status],
        *,
        members: Sequence[Member] = (),
        failed: bool = False,
    ) -> None:
        """Complete the item.

        Args:
            states: The status of each agent by id.
            members: The agents that are open.
            failed: Whether the call failed. It also counts as failed if one of the agents did.
        """
        failed = failed or any(is_trouble(status) for status in states.values())
        item = {
            **self._fields,
            "status": "failed" if failed else "completed",
            "receiver_thread_ids": list(states) or self._receivers,
            "receiver_agents": _agents(members),
            **self._prompt,
            "agents_states": dict(states),
        }
        context, now = self._context, _now_ms()
        context.emit(ItemCompletedEvent(context.thread_id, context.turn_id, item, now))
        tell(context, older_end(item, now))


def tell(context: ToolContext, event: EventMsg | None) -> None:
    """Tell clients of a thread an event, if there is one."""
    if event is not None:
        context.emit(event)


def _agents(members: Sequence[Member]) -> list[dict[str, str]]:
    return [
        {"thread_id": member.id, "agent_nickname": member.name}
        | ({} if member.role is None else {"agent_role": member.role})
        for member in members
    ]


def _now_ms() -> int:
    return int(time.time() * 1000)
