"""Threads that nobody follows are unloaded after a while, and a client that comes back finds its threads."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

from codex_framework.contract.protocol.events import ExecApprovalRequestEvent
from codex_framework.loader.context import LoadContext
from codex_framework.testing.replies import call, say
from codex_plugin_app_server.connection import PendingCall
from tests.plugins.app_server.conftest import LIMIT_S

AT_ONCE = "thread_unload_delay_secs=0"


def test_idle_thread_without_clients_is_unloaded_and_all_clients_are_told(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve(say("one"), say("two"))

    async def run() -> None:
        async with serving(AT_ONCE) as running:
            client, other = running.connect(), running.connect()
            await client.hello()
            await other.hello()
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            await client.turn(thread_id, "hi")
            assert (await client.call("thread/loaded/list"))["data"] == [thread_id]
            assert (await client.call("thread/unsubscribe", threadId=thread_id))["status"] == "unsubscribed"
            for each in (client, other):
                await each.until(lambda message: message.get("method") == "thread/closed")
                assert each.methods()[-2:] == ["thread/status/changed", "thread/closed"]
                assert each.seen[-2]["params"]["status"] == {"type": "notLoaded"}
            assert (await client.call("thread/loaded/list"))["data"] == []
            assert (await client.call("thread/unsubscribe", threadId=thread_id))["status"] == "notLoaded"
            assert (await client.call("thread/read", threadId=thread_id))["thread"]["status"] == {"type": "notLoaded"}
            parts = [{"type": "text", "text": "x"}]
            gone = await client.fail("turn/start", threadId=thread_id, input=parts)
            assert gone["message"] == f"thread not found: {thread_id}"
            await other.call("thread/resume", threadId=thread_id, excludeTurns=True)
            assert (await client.notification("thread/status/changed"))["status"] == {"type": "idle"}
            assert (await other.turn(thread_id, "again"))["status"] == "completed"

    asyncio.run(run())


def test_thread_that_waits_for_an_answer_stays_until_a_client_comes_back(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve(call("exec_command", cmd="touch x", sandbox_permissions="require_escalated"), say("ok"))

    async def run() -> None:
        async with serving(AT_ONCE) as running:
            client = running.connect()
            await client.hello()
            thread_id = (await client.call("thread/start", approvalPolicy="on-request"))["thread"]["id"]
            client.start("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
            await client.question()
            client.leave()
            await client.until_closed()
            again = running.connect()
            await again.hello()
            assert (await again.call("thread/loaded/list"))["data"] == [thread_id]
            resumed = await again.call("thread/resume", threadId=thread_id, excludeTurns=True)
            assert resumed["thread"]["status"] == {"type": "active", "activeFlags": ["waitingOnApproval"]}
            question = await again.question()
            await again.call("thread/unsubscribe", threadId=thread_id)
            await again.call("thread/resume", threadId=thread_id, excludeTurns=True)
            again.answer(question, decision="decline")
            await again.notification("turn/completed")
            await again.call("thread/unsubscribe", threadId=thread_id)
            await again.notification("thread/closed")

    asyncio.run(run())


def test_thread_is_not_unloaded_while_a_client_follows_or_joins_it(home: Any, serving: Callable[..., Any]) -> None:
    home.serve(say("one"), say("two"))

    async def run() -> None:
        async with serving(AT_ONCE) as running:
            clients = [running.connect() for _ in range(2)]
            for each in clients:
                await each.hello()
            thread_id = (await clients[0].call("thread/start"))["thread"]["id"]
            await clients[0].turn(thread_id, "hi")
            leaving = clients[0].start("thread/unsubscribe", threadId=thread_id)
            joining = clients[1].start("thread/resume", threadId=thread_id, excludeTurns=True)
            await clients[0].response(leaving)
            assert "result" in await clients[1].response(joining)
            assert (await clients[1].turn(thread_id, "again"))["status"] == "completed"
            assert (await clients[1].call("thread/loaded/list"))["data"] == [thread_id]

    asyncio.run(run())


def test_client_that_leaves_before_its_response_leaves_no_thread_behind(home: Any, serving: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with serving(AT_ONCE) as running:
            client, other = running.connect(), running.connect()
            await client.hello()
            await other.hello()
            for _ in range(3):
                client.start("thread/start", ephemeral=True)
            client.leave()
            for _ in range(3):
                await other.notification("thread/closed")
            assert running.server.threads == {}

    asyncio.run(run())


def test_client_that_is_cut_off_while_it_resumes_a_thread_does_not_keep_it(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve(say("one"))

    async def run() -> None:
        async with serving(AT_ONCE) as running:
            other = running.connect()
            await other.hello()
            thread_id = (await other.call("thread/start"))["thread"]["id"]
            await other.turn(thread_id, "hi")
            await other.call("thread/unsubscribe", threadId=thread_id)
            await other.notification("thread/closed")
            client = running.connect()
            await client.hello()
            client.start("thread/resume", threadId=thread_id, excludeTurns=True)
            async with asyncio.timeout(LIMIT_S):
                while thread_id not in running.server.threads:
                    await asyncio.sleep(0)
            running._serving[-1].cancel()
            await other.notification("thread/closed")

    asyncio.run(run())


def test_thread_is_unloaded_once_the_last_response_about_it_is_sent(home: Any, serving: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with serving(AT_ONCE) as running:
            client = running.connect()
            await client.hello()
            thread_id = (await client.call("thread/start", ephemeral=True))["thread"]["id"]
            loaded = running.server.threads[thread_id]
            call = PendingCall(loaded.connections[0], 0, {})
            loaded.hold(call)
            await client.call("thread/unsubscribe", threadId=thread_id)
            assert (await client.call("thread/loaded/list"))["data"] == [thread_id]
            call.finish()
            await client.notification("thread/closed")

    asyncio.run(run())


def test_thread_stays_while_its_sub_agent_works(home: Any, serving: Callable[..., Any]) -> None:
    home.serve(call("exec_command", cmd="touch x", sandbox_permissions="require_escalated"))

    async def run() -> None:
        async with serving(AT_ONCE) as running:
            client = running.connect()
            await client.hello()
            thread_id = (await client.call("thread/start", ephemeral=True))["thread"]["id"]
            child = await running.server.kernel.start_thread(
                ephemeral=True, extra={"parent_thread_id": thread_id}, approval_policy="on-request"
            )
            asked = child.events([ExecApprovalRequestEvent])
            child.start("go")
            await anext(asked)
            await client.call("thread/unsubscribe", threadId=thread_id)
            for _ in range(3):
                assert (await client.call("thread/loaded/list"))["data"] == [thread_id]

    asyncio.run(run())


def test_delay_is_half_an_hour_unless_the_configuration_or_the_client_sets_it(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve()

    async def delays(running: Any, *configs: dict[str, Any]) -> list[float]:
        client = running.connect()
        await client.hello()
        found = []
        for config in configs:
            thread = (await client.call("thread/start", ephemeral=True, config=config))["thread"]
            loaded = running.server.threads[thread["id"]]
            before = asyncio.get_running_loop().time()
            await client.call("thread/unsubscribe", threadId=thread["id"])
            found.append(round(loaded._unloading.when() - before, -1))
        return found

    async def run() -> None:
        async with serving() as running:
            assert await delays(running, {}, {"thread_unload_delay_secs": 50}) == [1800, 50]
        async with serving("thread_unload_delay_secs=70") as running:
            assert await delays(running, {}, {"thread_unload_delay_secs": 10**30}) == [70, 1e9]

    asyncio.run(run())


def test_unloaded_threads_leave_nothing_in_memory(home: Any, serving: Callable[..., Any]) -> None:
    home.serve(*(say("done") for _ in range(4)))

    async def run() -> None:
        async with serving(AT_ONCE) as running:
            client = running.connect()
            await client.hello()
            plugins = count_plugins()
            kept = []
            for folder in ("", "a", "b", "c"):
                (home.work / folder).mkdir(exist_ok=True)
                thread_id = (await client.call("thread/start", cwd=str(home.work / folder)))["thread"]["id"]
                await client.turn(thread_id, "hi")
                loaded = running.server.threads[thread_id]
                kept += [weakref.ref(loaded), weakref.ref(loaded.thread)]
                del loaded
                await client.call("thread/unsubscribe", threadId=thread_id)
                await client.notification("thread/closed")
            await client.call("thread/loaded/list")
            gc.collect()
            assert [each() for each in kept] == [None] * len(kept)
            assert running.server.threads == {}
            assert len(running.server.kernels.running) == 1
            async with asyncio.timeout(60):
                while count_plugins() > plugins:  # the last kernel may still be closing
                    await asyncio.sleep(0.01)

    asyncio.run(run())


def count_plugins() -> int:
    """Return how many plugins all kernels of this process have."""
    gc.collect()
    return sum(isinstance(each, LoadContext) for each in gc.get_objects())
