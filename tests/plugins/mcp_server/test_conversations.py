"""Conversations that several calls want at once, and those that are unloaded and loaded again."""

from __future__ import annotations

import asyncio

from codex_framework.testing import call, say

SLOW = """
import asyncio
from codex_framework import Component, ThreadComponent, hookimpl


class Part(ThreadComponent):
    async def aclose(self):
        await asyncio.sleep(0.5)


class Slow(Component):
    name = "slow"

    def for_thread(self, thread):
        return Part()


@hookimpl
def codex_components():
    return [Slow()]
"""


def content(result):
    return result["structuredContent"]["content"]


def test_a_thread_keeps_the_configuration_of_its_call_however_often_it_is_unloaded(home, raw, play, monkeypatch):
    monkeypatch.setattr("codex_plugin_mcp_server.conversations.MOST_IDLE", 0)
    model = home.serve(say("one"), say("two"), say("three"))

    async def story():
        async with raw() as client:
            config = {"features.unified_exec": False}
            result = await client.result(await client.call("codex", prompt="go", config=config))
            for _ in range(2):
                thread_id = result["structuredContent"]["threadId"]
                result = await client.result(await client.call("codex-reply", prompt="on", threadId=thread_id))
            assert content(result) == "three"

    play(story())
    offered = [{tool.get("name") for tool in request.json["tools"]} for request in model.requests]
    assert [names & {"exec_command", "shell_command"} for names in offered] == [{"shell_command"}] * 3


def test_of_two_replies_after_a_cancelled_call_one_runs_and_one_is_told_to_wait(home, raw, play):
    home.serve(call("exec_command", cmd="touch begun; sleep 30"), *(say("answer") for _ in range(3)))

    async def story():
        async with raw() as client:
            first = await client.call("codex", prompt="go", sandbox="workspace-write")
            while not (home.work / "begun").exists():
                await asyncio.sleep(0.02)
            (configured,) = client.events("session_configured") or [
                (await client.until(lambda message: "session_configured" in str(message)))["params"]
            ]
            thread_id = configured["_meta"]["threadId"]
            await client.send(method="notifications/cancelled", params={"requestId": first})
            numbers = [await client.call("codex-reply", prompt="on", threadId=thread_id) for _ in range(2)]
            results = {}
            while len(results) < 2:
                message = await client.read()
                if message.get("id") in numbers and "method" not in message:
                    assert "error" not in message
                    results[message["id"]] = message["result"]
            assert sorted(content(result) for result in results.values()) == [
                "a turn of this conversation is running: wait until it ends",
                "answer",
            ]
            again = await client.result(await client.call("codex-reply", prompt="on", threadId=thread_id))
            assert content(again) == "answer"

    play(story())


def test_a_reply_to_a_thread_that_is_being_unloaded_waits_for_it(home, raw, play, monkeypatch, tmp_path):
    from codex_plugin_mcp_server.options import Options

    monkeypatch.setattr("codex_plugin_mcp_server.conversations.MOST_IDLE", 0)
    home.serve(say("one"), say("two"))
    plugin = tmp_path / "slow.py"
    plugin.write_text(SLOW)

    async def story():
        async with raw(Options(plugin_files=(plugin,))) as client:
            first = await client.call("codex", prompt="go")
            ended = await client.until(lambda message: "task_complete" in str(message.get("params")))
            thread_id = ended["params"]["_meta"]["threadId"]
            second = await client.call("codex-reply", prompt="on", threadId=thread_id)
            assert content(await client.result(first)) == "one"
            assert content(await client.result(second)) == "two"

    play(story())
