"""Turns and items of a thread: page by page, by their ids, and as a timeline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from codex_framework.testing.replies import call, say

FREE = ("sandbox_mode='danger-full-access'", "approval_policy='never'")


async def two_turns(client: Any) -> tuple[str, list[str]]:
    """Run a turn with a command and one without. Return the ids of the thread and of the turns."""
    thread_id = (await client.call("thread/start"))["thread"]["id"]
    return thread_id, [(await client.turn(thread_id, text))["id"] for text in ("one", "two")]


def replies() -> list[Any]:
    return [call("exec_command", cmd="echo hello"), say("a1"), say("a2")]


def ids(page: dict[str, Any]) -> list[str]:
    return [entry["item"]["id"] for entry in page["data"]]


def test_page_of_items_begins_beside_an_item(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(*replies())

    async def run() -> None:
        async with connected(*FREE) as client:
            thread_id, (first, second) = await two_turns(client)
            items = ids(await client.call("thread/items/list", threadId=thread_id, turnId=first))

            async def beside(item: str, direction: str, **more: Any) -> list[str]:
                cursor = {"type": "item", "itemId": item}
                params = {"threadId": thread_id, "turnId": first, "cursor": cursor, "sortDirection": direction}
                return ids(await client.call("thread/items/list", **params, **more))

            assert await beside(items[0], "asc") == items[1:]
            assert await beside(items[0], "asc", limit=1) == [items[1]]
            assert await beside(items[2], "desc") == [items[1], items[0]]
            assert await beside(items[0], "desc") == await beside(items[2], "asc") == []
            anchor = {"type": "item", "itemId": items[0]}
            for turn, message in (
                (second, "cursor.itemId does not identify an item in the requested history scope"),
                (None, "turnId is required when cursor is an item anchor"),
            ):
                error = await client.fail("thread/items/list", threadId=thread_id, turnId=turn, cursor=anchor)
                assert error == {"code": -32602, "message": message}

    asyncio.run(run())


def test_output_is_left_out_and_fetched_by_itself(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(*replies())

    async def run() -> None:
        async with connected(*FREE, experimentalApi=True) as client:
            thread_id, (turn_id, _) = await two_turns(client)
            params = {"threadId": thread_id, "turnId": turn_id}
            entry = (await client.call("thread/items/list", **params, deferOutput={"commandExecution": True}))["data"][
                1
            ]
            assert (entry["outputDeferred"], entry["item"]["aggregatedOutput"]) == (True, None)
            for defer in ({"deferOutput": {"mcpToolCall": True}}, {}):
                whole = (await client.call("thread/items/list", **params, **defer))["data"][1]
                assert whole["item"]["aggregatedOutput"] == "hello\n"
                assert "outputDeferred" not in whole
            read = await client.call("thread/items/read", **params, itemIds=[entry["item"]["id"], "other"])
            assert read == {"data": [whole]}
            assert await client.call("thread/items/read", **{**params, "turnId": "x"}, itemIds=["other"]) == {
                "data": []
            }
            for wrong in ([], ["x"] * 101):
                error = await client.fail("thread/items/read", **params, itemIds=wrong)
                assert error["message"] == "itemIds must contain 1 to 100 IDs"

    asyncio.run(run())


def test_timeline_goes_back_page_by_page(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(*replies())

    async def run() -> None:
        async with connected(*FREE, experimentalApi=True) as client:
            thread_id, turns = await two_turns(client)
            whole = (await client.call("thread/timeline/list", threadId=thread_id))["data"]
            kinds = [
                "turnStarted",
                "item",
                "item",
                "item",
                "turnCompleted",
                "turnStarted",
                "item",
                "item",
                "turnCompleted",
            ]
            assert [entry["type"] for entry in whole] == kinds
            assert [entry["turnId"] for entry in whole] == [turns[0]] * 5 + [turns[1]] * 4
            newest = await client.call("thread/timeline/list", threadId=thread_id, limit=5)
            older = await client.call("thread/timeline/list", threadId=thread_id, limit=5, cursor=newest["nextCursor"])
            assert (older["data"] + newest["data"], older["nextCursor"]) == (whole, None)
            error = await client.fail("thread/timeline/list", threadId=thread_id, cursor="x")
            assert error["message"] == "invalid thread timeline cursor"

    asyncio.run(run())


def test_resume_brings_a_page_of_turns_and_shows_the_running_one(home: Any, serving: Callable[..., Any]) -> None:
    home.serve(say("a1"), call("exec_command", cmd="x", sandbox_permissions="require_escalated"), say("a2"))

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello(experimentalApi=True)
            thread_id = (await client.call("thread/start", approvalPolicy="on-request"))["thread"]["id"]
            first = await client.turn(thread_id, "one")
            started = await client.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "two"}])
            question = await client.question()
            page = {"limit": 1, "itemsView": "notLoaded"}
            resumed = await client.call("thread/resume", threadId=thread_id, excludeTurns=True, initialTurnsPage=page)
            (turn,) = resumed["initialTurnsPage"]["data"]
            assert (turn["id"], turn["status"], turn["items"]) == (started["turn"]["id"], "inProgress", [])
            rest = await client.call(
                "thread/turns/list", threadId=thread_id, cursor=resumed["initialTurnsPage"]["nextCursor"]
            )
            assert [each["id"] for each in rest["data"]] == [first["id"]]
            timeline = (await client.call("thread/timeline/list", threadId=thread_id))["data"]
            assert timeline[-1]["type"] == "item"
            client.answer(question, decision="decline")
            await client.notification("turn/completed")

    asyncio.run(run())
