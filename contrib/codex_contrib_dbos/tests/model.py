"""A model on loopback that works through the steps of its prompt: ``python tests/model.py`` prints its address, and ends with stdin.

The prompt is JSON: {"name": TEXT, "steps": N, "pause_s": S, "ask": BOOL, "die_at": N, "fails": BOOL, "command": TEXT}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from codex_framework.testing import Reply, ResponsesServer, call, fault, say


def reply_to(request: Any) -> Reply:
    """Return the call of the next step. A step whose output was lost is checked before it is repeated."""
    items = request.json["input"]
    texts = [part["text"] for item in items if item.get("role") == "user" for part in item["content"]]
    task = json.loads(next(text for text in texts if text.startswith("{")))
    if task.get("fails") and texts[-1].startswith("{"):  # until it is continued
        return fault(status=503)
    if "command" in task and items[-1]["type"] == "message":
        return call("exec_command", cmd=task["command"])
    outputs = {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}
    calls = [item for item in items if item["type"] == "function_call"]
    begun = {json.loads(item["arguments"])["step"]: outputs.get(item["call_id"]) for item in calls}
    for step in range(1, task["steps"] + 1):
        if begun.get(step) != "done":
            arguments = {key: task.get(key, 0) for key in ("pause_s", "die_at")}
            name = "ask_first" if task.get("ask") else "act"
            arguments["attempt"] = 2 if step in begun else 1
            return call(name, call_id=f"call_{len(calls)}", name=task["name"], step=step, **arguments)
    return say(f"{task['name']}: {task['steps']} steps")


def main() -> None:
    """Serve until stdin ends."""

    def reply(request: Any) -> Reply:
        server.requests.clear()
        return reply_to(request)

    with ResponsesServer([reply], repeat_last=True) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
