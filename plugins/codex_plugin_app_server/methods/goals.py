"""The goal of a thread."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import EventMsg
from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.methods.thread_records import load_stored
from codex_plugin_app_server.notifications import goal_json
from codex_plugin_app_server.server import Call, checked_id
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_GOAL = "thread_goal_updated"
"""The event of the plugin ``goals``."""


@table.method("thread/goal/set", "ThreadGoalSetParams", "ThreadGoalSetResponse")
async def set_goal(call: Call) -> Json:
    """Set or change the goal. An idle thread pursues an active goal immediately."""
    params = call.params
    loaded = call.server.thread(params["threadId"])
    fields = {"objective": "objective", "status": "status", "tokenBudget": "token_budget"}
    given = {field: params[name] for name, field in fields.items() if params.get(name) is not None}
    _, events = await loaded.run_op(call, call.server.kernel.op("thread_goal_set", **given))
    goal = _latest(event.msg for event in events)
    if goal is None:
        raise RpcError("the goal could not be set")
    return {"goal": goal}


@table.method("thread/goal/get", "ThreadGoalGetParams", "ThreadGoalGetResponse")
async def get_goal(call: Call) -> Json:
    """Return the goal, or null."""
    thread_id = checked_id(call.params["threadId"])
    return {"goal": await _goal_of(call, thread_id)}


@table.method("thread/goal/clear", "ThreadGoalClearParams", "ThreadGoalClearResponse")
async def clear_goal(call: Call) -> Json:
    """Remove the goal."""
    loaded = call.server.thread(call.params["threadId"])
    had_one = await _goal_of(call, loaded.id) is not None
    await loaded.run_op(call, call.server.kernel.op("thread_goal_clear"))
    return {"cleared": had_one}


async def _goal_of(call: Call, thread_id: str) -> Json | None:
    loaded = call.server.threads.get(thread_id)
    if loaded is not None and not loaded.thread.history:
        return None  # it has no record yet
    return _latest((await load_stored(call, thread_id)).events)


def _latest(events: Iterable[EventMsg]) -> Json | None:
    """Return the goal after some events."""
    goal = None
    for msg in events:
        if msg.type == _GOAL:
            goal = to_wire(msg).get("goal")
    return None if goal is None else goal_json(goal)
