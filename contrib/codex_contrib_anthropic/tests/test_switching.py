"""A thread changes between this API and the bundled ones: loops of tools go on, and reasoning goes to nobody but its writer."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework.contract.protocol.events import HistoryLossEvent
from codex_framework.contract.protocol.items import InputImage, InputText, Message, Reasoning
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.testing import Reply, call, custom_call, fault, say

WIRES = ("responses", "chat", "messages")
MODELS = {"responses": "gpt-5.4", "chat": "gpt-5.4", "messages": "claude-sonnet-4-5"}
STOPPED = fault(400, body={"error": {"message": "no more"}})


def config(url, wire):
    root = url.removesuffix("/v1")
    tables = "".join(f'[model_providers.my-{one}]\nbase_url = "{root}/{one}"\nwire_api = "{one}"\n' for one in WIRES)
    return (
        f'model = "{MODELS[wire]}"\nmodel_provider = "my-{wire}"\nsandbox_mode = "danger-full-access"\n'
        f'approval_policy = "never"\n{tables}'
    )


def step(number):
    text = f"thought{number}"
    thought = Reasoning(f"rs_{text}", ({"type": "summary_text", "text": text},), None, f"sealed-{text}")
    patch = f"*** Begin Patch\n*** Add File: {number}.txt\n+x\n*** End Patch"
    return (
        Reply(items=(thought,)) + call("exec_command", cmd=f"echo {number} >> log") + custom_call("apply_patch", patch)
    )


def to(wire):
    return ThreadSettings(ThreadSettingsOverrides(model=MODELS[wire], model_provider=f"my-{wire}"))


@pytest.mark.parametrize(
    ("one", "other"),
    [("messages", "responses"), ("responses", "messages"), ("messages", "chat"), ("chat", "messages")],
)
def test_a_loop_of_tools_goes_on_with_another_provider_and_back(make_kernel, model_server, workspace, one, other):
    server = model_server([step(1), STOPPED, step(2), STOPPED, step(3), say("Done.")])

    async def run():
        async with make_kernel(config=config(server.url, one)) as kernel:
            thread = await kernel.start_thread()
            await thread.run("begin")
            await thread.submit(to(other))
            await thread.run("go on")
            thread_id = thread.id
        # And back, in another process.
        async with make_kernel(config=config(server.url, one)) as kernel:
            thread = await kernel.resume_thread(thread_id)
            return (await thread.run("go on")).final_message

    assert asyncio.run(run()) == "Done."
    assert (workspace / "log").read_text().split() == ["1", "2", "3"]
    assert sorted(path.name for path in workspace.glob("*.txt")) == ["1.txt", "2.txt", "3.txt"]
    sent = [(request.path.split("/")[1], request.body.decode()) for request in server.requests]
    assert [name for name, _ in sent] == [one, one, other, other, one, one]
    for name, body in sent:
        foreign = ("thought2",) if name == one else ("thought1", "thought3")
        assert not any(word in body for word in foreign)
    if one == "messages":
        assert "signature-of-rs_thought1" in sent[1][1]
        assert "signature-of-rs_thought1" in sent[-1][1]
    if one == "responses":
        assert "sealed-thought1" in sent[-1][1]
    last = server.requests[-1].json
    if one == "messages":
        kinds = [block["type"] for message in last["messages"] for block in message["content"]]
        assert (kinds.count("tool_use"), kinds.count("tool_result")) == (6, 6)
    elif one == "responses":
        kinds = [item["type"] for item in last["input"]]
        assert [kinds.count(f"{kind}_call") for kind in ("function", "custom_tool")] == [3, 3]


def test_a_failed_turn_of_another_model_is_answered_without_thinking(make_kernel, model_server):
    """The server refuses thinking in a loop of tools that began without it; the next input may think again."""
    server = model_server([step(1), STOPPED, say("Done."), say("More.")])

    async def run():
        async with make_kernel(config=config(server.url, "responses")) as kernel:
            thread = await kernel.start_thread()
            await thread.run("begin")
            await thread.submit(to("messages"))
            await thread.run("go on")
            await thread.run("and more")

    asyncio.run(run())
    _, _, going_on, more = [request.json for request in server.requests]
    assert going_on["messages"][-1]["content"][0]["type"] == "tool_result"
    assert "thinking" not in going_on
    assert "thinking" in more


def test_what_cannot_be_carried_is_told_once(make_kernel, model_server):
    image = Message("user", (InputText("See:"), InputImage("data:image/bmp;base64,AAAA")))
    server = model_server([say("Yes."), say("Yes.")])

    async def run():
        async with make_kernel(config=config(server.url, "messages")) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            thread.deliver([image])
            await thread.run("hello")
            await thread.run("again")
            await thread.shutdown()
            return [event.msg async for event in events if isinstance(event.msg, HistoryLossEvent)]

    (loss,) = asyncio.run(run())
    assert (loss.what, loss.count, loss.reason) == ("images", 1, "the format is unsupported")
    assert (loss.provider, loss.model) == ("my-messages", "claude-sonnet-4-5")


def test_another_provider_goes_on_in_the_middle_of_a_turn(make_kernel, model_server, workspace):
    """The plugin fallbacks, over all three APIs: each model fails for good after a step, and no step is made twice."""
    busy = fault(503, body={"error": {"code": "server_is_overloaded", "message": "Busy."}})
    overloaded = fault(529, body={"error": {"type": "overloaded_error", "message": "Busy."}})
    server = model_server([step(1), busy, step(2), overloaded, step(3), say("Done.")])
    chain = ", ".join(f'{{ model = "{MODELS[wire]}", provider = "my-{wire}" }}' for wire in ("messages", "chat"))
    table = f"[framework.plugins.fallbacks]\nmodel_fallbacks = [{chain}]\n[model"
    text = config(server.url, "responses").replace("[model", table, 1)
    text = text.replace("wire_api", "request_max_retries = 0\nstream_max_retries = 1\nwire_api")

    async def run():
        async with make_kernel(config=text) as kernel:
            return await (await kernel.start_thread()).run("begin")

    result = asyncio.run(run())
    assert (result.final_message, result.error) == ("Done.", None)
    assert (workspace / "log").read_text().split() == ["1", "2", "3"]
    sent = [(request.path.split("/")[1], request.body.decode()) for request in server.requests]
    assert [name for name, _ in sent] == ["responses", "responses", "messages", "messages", "chat", "chat"]
    assert "sealed-thought1" in sent[1][1]
    assert "signature-of-rs_thought2" in sent[3][1]
    assert not any("thought1" in body for _, body in sent[2:])
    assert not any("thought2" in body for _, body in sent[4:])
    assert len(server.requests[-1].json["messages"][-1]["content"]) > 0
