"""Threads over HTTP: start, follow, steer, cancel, answer, list."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from web_client import ON_REQUEST, deploy, follow, types

from codex_framework.testing import call, say

SLOW = say("one two three", deltas=3, delta_delay_s=30)


def test_a_thread_is_started_and_followed_to_the_end_of_its_turn(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.", deltas=2)]) as client:
            path = await client.start("Hi!")
            async with client.events(path) as stream:
                seen = await stream.until("task_complete")
            assert types(seen)[0] == "session_configured"
            assert seen[-1]["msg"]["last_agent_message"] == "Hello."
            assert [each["number"] for each in seen] == list(range(1, len(seen) + 1))
            status, told = await client.get(path)
            assert (status, told["status"], told["requests"]) == (200, "idle", [])
            assert told["cursor"] == stream.cursor

    asyncio.run(main())


def test_a_client_that_comes_back_reads_on_where_it_was(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello."), say("Again.")]) as client:
            path = await client.start("Hi!")
            async with client.events(path) as stream:
                first = await stream.until("task_complete")
            status, told = await client.post(f"{path}/turns", {"input": [{"type": "text", "text": "More!"}]})
            assert status == 202
            second = await follow(client, path, "task_complete", cursor=stream.cursor)
            assert [each["number"] for each in second] == list(range(len(first) + 1, len(first) + len(second) + 1))
            assert second[-1]["id"] == told["turn_id"]
            async with client.http.stream("GET", f"{path}/events?after={stream.cursor}") as response:
                line = await anext(response.aiter_lines())
            assert line == "id: " + stream.cursor.replace(f"-{len(first)}", f"-{len(first) + 1}")

    asyncio.run(main())


def test_an_approval_is_answered_once(site: Any) -> None:
    async def main() -> None:
        async with site.client([call("deploy"), say("Done.")], [deploy], ON_REQUEST) as client:
            path = await client.start("Deploy!")
            asked = (await follow(client, path, "tool_approval_request"))[-1]
            (shown,) = (await client.get(path))[1]["requests"]
            assert shown == {"request_id": asked["request_id"], "msg": asked["msg"]}
            where = f"{path}/requests/{asked['request_id']}"

            status, told = await client.post(where, {"decision": "maybe"})
            assert (status, told["error"]["slug"]) == (422, "bad-request")
            assert "answer.decision" in told["error"]["message"]
            assert (await client.post(f"{path}/requests/other", {"decision": "approved"}))[0] == 404

            status, told = await client.post(where, {"decision": "approved"})
            assert (status, told["requests"]) == (200, [])
            status, told = await client.post(where, {"decision": "denied"})
            assert (status, told["error"]["slug"]) == (409, "already-answered")
            seen = await follow(client, path, "task_complete")
            assert [each["request_id"] for each in seen if each["msg"]["type"] == "request_resolved"] == [
                asked["request_id"]
            ]
            assert any(each["msg"].get("output") == "deployed" for each in seen)

    asyncio.run(main())


def test_a_denial_reaches_the_model_with_its_reason(site: Any) -> None:
    async def main() -> None:
        async with site.client([call("deploy"), say("Done.")], [deploy], ON_REQUEST) as client:
            path = await client.start("Deploy!")
            asked = (await follow(client, path, "tool_approval_request"))[-1]
            answer = {"decision": "denied", "message": "Not on a Friday."}
            assert (await client.post(f"{path}/requests/{asked['request_id']}", answer))[0] == 200
            seen = await follow(client, path, "task_complete")
            assert any("Not on a Friday." in str(each["msg"].get("output")) for each in seen)

    asyncio.run(main())


def test_a_request_that_nobody_is_there_to_answer_is_denied_after_a_while(site: Any) -> None:
    async def main() -> None:
        replies = [call("deploy"), say("Done.")]
        async with site.client(replies, [deploy], ON_REQUEST, absence_s=0.05) as client:
            path = await client.start("Deploy!")
            while "task_complete" not in types(seen := await records(client, path)):
                await asyncio.sleep(0.01)
            assert "agent_message" in types(seen)
            seen = await follow(client, path, "task_complete")
            assert any("no client came to answer" in str(each["msg"].get("message")) for each in seen)

    asyncio.run(main())


async def records(client: Any, path: str) -> list[Any]:
    """Return the events of the record, which does not count as somebody being there."""
    status, told = await client.get(f"{path}/history")
    assert status == 200
    return [{"msg": msg} for msg in told["events"]]


def test_a_request_waits_while_somebody_follows(site: Any) -> None:
    async def main() -> None:
        replies = [call("deploy"), say("Done.")]
        async with site.client(replies, [deploy], ON_REQUEST, absence_s=0.01) as client:
            path = await client.start()
            async with client.events(path) as stream:
                await stream.until("session_configured")
                await client.post(f"{path}/turns", {"input": "Deploy!"})
                asked = (await stream.until("tool_approval_request"))[-1]
                idle = await client.start()  # its turn takes longer than the limit
                await client.post(f"{idle}/turns", {"input": "Hi!"})
                await follow(client, idle, "task_complete")
                assert (await client.post(f"{path}/requests/{asked['request_id']}", {"decision": "approved"}))[0] == 200
                assert any(each["msg"].get("output") == "deployed" for each in await stream.until("task_complete"))

    asyncio.run(main())


def test_a_turn_is_steered_and_cancelled(site: Any) -> None:
    async def main() -> None:
        async with site.client([SLOW]) as client:
            path = await client.start()
            for where in ("steer", "cancel"):
                status, told = await client.post(f"{path}/{where}", {"input": "x"} if where == "steer" else None)
                assert (status, told["error"]["slug"]) == (409, "no-active-turn"), told
            turn = (await client.post(f"{path}/turns", {"input": "Count."}))[1]["turn_id"]
            status, told = await client.post(f"{path}/turns", {"input": "Again."})
            assert (status, told["error"]["slug"]) == (409, "busy")
            assert await client.post(f"{path}/steer", {"input": "Faster."}) == (202, {"turn_id": turn})
            status, told = await client.post(f"{path}/steer", {"input": "Faster.", "turn_id": "other"})
            assert (status, told["error"]["slug"]) == (409, "wrong-turn")
            status, told = await client.post(f"{path}/cancel")
            assert (status, told["status"]) == (200, "idle")
            seen = await follow(client, path, "turn_aborted")
            assert seen[-1]["msg"]["reason"] == "interrupted"

    asyncio.run(main())


def test_stored_threads_are_listed_and_others_are_not(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            paths = []
            for word in ("first", "second", "third"):
                path = await client.start(word)
                await follow(client, path, "task_complete")
                paths.append(path)
            stranger = await client.kernel.start_thread(source="cli")  # of another program
            await stranger.run("secret")
            seen, after = [], ""
            while True:
                status, told = await client.get(f"/threads?limit=2{after}")
                assert status == 200
                seen += told["threads"]
                if told["next"] is None:
                    break
                after = f"&after={told['next']}"
            assert {each["preview"] for each in seen} == {"first", "second", "third"}
            assert {f"/threads/{each['id']}" for each in seen} == {*paths}
            for where in ("", "/events", "/history"):
                status, told = await client.get(f"/threads/{stranger.id}{where}")
                assert (status, told["error"]["slug"]) == (404, "thread-not-found")

    asyncio.run(main())


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1", "²", "9" * 5_000])
def test_a_limit_that_is_none_is_told(site: Any, limit: str) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            status, told = await client.get("/threads", params={"limit": limit})
            assert (status, told["error"]["slug"]) == (422, "bad-request")

    asyncio.run(main())


def test_the_record_is_shown_as_events(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("Hello.")]) as client:
            path = await client.start()
            assert await client.get(f"{path}/history") == (200, {"events": []})
            await client.post(f"{path}/turns", {"input": "Hi!"})
            await follow(client, path, "task_complete")
            told = await records(client, path)
            assert types(told)[-1] == "task_complete"
            assert {"user_message", "agent_message"} <= {*types(told)}

    asyncio.run(main())
