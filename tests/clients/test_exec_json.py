from __future__ import annotations

import json
from typing import Any

from codex_framework.testing.replies import call, custom_call, fault, reasoning, say

USAGE = {
    "input_tokens": 100,
    "cached_input_tokens": 10,
    "cache_write_input_tokens": 0,
    "output_tokens": 20,
    "reasoning_output_tokens": 5,
}


def doubled(usage: dict[str, int]) -> dict[str, int]:
    return {key: 2 * value for key, value in usage.items()}


def test_a_message_gives_these_lines_and_no_others(cli: Any) -> None:
    cli.serve(reasoning("**One**", "two") + say("Hello.", deltas=5))
    ran = cli.json("hi")
    assert ran.status == 0
    (thread_id,) = (event["thread_id"] for event in ran.events[:1])
    assert ran.events == [
        {"type": "thread.started", "thread_id": thread_id},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "**One**\ntwo"}},
        {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "Hello."}},
        {"type": "turn.completed", "usage": USAGE},
    ]


def test_a_command_begins_and_ends(cli: Any) -> None:
    cli.serve(call("exec_command", cmd="echo out; exit 3"), say("Done."))
    ran = cli.json("hi")
    assert ran.status == 0
    command = {"id": "item_0", "type": "command_execution", "command": "/bin/bash -lc 'echo out; exit 3'"}
    assert ran.events[2:4] == [
        {
            "type": "item.started",
            "item": {**command, "aggregated_output": "", "exit_code": None, "status": "in_progress"},
        },
        {
            "type": "item.completed",
            "item": {**command, "aggregated_output": "out\n", "exit_code": 3, "status": "failed"},
        },
    ]
    assert ran.events[-1] == {"type": "turn.completed", "usage": doubled(USAGE)}


def test_a_search_of_the_web_begins_and_ends(cli: Any) -> None:
    found = {"type": "search", "query": "rain"}
    begun = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
    page = {"type": "open_page", "url": "https://a.org/"}
    events = [
        {"type": "response.output_item.added", "item": begun},
        {"type": "response.output_item.done", "item": {**begun, "status": "completed", "action": found}},
        {"type": "response.output_item.done", "item": {**begun, "id": "ws_2", "action": page}},
    ]
    server = cli.serve(say("Done.") + fault(raw_before="".join(f"data: {json.dumps(event)}\n\n" for event in events)))
    ran = cli.json("-c", "web_search='live'", "hi")
    assert ran.status == 0
    first, second = ({"id": f"item_{number}", "type": "web_search"} for number in (0, 1))
    assert ran.events[2:6] == [
        {"type": "item.started", "item": {**first, "query": "", "action": {"type": "other"}}},
        {"type": "item.completed", "item": {**first, "query": "rain", "action": found}},
        {"type": "item.started", "item": {**second, "query": "https://a.org/", "action": page}},
        {"type": "item.completed", "item": {**second, "query": "https://a.org/", "action": page}},
    ]
    tools = [tool for tool in server.requests[0].json["tools"] if tool["type"] == "web_search"]
    assert [tool["external_web_access"] for tool in tools] == [True]


def test_a_patch_names_absolute_paths_in_order(cli: Any) -> None:
    (cli.work / "b.txt").write_text("old\n")
    patch = "*** Begin Patch\n*** Update File: b.txt\n@@\n-old\n+new\n*** Add File: a.txt\n+hi\n*** End Patch\n"
    cli.serve(custom_call("apply_patch", patch), say("Done."))
    ran = cli.json("-s", "workspace-write", "hi")
    changes = [
        {"path": str(cli.work / "a.txt"), "kind": "add"},
        {"path": str(cli.work / "b.txt"), "kind": "update"},
    ]
    assert ran.events[2:4] == [
        {
            "type": "item.started",
            "item": {"id": "item_0", "type": "file_change", "changes": changes, "status": "in_progress"},
        },
        {
            "type": "item.completed",
            "item": {"id": "item_0", "type": "file_change", "changes": changes, "status": "completed"},
        },
    ]
    assert (cli.work / "b.txt").read_text() == "new\n"


def test_a_plan_is_started_updated_and_completed_at_the_end(cli: Any) -> None:
    def plan(*statuses: str) -> Any:
        steps = [{"step": f"step {number}", "status": status} for number, status in enumerate(statuses)]
        return call("update_plan", plan=steps)

    cli.serve(plan("in_progress", "pending"), plan("completed", "in_progress"), say("Done."))
    ran = cli.json("-c", "tools.update_plan={enabled=true}", "hi")
    plans = [event for event in ran.events if event.get("item", {}).get("type") == "todo_list"]

    def shown(*completed: bool) -> dict[str, Any]:
        items = [{"text": f"step {number}", "completed": value} for number, value in enumerate(completed)]
        return {"id": "item_0", "type": "todo_list", "items": items}

    assert plans == [
        {"type": "item.started", "item": shown(False, False)},
        {"type": "item.updated", "item": shown(True, False)},
        {"type": "item.completed", "item": shown(True, False)},
    ]
    assert ran.types[-2:] == ["item.completed", "turn.completed"]


def test_an_unknown_model_is_told_before_the_turn(cli: Any) -> None:
    cli.serve(say("hi"))
    ran = cli.json("-m", "house-model", "hi")
    assert ran.types[:3] == ["thread.started", "item.completed", "turn.started"]
    (warning,) = ran.items("error")
    assert warning["message"].startswith("Model metadata for `house-model` not found.")


def test_a_broken_stream_is_told_and_tried_again(cli: Any) -> None:
    cli.serve(say("never") + fault(no_completed=True), say("Recovered."))
    ran = cli.json("hi")
    assert ran.status == 0
    errors = [event for event in ran.events if event["type"] == "error"]
    reason = "stream disconnected before completion: stream closed before response.completed"
    assert errors == [{"type": "error", "message": f"Reconnecting... 1/1 ({reason})"}]


def test_a_failed_turn_ends_with_turn_failed_and_status_1(cli: Any) -> None:
    cli.serve(fault(status=400, body={"error": {"message": "no such model"}}))
    ran = cli.json("hi")
    assert ran.status == 1
    message = ran.events[-1]["error"]["message"]
    assert "no such model" in message
    assert ran.events[2:] == [
        {"type": "error", "message": message},
        {"type": "turn.failed", "error": {"message": message}},
    ]


def test_a_resumed_thread_goes_on_with_its_sum(cli: Any) -> None:
    server = cli.serve(say("one"), say("two"))
    first = cli.json("remember 7")
    thread_id = first.events[0]["thread_id"]
    second = cli.json("resume", thread_id, "what was it?")
    assert second.events[0] == {"type": "thread.started", "thread_id": thread_id}
    assert second.events[-1] == {"type": "turn.completed", "usage": doubled(USAGE)}
    before, after = (request.json["input"] for request in server.requests)
    assert after[: len(before)] == before
    assert server.requests[1].json["prompt_cache_key"] == thread_id


def test_every_line_is_json_however_odd_the_text(cli: Any) -> None:
    text = 'quote " line\u2028sep \x85 \U0001f600 \x00 end'
    cli.serve(say(text))
    ran = cli.json("hi")
    lines = ran.out.split("\n")
    assert [json.loads(line)["type"] for line in lines if line] == ran.types
    assert ran.items("agent_message") == [{"type": "agent_message", "text": text}]


def test_deltas_give_no_lines(cli: Any) -> None:
    cli.serve(say("x" * 5000, deltas=5000))
    assert cli.json("hi").types == ["thread.started", "turn.started", "item.completed", "turn.completed"]


def test_an_approval_is_denied_at_once_and_visibly(cli: Any) -> None:
    cli.serve(
        call(
            "exec_command",
            cmd="touch /etc/x",
            sandbox_permissions="require_escalated",
            justification="must write there",
        ),
        say("Refused."),
    )
    ran = cli.json("-c", "approval_policy=on-request", "hi")
    assert ran.status == 0
    (warning,) = ran.items("error")
    assert warning["message"].startswith("nobody can answer, so the answer is no")
    (command,) = ran.items("command_execution")
    assert command["status"] == "declined"
    assert command["exit_code"] is None


def test_a_patch_that_needs_leave_is_denied_and_told(cli: Any) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"
    cli.serve(custom_call("apply_patch", patch), say("Refused."))
    ran = cli.json("-c", "approval_policy=on-request", "-s", "read-only", "hi")
    assert ran.status == 0
    (warning,) = ran.items("error")
    assert warning["message"] == f"nobody can answer, so the answer is no: a patch of {cli.work / 'a.txt'}"
    assert not (cli.work / "a.txt").exists()
    assert ran.items("agent_message") == [{"type": "agent_message", "text": "Refused."}]


def test_the_configured_policy_never_lets_it_wait(cli: Any) -> None:
    cli.serve(
        call("exec_command", cmd="true", sandbox_permissions="require_escalated", justification="x"), say("Refused.")
    )
    cli.configure(base_url=cli.servers[0].url, more='approval_policy = "on-request"')
    ran = cli.json("hi")
    assert ran.status == 0
    assert ran.items("error") == []
    assert ran.items("agent_message") == [{"type": "agent_message", "text": "Refused."}]


PLAIN_TOOLS = """
from codex_framework import ToolError, hookimpl, tool


@tool
async def dig(place: str, depth: int = 1) -> str:
    \"\"\"Dig a hole.\"\"\"
    if depth > 9:
        raise ValueError("too deep")
    if depth > 2:
        raise ToolError("there is rock")
    return f"dug {depth} m at {place}"


@hookimpl
def codex_tools():
    return [dig]
"""


def plain_tools(cli: Any) -> str:
    path = cli.home / "garden.py"
    path.write_text(PLAIN_TOOLS)
    return str(path)


def test_a_call_of_a_plain_tool_is_an_item_that_clients_know(cli: Any) -> None:
    cli.serve(call("dig", place="here"), call("dig", place="there", depth=3), say("Done."))
    ran = cli.json("--plugin", plain_tools(cli), "hi")
    assert ran.status == 0, ran.err
    item = {"type": "mcp_tool_call", "server": "garden", "tool": "dig"}
    first = {"id": "item_0", **item, "arguments": {"place": "here"}}
    second = {"id": "item_1", **item, "arguments": {"place": "there", "depth": 3}}
    running = {"result": None, "error": None, "status": "in_progress"}
    result = {"content": [{"type": "text", "text": "dug 1 m at here"}], "structured_content": None}
    assert ran.events[2:6] == [
        {"type": "item.started", "item": {**first, **running}},
        {"type": "item.completed", "item": {**first, "result": result, "error": None, "status": "completed"}},
        {"type": "item.started", "item": {**second, **running}},
        {
            "type": "item.completed",
            "item": {**second, "result": None, "error": {"message": "there is rock"}, "status": "failed"},
        },
    ]


def test_a_broken_plain_tool_has_an_error(cli: Any) -> None:
    cli.serve(call("dig", place="here", depth=10), say("Done."))
    ran = cli.json("--plugin", plain_tools(cli), "hi")
    (ended,) = (event["item"] for event in ran.events if event.get("item", {}).get("status") == "failed")
    assert ended["error"] == {"message": "dig failed"}


def test_people_see_the_calls_of_plain_tools(cli: Any) -> None:
    cli.serve(call("dig", place="here"), call("dig", place="there", depth=3), say("Done."))
    ran = cli.exec("--plugin", plain_tools(cli), "hi")
    lines = [
        "tool: garden/dig started",
        "tool: garden/dig (completed)",
        "tool: garden/dig started",
        "tool: garden/dig (failed)",
        "there is rock",
    ]
    assert "\n".join(lines) in ran.err


def test_a_patch_is_one_item(cli: Any) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"
    cli.serve(custom_call("apply_patch", patch), custom_call("apply_patch", "no patch"), say("Done."))
    ran = cli.json("--sandbox", "workspace-write", "hi")
    kinds = [event["item"]["type"] for event in ran.events if event["type"] == "item.completed"]
    assert kinds == ["file_change", "agent_message"]


CHILD = "Count the files."


def test_what_a_run_used_includes_its_agents_and_a_resumed_run_goes_on_from_there(cli: Any) -> None:
    def root(body: Any) -> Any:
        said = json.dumps(body["input"])
        if CHILD not in said:
            return call("spawn_agent", message=CHILD)
        if "spawn_agent" not in said:
            return say("three")
        outputs = [json.loads(item["output"]) for item in body["input"] if item["type"] == "function_call_output"]
        return call("wait_agent", targets=[outputs[0]["agent_id"]]) if len(outputs) == 1 else say("There are three.")

    cli.serve(*[lambda request: root(request.json)] * 4, say("Still three."), say("Three."))
    ran = cli.json("hi")
    assert ran.events[-1] == {"type": "turn.completed", "usage": {key: 4 * count for key, count in USAGE.items()}}
    resumed = cli.json("resume", "--last", "again")
    assert resumed.events[-1] == {"type": "turn.completed", "usage": {key: 5 * count for key, count in USAGE.items()}}
    shown = cli.exec("resume", "--last", "and again")
    assert shown.err.endswith("tokens used\n660\n")
