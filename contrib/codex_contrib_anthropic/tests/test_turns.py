"""Whole turns of a kernel over this API."""

from __future__ import annotations

import asyncio
import base64
import json

from codex_framework.testing import call, custom_call, fault, reasoning, say

PATCH = "*** Begin Patch\n*** Add File: poem.txt\n+roses\n*** End Patch"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def config(url, model="claude-sonnet-4-5", **table):
    keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    return (
        f'model = "{model}"\nmodel_provider = "mine"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f'[model_providers.mine]\nbase_url = "{url}"\nwire_api = "messages"\n{keys}'
    )


def test_a_loop_of_tools_with_thoughts_and_a_patch(run_turn, model_server, workspace):
    server = model_server(
        [
            reasoning("Two at once.") + call("exec_command", cmd="echo one") + call("exec_command", cmd="echo two"),
            reasoning("Now the patch.") + custom_call("apply_patch", PATCH),
            say("Written."),
        ]
    )
    run = run_turn("write", config=config(server.url))
    assert (run.final_message, run.error) == ("Written.", None)
    assert (workspace / "poem.txt").read_text() == "roses\n"
    messages = server.requests[2].json["messages"]
    kinds = [[block["type"] for block in message["content"]] for message in messages[-4:]]
    assert kinds == [
        ["thinking", "tool_use", "tool_use"],
        ["tool_result", "tool_result"],
        ["thinking", "tool_use"],
        ["tool_result"],
    ]
    assert messages[-4]["content"][0]["signature"].startswith("signature-of-")
    assert "thinking" in server.requests[2].json


def test_an_image_of_a_tool_is_part_of_its_output(run_turn, model_server, workspace):
    (workspace / "dot.png").write_bytes(base64.b64decode(PNG))
    server = model_server([call("view_image", path="dot.png"), say("A dot.")])
    assert run_turn("look", config=config(server.url)).final_message == "A dot."
    (result,) = server.requests[1].json["messages"][-1]["content"]
    assert [block["type"] for block in result["content"]] == ["image"]


def test_a_broken_response_is_requested_again_and_no_call_is_made_twice(run_turn, model_server, workspace):
    server = model_server(
        [
            say("Half") + call("exec_command", cmd="echo x >> log") + fault(cut_at=1200),
            fault(529, body={"error": {"type": "overloaded_error", "message": "Overloaded"}}),
            say("Done."),
        ]
    )
    run = run_turn("go", config=config(server.url))
    assert (run.final_message, run.error) == ("Done.", None)
    log = workspace / "log"
    assert (log.read_text() if log.exists() else "") in ("", "x\n")


def test_after_a_response_that_broke_off_the_conversation_ends_with_the_user(run_turn, model_server):
    server = model_server(
        [
            reasoning("Hm.") + say("Half of it.") + fault(no_completed=True),
            reasoning("Only a thought.") + fault(no_completed=True),
            say("Done."),
        ]
    )
    run = run_turn("go", config=config(server.url, model="claude-opus-5-5"))
    assert (run.final_message, run.error) == ("Done.", None)
    for request in server.requests:
        *_, said, last = [{"content": [{"type": "text"}]}, *request.json["messages"]]
        assert last["role"] == "user"
        assert said["content"][-1]["type"] == "text"


def test_thoughts_survive_a_resume(make_kernel, model_server):
    server = model_server([reasoning("Hm.") + call("exec_command", cmd="true"), say("a"), say("b")])

    async def run():
        async with make_kernel(config=config(server.url)) as kernel:
            thread = await kernel.start_thread()
            await thread.run("one")
            thread_id = thread.id
        async with make_kernel(config=config(server.url)) as kernel:
            thread = await kernel.resume_thread(thread_id)
            assert (await thread.run("two")).final_message == "b"

    asyncio.run(run())
    first, *_ = server.requests[2].json["messages"][1]["content"]
    assert (first["type"], first["thinking"]) == ("thinking", "Hm.")
