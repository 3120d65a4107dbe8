"""Commands of a thread that run in the background."""

from __future__ import annotations

from typing import Any

from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method(
    "thread/backgroundTerminals/list",
    "ThreadBackgroundTerminalsListParams",
    "ThreadBackgroundTerminalsListResponse",
    stability="experimental",
)
async def list_terminals(call: Call) -> Json:
    """List the commands that run in the background, by their ids."""
    cursor, limit = call.params.get("cursor"), call.params.get("limit")
    after = -1 if cursor is None else _number(cursor, "invalid cursor")
    found = [_terminal_json(one) for one in (await _answer(call, "list_background_terminals"))["terminals"]]
    rest = [one for one in found if int(one["processId"]) > after]
    page = rest if limit is None else rest[: max(limit, 1)]
    return {"data": page, "nextCursor": page[-1]["processId"] if len(page) < len(rest) else None}


@table.method(
    "thread/backgroundTerminals/terminate",
    "ThreadBackgroundTerminalsTerminateParams",
    "ThreadBackgroundTerminalsTerminateResponse",
    stability="experimental",
)
async def terminate(call: Call) -> Json:
    """End a command that runs in the background."""
    number = _number(call.params["processId"], "invalid background terminal process id")
    return {"terminated": (await _answer(call, "terminate_background_terminal", process_id=number))["terminated"]}


async def _answer(call: Call, op: str, **fields: Any) -> Json:
    """Return the event that answers an op, as JSON data."""
    loaded = call.server.thread(call.params["threadId"])
    _, events = await loaded.run_op(call, call.server.kernel.op(op, **fields))
    return next(to_wire(event.msg) for event in events if event.msg.type.startswith("background_terminal"))


def _terminal_json(terminal: Json) -> dict[str, Any]:
    return {
        "itemId": terminal["call_id"],
        "processId": str(terminal["process_id"]),
        "command": terminal["command"],
        "cwd": terminal["cwd"],
        "osPid": None,
        "cpuPercent": None,
        "rssKb": None,
    }


def _number(text: str, fault: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise RpcError(f"{fault}: invalid digit found in string")
    return int(text)
