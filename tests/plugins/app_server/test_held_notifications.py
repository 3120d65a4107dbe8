"""A request has its response before clients hear of what it causes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework.testing.replies import say
from codex_plugin_app_server.methods import METHODS

GO = [{"type": "text", "text": "go"}]


@pytest.mark.parametrize(
    ("method", "params", "runs"),
    [
        ("thread/resume", {}, False),
        ("turn/start", {"input": GO}, False),
        ("turn/start", {"input": [], "toolOutput": {"name": "look", "output": "x"}}, False),
        ("turn/steer", {"input": GO}, True),
        ("turn/interrupt", {}, True),
    ],
)
def test_what_a_request_causes_is_told_after_its_response(
    home: Any, serving: Callable[..., Any], method: str, params: dict[str, Any], runs: bool
) -> None:
    home.serve(say("One.").evolve(delay_s=600 if runs else 0))

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            thread_id = (await client.call("thread/start", cwd=str(home.work)))["thread"]["id"]
            await client.notification("thread/started")
            loaded = running.server.threads[thread_id]
            named = {"threadId": thread_id}
            if runs:
                turn_id = (await client.call("turn/start", **named, input=GO))["turn"]["id"]
                await client.notification("item/completed")
                named |= {"turnId": turn_id, "expectedTurnId": turn_id}
            before = client.methods()
            due = running.server.open_call(loaded.connections[0], 0, {**named, **params})
            await METHODS[method].handler(due)
            if loaded.thread.turn_id and runs:
                await loaded.thread.interrupt()
            if method != "thread/resume":
                await loaded.thread.settled()
            loaded.thread.warn("late")
            await client.call("thread/loaded/list")
            assert client.methods() == before
            due.finish()
            assert (await client.notification("warning"))["message"] == "late"

    asyncio.run(run())


def test_what_fails_after_a_response_keeps_no_notification_back(
    home: Any, serving: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    home.serve()

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            loaded = running.server.threads[thread_id]
            due = running.server.open_call(loaded.connections[0], 0, {})
            due.then(lambda: 1 // 0)
            loaded.hold(due)
            loaded.thread.warn("late")
            due.finish()
            assert (await client.notification("warning"))["message"] == "late"

    asyncio.run(run())
    assert "the end of a request failed: ZeroDivisionError" in capsys.readouterr().err
