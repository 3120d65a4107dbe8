"""The list of stored threads, its filters and pages, and the search in them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from codex_framework.testing.replies import say


def identity(number: int) -> str:
    return f"01a2237f-0000-7000-8000-{number:012}"


def record(home: Any, number: int, **fields: Any) -> str:
    """Write the record of a thread that was created ``number`` minutes after ten, and changed ``changed`` minutes after ten."""
    thread_id, moment = identity(number), f"2026-11-01T10:{number:02}:00"
    said = fields.pop("said", f"question {number}")
    changed, archived = fields.pop("changed", number), fields.pop("archived", False)
    meta: dict[str, Any] = {"id": thread_id, "timestamp": f"{moment}.000Z", "cwd": str(home.work), "originator": "me"}
    meta |= {"cli_version": "1.2.3", "source": "cli", "model_provider": "here", **fields}
    turn = [
        ("session_meta", meta),
        ("event_msg", {"type": "task_started", "turn_id": f"turn-{number}", "model_context_window": None}),
        ("event_msg", {"type": "user_message", "message": said}),
        ("event_msg", {"type": "agent_message", "message": f"answer to {said}"}),
        ("event_msg", {"type": "task_complete", "turn_id": f"turn-{number}", "last_agent_message": "x"}),
    ]
    folder = home.path / "archived_sessions" if archived else home.path / "sessions" / "2026" / "11" / "01"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-{moment.replace(':', '-')}-{thread_id}.jsonl"
    rows = [{"timestamp": f"{moment}.000Z", "type": kind, "payload": payload} for kind, payload in turn]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_793_527_200 + 60 * changed,) * 2)  # ten o'clock
    return thread_id


SPAWN = {"subagent": {"thread_spawn": {"parent_thread_id": identity(1), "depth": 1}}}


@pytest.fixture
def recorded(home: Any) -> Any:
    """A home with threads of several kinds."""
    home.serve(more="[model_providers.other]\nname = 'other'\nbase_url = 'http://127.0.0.1:9/v1'\n")
    record(home, 1, said="Find the needle", changed=9)
    record(home, 2, source="vscode", cwd=str(home.work / "deep"))
    record(home, 3, source="exec")
    record(home, 4, source="mcp", model_provider="other")
    record(home, 5, source={"custom": "mine"})
    record(home, 6, source=SPAWN, parent_thread_id=identity(1))
    record(home, 7, source={"subagent": "review"}, parent_thread_id=identity(6))
    record(home, 8, model_provider="other", git={"branch": "main"}, history_mode="paginated")
    record(home, 9, archived=True)
    (home.work / "deep").mkdir()
    (home.work.parent / "link").symlink_to(home.work / "deep")
    return home


ANY: Mapping[str, Any] = {"modelProviders": []}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [2, 1]),
        (ANY, [8, 2, 1]),
        ({"modelProviders": ["other"]}, [8]),
        ({"archived": True}, [9]),
        ({**ANY, "sourceKinds": ["exec", "appServer"]}, [4, 3]),
        ({"sourceKinds": ["unknown"]}, [5]),
        ({"sourceKinds": ["subAgent"]}, [7, 6]),
        ({"sourceKinds": ["subAgentReview"]}, [7]),
        ({"sourceKinds": ["subAgentThreadSpawn"]}, [6]),
        ({"sourceKinds": ["subAgentOther", "subAgentCompact"]}, []),
        ({"parentThreadId": identity(1)}, [6]),
        ({"ancestorThreadId": identity(1)}, [7, 6]),
        ({"ancestorThreadId": identity(1), "sourceKinds": ["cli"]}, []),
        ({"cwd": "{work}/deep/"}, [2]),
        ({"cwd": ["{work}/../link"]}, [2]),
        ({"cwd": ["{work}", "/nowhere"]}, [1]),
        ({"searchTerm": "needle"}, [1]),
        ({"searchTerm": "NEEDLE"}, []),
        ({"searchTerm": "answer"}, []),
        ({"includedThreadIds": [identity(1), identity(3)]}, [1]),
        ({"includedThreadIds": []}, []),
        ({"excludedThreadIds": [identity(1)]}, [2]),
        ({"sectionId": "s"}, []),
        ({"sectionId": None, "projectId": None, "originators": []}, [2, 1]),
        ({"attachedToThreadId": identity(1)}, []),
        ({**ANY, "sortDirection": "asc"}, [1, 2, 8]),
        ({**ANY, "sortKey": "updated_at"}, [1, 8, 2]),
        ({**ANY, "sortKey": "recency_at", "sortDirection": "asc"}, [2, 8, 1]),
        ({**ANY, "limit": 0}, [8]),
    ],
    ids=str,
)  # fmt: skip
def test_list_is_filtered_and_sorted(
    recorded: Any, connected: Callable[..., Any], params: dict[str, Any], expected: list[int]
) -> None:
    text = json.dumps(params).replace("{work}", str(recorded.work))

    async def run() -> None:
        async with connected() as client:
            found = (await client.call("thread/list", **json.loads(text)))["data"]
            assert [each["id"] for each in found] == [identity(number) for number in expected]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({"cursor": "nonsense"}, -32600, "invalid cursor: nonsense"),
        ({"excludedThreadIds": ["x"]}, -32602, "invalid excluded thread id: invalid character"),
        ({"includedThreadIds": [identity(1)] * 101}, -32602, "includedThreadIds accepts at most 100 entries"),
        ({"originators": ["me"]}, -32602, "originator filtering is not supported by the local app-server"),
        ({"projectId": "p"}, -32602, "project not found: p"),
        ({"parentThreadId": "x"}, -32600, "invalid parent thread id: invalid character"),
        (
            {"parentThreadId": identity(1), "ancestorThreadId": identity(1)},
            -32600,
            "parentThreadId and ancestorThreadId are mutually exclusive",
        ),
        (
            {"parentThreadId": identity(1), "attachedToThreadId": identity(1)},
            -32600,
            "attachedToThreadId cannot be combined with parentThreadId or ancestorThreadId",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_impossible_filter_is_an_error(
    recorded: Any, connected: Callable[..., Any], params: dict[str, Any], code: int, message: str
) -> None:
    async def run() -> None:
        async with connected() as client:
            error = await client.fail("thread/list", **params)
            assert error["code"] == code
            assert error["message"].startswith(message)

    asyncio.run(run())


@pytest.mark.parametrize("key", ["created_at", "updated_at"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_pages_go_in_both_directions(home: Any, connected: Callable[..., Any], key: str, direction: str) -> None:
    home.serve()
    numbers = [record(home, number, changed=20 if number < 4 else 30 - number) for number in range(1, 8)]
    by_change = [*sorted(numbers[:3]), *reversed(numbers[3:])]
    ordered = numbers if key == "created_at" else by_change
    ordered = ordered if direction == "asc" else ordered[::-1]
    sort: dict[str, Any] = {"sortKey": key, "sortDirection": direction, "limit": 2}
    opposite = {**sort, "sortDirection": "desc" if direction == "asc" else "asc", "limit": 100}

    async def run() -> None:
        async with connected() as client:
            seen: list[str] = []
            page: dict[str, Any] = {"nextCursor": None}
            while page["nextCursor"] or not seen:
                page = await client.call("thread/list", **sort, cursor=page["nextCursor"])
                seen += [each["id"] for each in page["data"]]
                back = await client.call("thread/list", **opposite, cursor=page["backwardsCursor"])
                earlier = [each["id"] for each in back["data"]]
                begun = seen.index(page["data"][0]["id"])
                assert set(seen[: begun + 1]) <= set(earlier)
            assert seen == ordered

    asyncio.run(run())


def test_listed_thread_shows_what_its_record_says(recorded: Any, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            (shown,) = (await client.call("thread/list", modelProviders=["other"]))["data"]
            assert (shown["historyMode"], shown["cliVersion"], shown["originator"]) == ("paginated", "1.2.3", "me")
            assert shown["gitInfo"] == {"branch": "main", "sha": None, "originUrl": None}
            assert (shown["createdAt"], shown["updatedAt"]) == (1_793_527_200 + 480,) * 2
            sub_agents = (await client.call("thread/list", sourceKinds=["subAgent"]))["data"]
            assert [each["source"] for each in sub_agents] == [{"subAgent": "review"}, {"subAgent": SPAWN["subagent"]}]
            assert sub_agents[0]["parentThreadId"] == identity(6)

    asyncio.run(run())


def test_loaded_thread_is_listed_with_its_status_and_model(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(say("one"))

    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            assert (await client.call("thread/list"))["data"] == []
            await client.turn(thread_id, "hi", model="gpt-5.4")
            (shown,) = (await client.call("thread/list"))["data"]
            assert (shown["status"], shown["model"]) == ({"type": "idle"}, "gpt-5.4")

    asyncio.run(run())


def test_loaded_threads_come_in_pages(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected() as client:
            ids = [(await client.call("thread/start", ephemeral=True))["thread"]["id"] for _ in range(3)]
            first = await client.call("thread/loaded/list", limit=2)
            assert first == {"data": ids[:2], "nextCursor": ids[1]}
            rest = await client.call("thread/loaded/list", limit=2, cursor=ids[1])
            assert rest == {"data": ids[2:], "nextCursor": None}
            assert (await client.fail("thread/loaded/list", cursor="x"))["message"] == "invalid cursor: x"

    asyncio.run(run())


def test_search_finds_messages_and_streams_what_it_finds(recorded: Any, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            found = (await client.call("thread/search", searchTerm=" NEEDLE "))["data"]
            assert [each["thread"]["id"] for each in found] == [identity(1)]
            assert "the needle" in found[0]["snippet"]
            answers = await client.call("thread/search", searchTerm="answer", limit=1)
            assert [each["thread"]["id"] for each in answers["data"]] == [identity(8)]
            rest = await client.call("thread/search", searchTerm="answer", cursor=answers["nextCursor"])
            assert [each["thread"]["id"] for each in rest["data"]] == [identity(2), identity(1)]
            number = client.start("thread/search/stream", searchTerm="question", sourceKinds=["exec"])
            whole = (await client.response(number))["result"]["data"]
            (partial,) = [each["params"] for each in client.seen if each.get("method") == "thread/search/partial"]
            assert partial == {"requestId": number, "data": whole}
            archived = (await client.call("thread/search", searchTerm="question", archived=True))["data"]
            assert [each["thread"]["id"] for each in archived] == [identity(9)]
            empty = await client.fail("thread/search", searchTerm=" ")
            assert empty["message"] == "thread/search requires a non-empty searchTerm"
            long = await client.fail("thread/search/stream", searchTerm="x" * 65_537)
            assert long["message"] == "thread/search/stream searchTerm must be at most 65536 bytes"

    asyncio.run(run())


def test_cancelled_search_answers_with_an_error(recorded: Any, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            search = client.start("thread/search", searchTerm="question")
            other = client.start("thread/search/stream/cancel", requestId=search)
            cancel = client.start("thread/search/cancel", requestId=search)
            assert (await client.response(other))["result"] == (await client.response(cancel))["result"] == {}
            assert (await client.response(search))["error"]["message"] == "thread/search was cancelled"
            assert (await client.call("thread/search", searchTerm="needle"))["data"] != []
            assert await client.call("thread/search/cancel", requestId=search) == {}

    asyncio.run(run())


def test_occurrences_in_a_thread_have_their_place_and_turn(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()
    long = f"{'a' * 60}😀 Word {'b' * 200}"
    thread_id = record(home, 1, said=long)

    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            params = {"threadId": thread_id, "searchTerm": "word"}
            first = await client.call("thread/searchOccurrences", **params, limit=1)
            (found,) = first["data"]
            start, end = found["snippetMatchRange"]["start"], found["snippetMatchRange"]["end"]
            assert found["snippet"] == f"... {'a' * 47}😀 Word {'b' * 95} ..."
            assert found["snippet"].encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le") == "Word"
            (second,) = (await client.call("thread/searchOccurrences", **params, cursor=first["nextCursor"]))["data"]
            assert second["snippet"].startswith("... ")
            assert second["itemId"] != found["itemId"]
            turns = await client.call("thread/turns/list", threadId=thread_id, cursor=found["turnCursor"])
            assert [turn["id"] for turn in turns["data"]] == [found["turnId"]] == ["turn-1"]
            empty = await client.fail("thread/searchOccurrences", threadId=thread_id, searchTerm="")
            assert empty["message"] == "thread/searchOccurrences requires a non-empty searchTerm"

    asyncio.run(run())
