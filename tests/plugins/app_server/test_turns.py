"""Turns, from the first message to the last notification."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from codex_framework.testing.replies import call, fault, say
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


def test_turn_of_a_request_is_the_one_that_runs_and_not_the_one_that_was_shown(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve(say("One."), say("Two.").evolve(delay_s=600), say("Three."))
    go = [{"type": "text", "text": "go"}]

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            thread_id = (await client.call("thread/start", cwd=str(home.work)))["thread"]["id"]
            loaded = running.server.threads[thread_id]
            first = (await client.call("turn/start", threadId=thread_id, input=go))["turn"]["id"]
            await client.notification("turn/started")
            held = PendingCall(loaded.connections[0], 0, {})
            loaded.hold(held)  # clients see nothing further
            await loaded.thread.settled()
            second = (await client.call("turn/start", threadId=thread_id, input=go))["turn"]["id"]
            assert second != first
            refused = await client.fail("turn/interrupt", threadId=thread_id, turnId=first)
            assert refused["message"] == f"expected active turn id {first} but found {second}"
            refused = await client.fail("turn/steer", threadId=thread_id, expectedTurnId=first, input=go)
            assert refused["message"] == f"expected active turn id `{first}` but found `{second}`"
            interrupt = client.start("turn/interrupt", threadId=thread_id, turnId=second)
            held.finish()
            assert "result" in await client.response(interrupt)
            assert (await client.notification("turn/completed"))["turn"]["id"] == first
            assert (await client.notification("turn/completed"))["turn"]["id"] == second

    asyncio.run(run())


def test_settings_of_a_running_turn_cannot_change(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            params = {"threadId": thread_id, "turnId": "x", "effort": "high"}
            error = await client.fail("turn/settings/update", **params)
            assert error["message"] == "turn settings updates require the step_model_switching feature"

    asyncio.run(run())


def test_failed_turn_has_its_error_and_no_message(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(say("half of it") + fault(incomplete="max_output_tokens"))

    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            turn = await client.turn(thread_id, "hi")
            assert (turn["status"], turn["items"], turn["itemsView"]) == ("failed", [], "notLoaded")
            assert turn["error"]["misalignment"] is None
            assert client.methods()[-3:] == ["thread/status/changed", "error", "turn/completed"]

    asyncio.run(run())
