"""Whole turns of a kernel over this API: tools run, files are written, threads go on, and failures end as they should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import call, custom_call, fault, reasoning, reply, say
from codex_framework.testing.kernels import TurnRun

Run = Callable[..., TurnRun]
Start = Callable[..., Any]

PATCH = "*** Begin Patch\n*** Add File: poem.txt\n+roses\n*** End Patch"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def config(url: str, model: str = "some-model", **table: Any) -> str:
    keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    return (
        f'model = "{model}"\nmodel_provider = "mine"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f'[model_providers.mine]\nbase_url = "{url}"\nwire_api = "chat"\n{keys}'
    )


def roles(server: Any, number: int = -1) -> list[str]:
    return [message["role"] for message in server.requests[number].json["messages"]]


def test_a_freeform_patch_is_applied(run_turn: Run, model_server: Start, workspace: Path) -> None:
    server = model_server([custom_call("apply_patch", PATCH), say("Written.")])
    run = run_turn("write", config=config(server.url, "gpt-5.4"))
    assert run.final_message == "Written."
    assert (workspace / "poem.txt").read_text() == "roses\n"
    first, second = (request.json for request in server.requests)
    (tool,) = [one["function"] for one in first["tools"] if one["function"]["name"] == "apply_patch"]
    assert "grammar" in tool["description"]
    assistant, output = second["messages"][-2:]
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"input": PATCH}
    assert (output["role"], output["tool_call_id"]) == ("tool", assistant["tool_calls"][0]["id"])
    assert "poem.txt" in output["content"]


def test_calls_run_in_parallel_and_their_outputs_keep_the_order(run_turn: Run, model_server: Start) -> None:
    calls = [call("exec_command", cmd=f"echo {word}") for word in ("one", "two", "three")]
    server = model_server([calls[0] + calls[1] + calls[2], say("Done.")])
    run = run_turn("go", config=config(server.url, "gpt-5.4"))
    assert run.final_message == "Done."
    outputs = [one["content"] for one in server.requests[1].json["messages"] if one["role"] == "tool"]
    assert [word in output for word, output in zip(("one", "two", "three"), outputs, strict=True)] == [True] * 3


def test_an_image_that_a_tool_shows_reaches_the_model(run_turn: Run, model_server: Start, workspace: Path) -> None:
    import base64

    (workspace / "dot.png").write_bytes(base64.b64decode(PNG))
    server = model_server([call("view_image", path="dot.png"), say("A dot.")])
    run = run_turn("look", config=config(server.url, "gpt-5.4"))
    assert run.final_message == "A dot."
    image = server.requests[1].json["messages"][-1]
    assert image["role"] == "user"
    assert image["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_server_for_text_gets_a_note_instead(run_turn: Run, model_server: Start, workspace: Path) -> None:
    import base64

    (workspace / "dot.png").write_bytes(base64.b64decode(PNG))
    server = model_server([call("view_image", path="dot.png"), say("I cannot see it.")])
    run_turn("look", config=config(server.url, input_modalities=["text"]))
    assert "data:image" not in server.requests[1].body.decode()
    assert "takes no images" in server.requests[1].json["messages"][-1]["content"]


def test_reasoning_goes_back_within_the_turn_only(make_kernel: Any, model_server: Start) -> None:
    server = model_server([reasoning("think") + call("exec_command", cmd="true"), say("a"), say("b")])

    async def run() -> None:
        async with make_kernel(config=config(server.url)) as kernel:
            thread = await kernel.start_thread()
            await thread.run("one")
            await thread.run("two")

    asyncio.run(run())
    bodies = [request.body.decode() for request in server.requests]
    assert ['"reasoning_content":"think"' in body for body in bodies] == [False, True, False]


def test_a_broken_response_is_requested_again_and_nothing_comes_twice(
    run_turn: Run, model_server: Start, workspace: Path
) -> None:
    server = model_server(
        [
            say("Half") + call("exec_command", cmd="echo x >> log") + fault(after=4),
            call("exec_command", cmd="echo y >> log"),
            say("Do") + fault(cut_at=200),
            say("Done."),
        ]
    )
    run = run_turn("go", config=config(server.url))
    assert run.final_message == "Done."
    assert (workspace / "log").read_text() == "y\n"
    assert roles(server)[-3:] == ["user", "assistant", "tool"]
    assert len(server.requests) == 4


def test_an_incomplete_response_fails_the_turn_with_its_reason(run_turn: Run, model_server: Start) -> None:
    server = model_server([say("Half of it") + fault(incomplete="max_output_tokens")])
    run = run_turn("go", config=config(server.url))
    assert str(run.error) == "Incomplete response returned, reason: max_output_tokens"
    assert len(server.requests) == 1


def test_a_wrong_address_says_what_to_do(run_turn: Run, model_server: Start) -> None:
    server = model_server([fault(200, body="<html>Welcome</html>", headers={"content-type": "text/html"})])
    run = run_turn("go", config=config(server.url))
    assert "answered with a web page" in str(run.error)
    assert len(server.requests) == 1


def test_a_thread_goes_on_after_it_was_resumed(make_thread: Any, model_server: Start) -> None:
    server = model_server([reasoning("hm") + call("exec_command", cmd="echo hi"), say("One."), say("Two.")])

    async def run() -> None:
        async with make_thread(None, config=config(server.url)) as thread:
            await thread.turn("first")
            again = await thread.restarted()
            await again.turn("second")

    asyncio.run(run())
    sent = server.requests[-1].json["messages"]
    assert [one["role"] for one in sent[-5:]] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[:-1] == server.requests[1].json["messages"][:-2] + [
        {key: value for key, value in one.items() if key != "reasoning_content"}
        for one in server.requests[1].json["messages"][-2:]
    ] + [{"role": "assistant", "content": "One."}]


@pytest.mark.parametrize("answer", ['{"city": "Rome"}'])
def test_structured_output_is_asked_for(make_kernel: Any, model_server: Start, answer: str) -> None:
    server = model_server([say(answer)])
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    async def run() -> Any:
        async with make_kernel(config=config(server.url)) as kernel:
            thread = await kernel.start_thread(ephemeral=True)
            return await thread.run("where?", output_schema=schema)

    assert asyncio.run(run()).final_message == answer
    assert server.requests[0].json["response_format"]["json_schema"]["schema"] == schema


def test_a_thread_may_change_the_api_in_both_directions(make_kernel: Any, model_server: Start) -> None:
    think = reply(*(reasoning("think", encrypted_content="e") + call("exec_command", cmd="echo hi")).items)
    server = model_server([think, say("One."), think, say("Two."), say("Three.")])
    both = config(server.url) + f'[model_providers.other]\nbase_url = "{server.url}"\n'

    async def run() -> None:
        thread_id = ""
        for prompt, provider in (("one", "mine"), ("two", "other"), ("three", "mine")):
            async with make_kernel(config=both) as kernel:
                settings = {"model_provider": provider}
                if thread_id:
                    thread = await kernel.resume_thread(thread_id, config=settings)
                else:
                    thread = await kernel.start_thread(config=settings)
                thread_id = thread.id
                assert (await thread.run(prompt)).error is None

    asyncio.run(run())
    paths = [request.path.rsplit("/", 1)[1] for request in server.requests]
    assert paths == ["completions", "completions", "responses", "responses", "completions"]
    kinds = [item.get("type") for item in server.requests[3].json["input"]]
    assert kinds.count("reasoning") == 1, "that of the other API was sent"
    assert kinds[-7:] == [
        *("function_call", "function_call_output", "message"),
        *("message", "reasoning", "function_call", "function_call_output"),
    ]
    assert roles(server)[-9:] == [
        "user",
        *["assistant", "tool"],
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
