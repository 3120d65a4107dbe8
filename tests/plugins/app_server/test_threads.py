"""Threads: their life, their record, several clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codex_framework.testing.replies import call, custom_call, reasoning, reply, say
from codex_plugin_app_server.thread_notes import ThreadNotes


def test_thread_is_named_listed_read_archived_and_deleted(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(say("one"), say("two"))

    async def run() -> None:
        async with connected() as client:
            thread = (await client.call("thread/start", cwd=str(home.work)))["thread"]
            thread_id = thread["id"]
            assert (await client.call("thread/loaded/list"))["data"] == [thread_id]
            first = await client.turn(thread_id, "first question")
            second = await client.turn(thread_id, "second question")
            await client.call("thread/name/set", threadId=thread_id, name=" nice ")
            assert (await client.notification("thread/name/updated"))["threadName"] == "nice"
            listed = (await client.call("thread/list", searchTerm="nice", cwd=str(home.work)))["data"]
            assert [(each["id"], each["name"], each["preview"]) for each in listed] == [
                (thread_id, "nice", "first question")
            ]
            read = (await client.call("thread/read", threadId=thread_id, includeTurns=True))["thread"]
            assert [turn["id"] for turn in read["turns"]] == [first["id"], second["id"]]
            assert [item["type"] for item in read["turns"][0]["items"]] == ["userMessage", "agentMessage"]
            await client.call("thread/archive", threadId=thread_id)
            await client.notification("thread/archived")
            assert (await client.call("thread/loaded/list"))["data"] == []
            assert (await client.call("thread/list"))["data"] == []
            assert [each["id"] for each in (await client.call("thread/list", archived=True))["data"]] == [thread_id]
            back = await client.call("thread/unarchive", threadId=thread_id)
            assert back["thread"]["status"] == {"type": "notLoaded"}
            await client.call("thread/delete", threadId=thread_id)
            await client.notification("thread/deleted")
            assert (await client.call("thread/list"))["data"] == []
            gone = await client.fail("thread/resume", threadId=thread_id)
            assert gone["message"] == f"no rollout found for thread id {thread_id}"

    asyncio.run(run())


def test_turns_and_items_come_in_pages_that_stay_valid(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(*(say(f"a{place}") for place in range(4)))

    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            ids = [(await client.turn(thread_id, f"q{place}"))["id"] for place in range(3)]
            page = await client.call("thread/turns/list", threadId=thread_id, limit=2)
            assert [turn["id"] for turn in page["data"]] == [ids[2], ids[1]]
            ids.append((await client.turn(thread_id, "q3"))["id"])
            rest = await client.call("thread/turns/list", threadId=thread_id, limit=2, cursor=page["nextCursor"])
            assert [turn["id"] for turn in rest["data"]] == [ids[0]]
            assert rest["nextCursor"] is None
            newer = await client.call(
                "thread/turns/list", threadId=thread_id, cursor=page["backwardsCursor"], sortDirection="asc"
            )
            assert [turn["id"] for turn in newer["data"]] == [ids[2], ids[3]]
            items = await client.call("thread/items/list", threadId=thread_id, turnId=ids[3])
            assert [entry["item"]["type"] for entry in items["data"]] == ["userMessage", "agentMessage"]
            assert (await client.fail("thread/turns/list", threadId=thread_id, cursor="x"))["code"] == -32600

    asyncio.run(run())


def test_history_has_the_ids_and_times_that_clients_have_seen(home: Any, connected: Callable[..., Any]) -> None:
    command, patch = call("exec_command", cmd="echo a"), "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
    thought = reply(*reasoning("one", "two").items, *say("first").items)
    home.serve(say("dropped"), command, custom_call("apply_patch", patch), thought)

    async def run() -> None:
        async with connected("sandbox_mode='danger-full-access'", "approval_policy='never'") as client:
            thread_id = (await client.call("thread/start", cwd=str(home.work)))["thread"]["id"]
            dropped = await client.turn(thread_id, "q0")
            await client.call("thread/revert", threadId=thread_id, beforeTurnId=dropped["id"])
            begun = len(client.seen)
            await client.turn(thread_id, "q1")
            notes = [each["params"] for each in client.seen[begun:] if each.get("method") == "item/completed"]
            live = [note["item"] for note in notes]
            kinds = ["userMessage", "commandExecution", "fileChange", "reasoning", "agentMessage"]
            assert [item["type"] for item in live] == kinds
            (turn,) = (await client.call("thread/read", threadId=thread_id, includeTurns=True))["thread"]["turns"]
            assert turn["items"] == live
            listed = (await client.call("thread/items/list", threadId=thread_id))["data"]
            times = [(each["startedAtMs"], each["completedAtMs"]) for each in listed]
            assert times == [
                (item["startedAtMs"], note["completedAtMs"]) for item, note in zip(live, notes, strict=True)
            ]
            assert all(started <= ended for started, ended in times)

    asyncio.run(run())


def test_compaction_is_a_turn_of_the_history(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(say("a1"), say("summary"), say("a2"))

    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            first = await client.turn(thread_id, "q1")
            await client.call("thread/compact/start", threadId=thread_id)
            compaction = (await client.notification("turn/completed"))["turn"]["id"]
            last = await client.turn(thread_id, "q2")
            turns = (await client.call("thread/turns/list", threadId=thread_id, itemsView="full"))["data"]
            assert [turn["id"] for turn in turns] == [last["id"], compaction, first["id"]]
            assert [item["type"] for item in turns[1]["items"]] == ["contextCompaction"]

    asyncio.run(run())


def test_reverted_turns_are_gone_for_the_model_too(home: Any, connected: Callable[..., Any]) -> None:
    model = home.serve(say("a1"), say("a2"), say("a3"))

    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            first, second = [await client.turn(thread_id, text) for text in ("q1", "q2")]
            await client.call("thread/revert", threadId=thread_id, beforeTurnId=second["id"])
            await client.notification("thread/reverted")
            third = await client.turn(thread_id, "q3")
            turns = (await client.call("thread/turns/list", threadId=thread_id))["data"]
            assert [turn["id"] for turn in turns] == [third["id"], first["id"]]

    asyncio.run(run())
    assert "q2" not in str(model.requests[2].json["input"])


def test_fork_begins_as_its_origin(home: Any, connected: Callable[..., Any]) -> None:
    model = home.serve(say("a1"), say("a2"), say("a3"))

    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            first = await client.turn(thread_id, "q1")
            await client.turn(thread_id, "q2")
            fork = (await client.call("thread/fork", threadId=thread_id, lastTurnId=first["id"]))["thread"]
            assert fork["forkedFromId"] == thread_id
            assert len(fork["turns"]) == 1
            await client.turn(fork["id"], "q3")

    asyncio.run(run())
    asked = str(model.requests[2].json["input"])
    assert "q1" in asked
    assert "q2" not in asked


def test_first_of_several_clients_answers_and_a_later_one_is_asked_again(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve(call("exec_command", cmd="touch x", sandbox_permissions="require_escalated"), say("ok"))

    async def run() -> None:
        async with serving() as running:
            first, second, stranger = running.connect(), running.connect(), running.connect()
            for client in (first, second, stranger):
                await client.hello()
            started = await first.call("thread/start", cwd=str(home.work), approvalPolicy="on-request")
            thread_id = started["thread"]["id"]
            first.start("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
            question = await first.question()
            first.leave()
            joined = await second.call("thread/resume", threadId=thread_id, excludeTurns=True)
            assert joined["thread"]["status"] == {"type": "active", "activeFlags": ["waitingOnApproval"]}
            again = await second.question()
            assert again == question
            stranger.answer(question, decision="accept")
            await stranger.call("thread/loaded/list")
            assert "serverRequest/resolved" not in second.methods()
            second.answer(again, decision="decline")
            assert (await second.notification("serverRequest/resolved"))["requestId"] == question["id"]
            assert (await second.notification("turn/completed"))["turn"]["status"] == "completed"

    asyncio.run(run())
    assert not (home.work / "x").exists()


def test_client_that_does_not_read_delays_nobody(home: Any, serving: Callable[..., Any]) -> None:
    home.serve(say("x" * 1_000_000), repeat_last=True)

    async def run() -> None:
        async with serving() as running:
            fast, slow = running.connect(), running.connect()
            await fast.hello()
            await slow.hello()
            thread_id = (await fast.call("thread/start"))["thread"]["id"]
            await slow.call("thread/resume", threadId=thread_id, excludeTurns=True)
            slow.reading.clear()
            for _ in range(16):  # two messages of a megabyte each
                assert (await fast.turn(thread_id, "hi"))["status"] == "completed"
            assert not fast.closed
            await slow.until_closed()

    asyncio.run(run())


def test_skills_profiles_and_models_are_listed(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()
    skill = home.path / "skills" / "sing"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: sing\ndescription: Sings.\n---\nSing.\n")

    async def run() -> None:
        async with connected() as client:
            entry = (await client.call("skills/list", cwds=[str(home.work)]))["data"][0]
            assert ("sing", "user", True) in [
                (each["name"], each["scope"], each["enabled"]) for each in entry["skills"]
            ]
            profiles = (await client.call("permissionProfile/list"))["data"]
            assert {"id": ":read-only", "description": None, "allowed": True} in profiles
            page = await client.call("model/list", limit=2)
            assert len(page["data"]) == 2
            assert (await client.call("model/list", cursor=page["nextCursor"]))["data"][0] not in page["data"]

    asyncio.run(run())


def test_login_with_a_key_is_stored_and_removed(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected() as client:
            refused = await client.fail("account/rateLimits/read")
            assert refused["message"] == "codex account authentication required to read rate limits"
            await client.call("account/login/start", type="apiKey", apiKey="sk-test")
            assert (await client.notification("account/updated"))["authMode"] == "apikey"
            assert (await client.call("account/read"))["account"] == {"type": "apiKey"}
            assert "sk-test" in (home.path / "auth.json").read_text()
            await client.call("account/logout")
            assert (await client.call("account/read"))["account"] is None

    asyncio.run(run())


def test_new_thread_is_recorded_by_whole_items(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(call("exec_command", cmd="echo hi"), say("ok"))

    async def run() -> None:
        async with connected() as client:
            thread = (await client.call("thread/start", sandbox="danger-full-access"))["thread"]
            assert thread["historyMode"] == "paginated"
            await client.turn(thread["id"], "go")
            items = (await client.call("thread/items/list", threadId=thread["id"]))["data"]
            assert [entry["item"]["type"] for entry in items] == ["userMessage", "commandExecution", "agentMessage"]
            lines = [json.loads(line) for line in Path(thread["path"]).read_text().splitlines()]
            assert [line["ordinal"] for line in lines] == list(range(len(lines)))

    asyncio.run(run())


def test_clients_note_git_information_beside_the_record(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(say("one"))

    async def note(client: Any, thread_id: str, **git: Any) -> Any:
        return (await client.call("thread/metadata/update", threadId=thread_id, gitInfo=git))["thread"]["gitInfo"]

    async def write() -> str:
        async with connected() as client:
            thread_id: str = (await client.call("thread/start"))["thread"]["id"]
            await client.turn(thread_id, "hi")
            whole = {"branch": "main", "sha": None, "originUrl": None}
            assert await note(client, thread_id, branch=" main ") == whole
            assert await note(client, thread_id, branch=None) is None
            assert await note(client, thread_id, sha="abc") == {**whole, "branch": None, "sha": "abc"}
            daybreak = await client.call("thread/metadata/update", threadId=thread_id, daybreakEnabled=True)
            assert (daybreak["thread"]["daybreakEnabled"], daybreak["thread"]["gitInfo"]["sha"]) == (True, "abc")
            ephemeral = (await client.call("thread/start", ephemeral=True))["thread"]["id"]
            unknown = "01a2237f-0000-7000-8000-000000000000"
            for params, message in (
                ({"threadId": thread_id}, "thread metadata update must include at least one field"),
                ({"threadId": thread_id, "gitInfo": {}}, "gitInfo must include at least one field"),
                ({"threadId": thread_id, "gitInfo": {"sha": " "}}, "gitInfo.sha must not be empty"),
                ({"threadId": thread_id, "projectId": "p"}, "project not found: p"),
                (
                    {"threadId": ephemeral, "gitInfo": {"sha": "x"}},
                    f"ephemeral thread does not support metadata updates: {ephemeral}",
                ),
                ({"threadId": unknown, "gitInfo": {"sha": "x"}}, f"no rollout found for thread id {unknown}"),
            ):
                assert (await client.fail("thread/metadata/update", **params))["message"] == message
            return thread_id

    async def read(thread_id: str) -> None:
        async with connected() as client:
            shown = [
                (await client.call("thread/list"))["data"][0],
                (await client.call("thread/read", threadId=thread_id))["thread"],
                (await client.call("thread/resume", threadId=thread_id, excludeTurns=True))["thread"],
            ]
            assert [(thread["gitInfo"]["sha"], thread["daybreakEnabled"]) for thread in shown] == [("abc", True)] * 3
            await client.call("thread/delete", threadId=thread_id)
        assert ThreadNotes(home.path).add_to([{"id": thread_id, "gitInfo": None}]) == [
            {"id": thread_id, "gitInfo": None}
        ]

    asyncio.run(read(asyncio.run(write())))
