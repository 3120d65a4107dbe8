"""The older events that say the same as an item about agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import EventMsg
from codex_plugin_sub_agents import events
from codex_plugin_sub_agents.status import NOT_FOUND

__all__ = ["older_end", "older_start"]


def older_start(item: Mapping[str, Any], at_ms: int) -> EventMsg | None:
    """Return the older event for an item that has begun, if any.

    Args:
        item: An item ``CollabAgentToolCall``.
        at_ms: When it began, in unix milliseconds.
    """
    base = (str(item["id"]), at_ms, str(item["sender_thread_id"]))
    receivers = item["receiver_thread_ids"]
    match item["tool"]:
        case "spawn_agent":
            return events.CollabAgentSpawnBeginEvent(*base, _prompt(item), _model(item), item.get("reasoning_effort"))
        case "send_input":
            return events.CollabAgentInteractionBeginEvent(*base, receivers[0], _prompt(item))
        case "wait":
            return events.CollabWaitingBeginEvent(*base, tuple(receivers), tuple(item.get("receiver_agents", ())))
        case "close_agent":
            return events.CollabCloseBeginEvent(*base, receivers[0])
        case "resume_agent":
            return events.CollabResumeBeginEvent(*base, receivers[0])
        case _:
            return None


def older_end(item: Mapping[str, Any], at_ms: int) -> EventMsg | None:
    """Return the older event for a completed item, if any.

    Args:
        item: An item ``CollabAgentToolCall`` or ``SubAgentActivity``.
        at_ms: When it was completed, in unix milliseconds.
    """
    if item["type"] == "SubAgentActivity":
        about = (item["agent_thread_id"], item["agent_path"], item["kind"], item["model"], item["reasoning_effort"])
        return events.SubAgentActivityEvent(str(item["id"]), at_ms, *about)
    base = (str(item["id"]), at_ms, str(item["sender_thread_id"]))
    states = item["agents_states"]
    agents = {agent["thread_id"]: agent for agent in item["receiver_agents"]}
    if item["tool"] == "wait":
        entries = [{**agents.get(key, {"thread_id": key}), "status": status} for key, status in states.items()]
        return events.CollabWaitingEndEvent(*base, states, tuple(entries))
    if item["tool"] == "spawn_agent":
        thread_id = next(iter(states), None)
        status = NOT_FOUND if thread_id is None else states[thread_id]
        effort = item.get("reasoning_effort")
        about_agent = _about(agents, thread_id)
        return events.CollabAgentSpawnEndEvent(
            *base, _prompt(item), _model(item), status, thread_id, effort, *about_agent
        )
    receiver = item["receiver_thread_ids"][0]
    end = (states.get(receiver, NOT_FOUND), *_about(agents, receiver))
    match item["tool"]:
        case "send_input":
            return events.CollabAgentInteractionEndEvent(*base, receiver, _prompt(item), *end)
        case "close_agent":
            return events.CollabCloseEndEvent(*base, receiver, *end)
        case "resume_agent":
            return events.CollabResumeEndEvent(*base, receiver, *end)
        case _:
            return None


def _prompt(item: Mapping[str, Any]) -> str:
    return str(item.get("prompt") or "")


def _model(item: Mapping[str, Any]) -> str:
    return str(item.get("model") or "")


def _about(agents: Mapping[str, Mapping[str, Any]], thread_id: str | None) -> tuple[str | None, str | None]:
    agent = agents.get(thread_id or "", {})
    return agent.get("agent_nickname"), agent.get("agent_role")
