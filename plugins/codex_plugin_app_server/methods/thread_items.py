"""The turns and items of stored threads, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from codex_plugin_app_server.errors import INVALID_PARAMS, RpcError
from codex_plugin_app_server.items import camel, camel_keys
from codex_plugin_app_server.methods.thread_records import load_stored
from codex_plugin_app_server.pages import page_of_growing
from codex_plugin_app_server.server import Call, checked_id
from codex_plugin_app_server.table import Json, MethodTable
from codex_plugin_app_server.thread_json import turns_json

__all__ = ["table", "turns_page"]

table = MethodTable()

_MOST_READ = 100
_TURNS = 25
_TIMELINE = 100


@table.method("thread/turns/list", "ThreadTurnsListParams", "ThreadTurnsListResponse")
async def list_turns(call: Call) -> Json:
    """List the turns of a thread, the newest first."""
    return turns_page(await _turns(call), call.params)


def turns_page(turns: Sequence[Json], params: Json) -> Json:
    """Return a ``TurnsPage``. Raises RpcError."""
    view = params.get("itemsView") or "summary"
    if view != "full":
        turns = [{**turn, "items": _summary(turn["items"], view), "itemsView": view} for turn in turns]
    return page_of_growing(turns, params, direction="desc", most=_TURNS)


def _summary(items: list[Json], view: str) -> list[Json]:
    """Return the items of a turn that a view shows: the user's first message and the last answer, or none."""
    if view == "notLoaded":
        return []
    asked = next((item for item in items if item["type"] == "userMessage"), None)
    answered = next((item for item in reversed(items) if item["type"] == "agentMessage"), None)
    return [item for item in (asked, answered) if item is not None]


@table.method("thread/items/list", "ThreadItemsListParams", "ThreadItemsListResponse")
async def list_items(call: Call) -> Json:
    """List the items of a thread or of one of its turns, the oldest first."""
    params, wanted = call.params, call.params.get("turnId")
    entries = [_entry(turn, item) for turn in await _turns(call, wanted) for item in turn["items"]]
    if isinstance(params.get("cursor"), dict):
        params = {**params, "cursor": _place_beside(entries, params)}
    if wanted:
        entries = [_without_output(entry, params.get("deferOutput") or {}) for entry in entries]
    return page_of_growing(entries, params, direction="asc")


def _place_beside(entries: Sequence[Json], params: Json) -> int:
    """Return the start of the page that continues after an item, in its direction. Raises RpcError."""
    if not params.get("turnId"):
        raise RpcError("turnId is required when cursor is an item anchor", INVALID_PARAMS)
    ids = [entry["item"]["id"] for entry in entries]
    if params["cursor"]["itemId"] not in ids:
        raise RpcError("cursor.itemId does not identify an item in the requested history scope", INVALID_PARAMS)
    step = -1 if params.get("sortDirection") == "desc" else 1
    return ids.index(params["cursor"]["itemId"]) + step


def _without_output(entry: Json, deferred: Json) -> Json:
    """Return an entry without the output that the client fetches separately."""
    item = entry["item"]
    place = {"commandExecution": "aggregatedOutput", "mcpToolCall": "result"}.get(item["type"])
    if place is None or not deferred.get(item["type"]) or item["status"] != "completed" or not item[place]:
        return entry
    return {**entry, "item": {**item, place: None}, "outputDeferred": True}


@table.method("thread/items/read", "ThreadItemsReadParams", "ThreadItemsReadResponse", stability="experimental")
async def read_items(call: Call) -> Json:
    """Return some items of a turn."""
    wanted = set(call.params["itemIds"])
    if not 1 <= len(call.params["itemIds"]) <= _MOST_READ:
        raise RpcError(f"itemIds must contain 1 to {_MOST_READ} IDs")
    turns = await _turns(call, call.params["turnId"])
    return {"data": [_entry(turn, item) for turn in turns for item in turn["items"] if item["id"] in wanted]}


@table.method(
    "thread/timeline/list", "ThreadTimelineListParams", "ThreadTimelineListResponse", stability="experimental"
)
async def list_timeline(call: Call) -> Json:
    """List the items of a thread with the beginnings and ends of turns: the newest of them, in the order in which they happened."""
    entries = [{**entry, "position": place} for place, entry in enumerate(_timeline(await _turns(call)))]
    try:
        page = page_of_growing(entries, call.params, direction="desc", most=_TIMELINE)
    except RpcError:
        raise RpcError("invalid thread timeline cursor") from None
    return {"data": page["data"][::-1], "nextCursor": page["nextCursor"], "activeRealtimeSessionAtPageStart": None}


def _timeline(turns: Sequence[Json]) -> Iterator[dict[str, Any]]:
    for turn in turns:
        yield _boundary("turnStarted", turn, "started_at")
        for item in turn["items"]:
            yield {"type": "item", "turnId": turn["id"], "item": item}
        if turn["status"] != "inProgress":
            yield _boundary("turnCompleted", turn, "status", "error", "started_at", "completed_at", "duration_ms")


def _boundary(kind: str, turn: Json, *names: str) -> dict[str, Any]:
    """Return the beginning or end of a turn, under the names of Codex's server and of its schema, which differ."""
    shown = {"turn_id": turn["id"], **{name: turn[camel(name)] for name in names}}
    return {"type": kind, **shown, **camel_keys(shown)}


async def _turns(call: Call, turn_id: str | None = None) -> Sequence[Json]:
    """Return the turns of a thread, or the one with an id if there is one."""
    thread_id = checked_id(call.params["threadId"])
    stored = await load_stored(call, thread_id)
    turns = await asyncio.to_thread(turns_json, stored, call.server.running_turn(thread_id))
    return [turn for turn in turns if turn_id in (None, turn["id"])]


def _entry(turn: Json, item: Json) -> Json:
    """Return a ``ThreadItemEntry``."""
    times = {name: item[name] for name in ("startedAtMs", "completedAtMs")}
    return {"turnId": turn["id"], "item": item, **times}
