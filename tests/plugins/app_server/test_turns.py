"""Turns, from the first message to the last notification."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from codex_framework.testing.replies import call, say
from codex_plugin_app_server.connection import PendingCall


def test_turn_notifications_come_in_codex_order(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(say("Hello."))

    async def run() -> None:
        async with connected() as client:
            started = await client.call("thread/start", cwd=str(home.work))
            turn = await client.turn(started["thread"]["id"], "hi")
            assert turn["status"] == "completed"
            assert [item["text"] for item in turn["items"]] == ["Hello."]
            responses = [place for place, each in enumerate(client.seen) if "result" in each]
            begins = [place for place, each in enumerate(client.seen) if each.get("method") == "turn/started"]
            assert responses[-1] < begins[0]
            assert client.methods() == [
                "thread/started",
                "thread/status/changed",
                "turn/started",
                "item/started",
                "item/completed",
                "item/started",
                "item/agentMessage/delta",
                "item/completed",
                "thread/tokenUsage/updated",
                "thread/status/changed",
                "turn/completed",
            ]

    asyncio.run(run())


def test_command_that_is_declined_is_shown_and_the_turn_goes_on(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(call("exec_command", cmd="touch x", sandbox_permissions="require_escalated"), say("ok"))

    async def run() -> None:
        async with connected() as client:
            started = await client.call("thread/start", cwd=str(home.work), approvalPolicy="on-request")
            thread_id = started["thread"]["id"]
            client.start("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
            question = await client.question("item/commandExecution/requestApproval")
            client.answer(question, decision="decline")
            await client.notification("serverRequest/resolved")
            ended = await client.until(lambda each: each.get("method") == "item/completed")
            assert ended["params"]["item"]["status"] == "declined"
            assert (await client.notification("turn/completed"))["turn"]["status"] == "completed"

    asyncio.run(run())


def test_clients_hear_nothing_of_a_thread_while_a_response_is_due(home: Any, serving: Callable[..., Any]) -> None:
    home.serve(say("Hello."))

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            thread_id = (await client.call("thread/start", cwd=str(home.work)))["thread"]["id"]
            await client.notification("thread/started")
            before = client.methods()
            loaded = running.server.threads[thread_id]
            calls = [PendingCall(loaded.connections[0], 0, {}) for _ in range(2)]
            for each in calls:
                loaded.hold(each)
            loaded.thread.start("hi")
            await loaded.thread.settled()
            for each in calls:
                await client.call("thread/loaded/list")
                assert client.methods() == before
                each.finish()
            await client.notification("turn/completed")

    asyncio.run(run())
