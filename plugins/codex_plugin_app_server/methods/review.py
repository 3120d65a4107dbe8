"""Reviews of code."""

from __future__ import annotations

from typing import Any

from codex_plugin_app_server.notifications import turn_json
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method("review/start", "ReviewStartParams", "ReviewStartResponse")
async def start_review(call: Call) -> Json:
    """Review changes, as a turn of the thread."""
    loaded = call.server.thread(call.params["threadId"])
    target = dict(call.params["target"])
    op = call.server.kernel.op("review", review_request={"target": target})
    turn_id, _ = await loaded.run_op(call, op)
    content = [{"type": "text", "text": _hint(target), "text_elements": []}]
    asked = {"type": "userMessage", "id": turn_id, "clientId": None, "content": content}
    turn = turn_json(turn_id, "inProgress", items=({**asked, "startedAtMs": None, "completedAtMs": None},))
    return {"turn": {**turn, "rootTurnId": None, "itemsView": "notLoaded"}, "reviewThreadId": loaded.id}


def _hint(target: dict[str, Any]) -> str:
    """Return the subject of the review, in a few words."""
    match target["type"]:
        case "uncommittedChanges":
            return "current changes"
        case "baseBranch":
            return f"changes against '{target['branch']}'"
        case "commit":
            title = target.get("title")
            return f"commit {target['sha'][:7]}" + (f": {title}" if title else "")
        case _:
            return str(target.get("instructions", "")).strip()
