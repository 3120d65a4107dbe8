"""Agents of a thread that is resumed, also after its process was killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import message_text
from codex_framework.testing import Reply, call, say

from .conftest import spawn


def texts(items: Any) -> list[str]:
    return [message_text(item) for item in items if item.type == "message"]


def started(history: Any) -> str:
    outputs = [item.output for item in history.items if item.type == "function_call_output"]
    return str(json.loads(next(output for output in outputs if "agent_id" in output))["agent_id"])


def test_the_agents_of_a_resumed_thread_are_back_and_remember(make_kernel: Any) -> None:
    async def first() -> tuple[str, str]:
        root: list[str] = []

        def reply(request: Any) -> Reply:
            if request.thread_id != root[0]:
                return say("I know a secret: 42.")
            return say("Started.") if len(request.prompt.items) > 3 else spawn()

        async with make_kernel([reply] * 20) as kernel:
            thread = await kernel.start_thread()
            root.append(thread.id)
            await thread.run("Go!")
            (child,) = (other for other in kernel.threads.values() if other is not thread)
            await child.settled()
            await asyncio.sleep(0.01)
            return thread.id, started(thread.history)

    thread_id, agent = asyncio.run(first())

    async def second() -> Any:
        requests: list[Any] = []
        outputs: list[Any] = []

        def reply(request: Any) -> Reply:
            requests.append(request)
            if request.thread_id != thread_id:
                return say("still 42")
            said = [item.output for item in request.prompt.items if item.type == "function_call_output"][1:]
            outputs[:] = said
            if not said:
                return call("send_input", target=agent, message="What was it?")
            return say("done") if len(said) > 1 else call("wait_agent", targets=[agent])

        async with make_kernel([reply] * 20) as kernel, asyncio.timeout(30):
            thread = await kernel.resume_thread(thread_id)
            await thread.run("Ask it.")
            assert set(kernel.threads) == {thread_id, agent}
            return requests, outputs

    requests, outputs = asyncio.run(second())
    (asked,) = (request for request in requests if request.thread_id == agent)
    assert "I know a secret: 42." in texts(asked.prompt.items)
    assert json.loads(outputs[-1])["status"] == {agent: {"completed": "still 42"}}


def with_a_lost_agent(make_kernel: Any, codex_home: Path) -> str:
    """Return the id of a thread with an agent whose session is gone."""
    root: list[str] = []

    def reply(request: Any) -> Reply:
        if request.thread_id != root[0]:
            return say("ok")
        return say("Started.") if any(item.type == "function_call" for item in request.prompt.items) else spawn()

    async def first() -> tuple[str, str]:
        async with make_kernel([reply] * 20) as kernel:
            thread = await kernel.start_thread()
            root.append(thread.id)
            await thread.run("Go!")
            return thread.id, started(thread.history)

    thread_id, agent = asyncio.run(first())
    for path in codex_home.rglob(f"*{agent}.jsonl"):
        path.unlink()
    return thread_id


def test_an_agent_that_cannot_be_brought_back_takes_no_place(make_kernel: Any, codex_home: Path) -> None:
    thread_id = with_a_lost_agent(make_kernel, codex_home)

    def reply(request: Any) -> Reply:
        if request.thread_id != thread_id:
            return say("ok")
        is_over = request.prompt.items[-1].type == "function_call_output"
        return say("here") if is_over else spawn(call_id="another")

    async def second() -> str:
        async with make_kernel([reply] * 10, config=["agents.max_threads=1"]) as kernel, asyncio.timeout(30):
            thread = await kernel.resume_thread(thread_id)
            await thread.run("Hello?")
            return str(next(item.output for item in reversed(thread.history.items) if hasattr(item, "output")))

    assert "agent_id" in asyncio.run(second())


def test_an_agent_whose_session_is_gone_is_told_and_the_thread_goes_on(make_kernel: Any, codex_home: Path) -> None:
    thread_id = with_a_lost_agent(make_kernel, codex_home)

    async def second(times: int) -> list[str]:
        async with make_kernel([say("here")]) as kernel, asyncio.timeout(30):
            thread = await kernel.resume_thread(thread_id)
            warnings: list[str] = []
            listener = asyncio.ensure_future(
                thread.events(answers=False).each(
                    lambda event: warnings.append(event.msg.message) if isinstance(event.msg, WarningEvent) else None
                )
            )
            assert (await thread.run("Hello?")).final_message == "here"
            await thread.shutdown()
            await listener
            return [text for text in warnings if "was not brought back" in text]

    assert len(asyncio.run(second(1))) == 1
    assert asyncio.run(second(2)) == [], "it is told once"


PROGRAM = """
import asyncio, sys
from codex_framework import Kernel
from codex_framework.config import load_config

async def main():
    home, work, url = sys.argv[1:]
    config = load_config(cwd=work, environ={"CODEX_HOME": home, "HOME": home}, overrides=(
        'sandbox_mode="danger-full-access"', 'approval_policy="never"', 'model="gpt-5.5"', 'model_provider="here"',
        f'model_providers.here={{name="here", base_url="{url}", request_max_retries=0, stream_max_retries=0}}',
    ))
    async with await Kernel.create(config) as kernel:
        thread = await kernel.start_thread()
        print(thread.id, flush=True)
        await thread.run("Go!")

asyncio.run(main())
"""


def test_agents_of_a_killed_process_are_back_as_interrupted(
    make_kernel: Any, codex_home: Path, workspace: Path, responses_server: Callable[..., Any]
) -> None:
    calls: list[str] = []

    def reply(request: Any) -> Reply:
        text = request.body.decode()
        calls.append(text)
        if '"Do it."' in text and "agent_id" not in text:
            return call("exec_command", cmd="sleep 15", yield_time_ms=30_000, login=False)
        return call("wait_agent", targets=[], call_id="w") if "agent_id" in text else spawn()

    def hanging(request: Any) -> Reply:
        found = reply(request)
        if "agent_id" in calls[-1]:
            return call("exec_command", cmd="sleep 15", yield_time_ms=30_000, login=False)
        return found

    server = responses_server([hanging] * 20)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(codex_home), str(workspace), server.url],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        thread_id = process.stdout.readline().strip()
        for _ in range(1000):
            if len(calls) >= 3:
                break
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()

    async def resumed() -> Any:
        outputs: list[str] = []

        def answer(request: Any) -> Reply:
            if request.thread_id != thread_id:
                return say("again")
            said = [item.output for item in request.prompt.items if item.type == "function_call_output"]
            outputs[:] = said
            return say("done") if "agent_name" in said[-1] else call("list_agents")

        async with make_kernel([answer] * 10) as kernel, asyncio.timeout(30):
            thread = await kernel.resume_thread(thread_id)
            result = await thread.run("And?")
            return result.final_message, json.loads(outputs[-1])["agents"]

    message, agents = asyncio.run(resumed())
    assert message == "done"
    assert [agent["agent_status"] for agent in agents] == ["interrupted"]


@pytest.mark.parametrize("entry", [{"id": 5}, {"id": "x", "open": True}, {"open": True, "id": None, "role": 7}])
def test_damaged_entries_are_no_agents(make_kernel: Any, entry: dict[str, Any]) -> None:
    async def first() -> str:
        async with make_kernel([say("hi")]) as kernel:
            thread = await kernel.start_thread()
            await thread.run("Go!")
            thread.conversation.context("sub_agents").append_entry("agent", entry)
            return str(thread.id)

    thread_id = asyncio.run(first())

    async def second() -> Any:
        async with make_kernel([say("there")]) as kernel, asyncio.timeout(30):
            thread = await kernel.resume_thread(thread_id)
            result = await thread.run("Go!")
            return result.final_message

    assert asyncio.run(second()) == "there"


def test_a_closed_agent_stays_closed(make_kernel: Any) -> None:
    root: list[str] = []

    def reply(request: Any) -> Reply:
        if request.thread_id != root[0]:
            return say("ok")
        outputs = [item.output for item in request.prompt.items if item.type == "function_call_output"]
        if not outputs:
            return spawn()
        return say("done") if len(outputs) > 1 else call("close_agent", target=json.loads(outputs[0])["agent_id"])

    async def first() -> str:
        async with make_kernel([reply] * 10) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            root.append(thread.id)
            await thread.run("Go!")
            return str(thread.id)

    thread_id = asyncio.run(first())

    async def second() -> list[str]:
        async with make_kernel([say("here")]) as kernel, asyncio.timeout(30):
            thread = await kernel.resume_thread(thread_id)
            await thread.run("Hello?")
            return list(kernel.threads)

    assert asyncio.run(second()) == [thread_id]


def test_an_agent_that_began_with_the_conversation_still_has_it_after_a_resume(make_kernel: Any) -> None:
    root: list[str] = []
    requests: list[Any] = []

    def reply(request: Any) -> Reply:
        if request.thread_id != root[0]:
            requests.append(request)
            return say("I see.")
        outputs = [item for item in request.prompt.items if item.type == "function_call_output"]
        return say("Started.") if outputs else spawn(fork_context=True)

    async def first() -> str:
        async with make_kernel([reply] * 20) as kernel:
            thread = await kernel.start_thread()
            root.append(thread.id)
            await thread.run("The word is: plum.")
            (child,) = (other for other in kernel.threads.values() if other is not thread)
            await child.settled()
            return started(thread.history)

    agent = asyncio.run(first())

    async def second() -> None:
        async with make_kernel([reply] * 20) as kernel, asyncio.timeout(30):
            thread = await kernel.resume_thread(root[0])
            while agent not in kernel.threads:
                await asyncio.sleep(0)
            await kernel.threads[agent].run("What is the word?")
            await thread.shutdown()

    asyncio.run(second())
    before, after = requests
    assert list(after.prompt.items[: len(before.prompt.items)]) == list(before.prompt.items)
    assert "The word is: plum." in texts(after.prompt.items)
