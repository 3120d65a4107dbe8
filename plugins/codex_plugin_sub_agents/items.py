"""The items that clients see for calls of the tools (wire: ``CollabAgentToolCall``)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import ToolContext
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent
from codex_plugin_sub_agents.status import Status, is_trouble

__all__ = ["CallItem"]


class CallItem:
    """The item of one call.

    Args:
        tool: The word for the tool in items.
        receivers: The ids of the agents that the call is about.
    """

    def __init__(self, context: ToolContext, tool: str, receivers: Sequence[str], prompt: str | None = None) -> None:
        self._context = context
        self._fields: dict[str, Any] = {
            "type": "CollabAgentToolCall",
            "id": context.call_id,
            "tool": tool,
            "sender_thread_id": context.thread_id,
        }
        self._prompt = {} if prompt is None else {"prompt": prompt}
        item = {**self._fields, "status": "in_progress", "receiver_thread_ids": list(receivers), **self._prompt}
        self._receivers = list(receivers)
        context.emit(ItemStartedEvent(context.thread_id, context.turn_id, {**item, "agents_states": {}}, _now_ms()))

    def end(
        self,
        states: Mapping[str, Status],
        *,
        names: Mapping[str, str] | None = None,
        failed: bool = False,
        **more: Any,
    ) -> None:
        """Complete the item.

        Args:
            states: The status of each agent by id.
            names: The nicknames of agents by id.
            failed: Whether the call failed. It also counts as failed if one of the agents did.
        """
        failed = failed or any(is_trouble(status) for status in states.values())
        item = {
            **self._fields,
            "status": "failed" if failed else "completed",
            "receiver_thread_ids": list(states) or self._receivers,
            "receiver_agents": [{"thread_id": key, "agent_nickname": name} for key, name in (names or {}).items()],
            **self._prompt,
            **more,
            "agents_states": dict(states),
        }
        context = self._context
        context.emit(ItemCompletedEvent(context.thread_id, context.turn_id, item, _now_ms()))


def _now_ms() -> int:
    return int(time.time() * 1000)
