"""The numbers of events, and the log from which clients that come back read on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codex_framework import Event, EventMsg, ThreadError
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
    RequestResolvedEvent,
    ToolApprovalRequestEvent,
    TurnCompleteEvent,
)
from codex_framework.contract.protocol.events.requests import Approval, Closed
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.testing import say
from codex_framework.toolkit.event_log import EventLog


class Feed:
    """The events of a thread, as the test says."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._number = 0

    def send(self, *msgs: EventMsg) -> None:
        for msg in msgs:
            self._number += 1
            self._queue.put_nowait(Event("turn", msg, number=self._number))

    def close(self) -> None:
        self._queue.put_nowait(None)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if (event := await self._queue.get()) is None:
            raise StopAsyncIteration
        return event


def word(text: str) -> EventMsg:
    return AgentMessageEvent(text)


def delta(text: str) -> EventMsg:
    return AgentMessageContentDeltaEvent(thread_id="t", turn_id="turn", item_id="i", delta=text)


async def logged(log: EventLog, number: int) -> None:
    """Wait until the log has an event."""
    while not log.newest.endswith(f"-{number}"):
        await asyncio.wait_for(log.read(log.newest), 60)


def test_all_listeners_get_an_event_with_the_same_number(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("Hello.", deltas=3), say("Again.")]) as thread:
            early, some = thread.events(), thread.events((TurnCompleteEvent,))
            await thread.run("go")
            late = thread.events()
            await thread.run("more")
            await thread.shutdown()
            everything = [event async for event in early]
            numbers = {id(event.msg): event.number for event in everything}
            assert [event.number for event in everything] == list(range(1, len(everything) + 1))
            assert [event.number for event in [event async for event in some]] == [
                event.number for event in everything if isinstance(event.msg, TurnCompleteEvent)
            ]
            head, *rest = [event async for event in late]
            assert head.number == 1
            assert [event.number for event in rest] == [numbers[id(event.msg)] for event in rest]

    asyncio.run(main())


def test_a_listener_sees_by_the_numbers_that_it_has_lost_deltas(make_thread: Any) -> None:
    async def main() -> list[int]:
        async with make_thread([say("word " * 50, deltas=50)]) as thread:
            events = thread.events(limit=20)
            await thread.run("go")
            await thread.shutdown()
            return [event.number async for event in events]

    numbers = asyncio.run(main())
    assert numbers == sorted(numbers)
    assert numbers[-1] > len(numbers)


@pytest.mark.parametrize(
    ("msg", "request_id"),
    [
        (ExecApprovalRequestEvent(call_id="c", turn_id="t", command=("ls",), cwd="/", started_at_ms=1), "c"),
        (
            ExecApprovalRequestEvent(
                call_id="c", turn_id="t", command=("ls",), cwd="/", started_at_ms=1, approval_id="a"
            ),
            "a",
        ),
        (ApplyPatchApprovalRequestEvent(call_id="c", turn_id="t", started_at_ms=1, changes={}), "c"),
        (RequestPermissionsEvent(call_id="c", turn_id="t", started_at_ms=1, cwd="/", permissions={}), "c"),
        (
            ToolApprovalRequestEvent(
                request_id="r", call_id="c", turn_id="t", tool="deploy", approval=Approval(question="Deploy?")
            ),
            "r",
        ),
        (RequestResolvedEvent("r", Closed.ANSWERED), "r"),
    ],
)
def test_the_envelope_names_the_id_of_every_request_in_one_way(msg: EventMsg, request_id: str) -> None:
    wire = to_wire(Event("turn", msg, "child", 7))
    assert wire == {
        "id": "turn",
        "msg": to_wire(msg),
        "number": 7,
        "thread_id": "child",
        "request_id": request_id,
    }


def test_an_event_that_is_no_request_has_codex_s_envelope_and_its_number() -> None:
    assert to_wire(Event("", word("Hi."), number=2)) == {
        "id": "",
        "msg": {"type": "agent_message", "message": "Hi."},
        "number": 2,
    }


def test_readers_go_on_where_they_were() -> None:
    async def main() -> None:
        feed = Feed()
        log = EventLog(feed)
        feed.send(word("one"), word("two"), word("three"))
        await logged(log, 3)
        assert [event.number for event in log.after()] == [1, 2, 3]
        assert [json.loads(event.data)["msg"]["message"] for event in log.after()] == ["one", "two", "three"]
        second = log.after()[1].cursor
        assert [event.number for event in log.after(second)] == [3]
        assert log.after(log.newest) == []
        waiting = [asyncio.ensure_future(log.read(log.newest)) for _ in range(3)]
        feed.send(word("four"))
        for read in await asyncio.wait_for(asyncio.gather(*waiting), 60):
            assert [event.number for event in read] == [4]
        waiting = [asyncio.ensure_future(log.read(log.newest)) for _ in range(3)]
        log.close()
        assert await asyncio.wait_for(asyncio.gather(*waiting), 60) == [[], [], []]
        assert [event.number for event in await log.read(second)] == [3, 4]

    asyncio.run(main())


@pytest.mark.parametrize("bound", [{"most_events": 8}, {"most_bytes": 1_000}])
def test_a_reader_that_has_missed_events_is_told_so_and_can_go_on(bound: Any) -> None:
    async def main() -> None:
        feed = Feed()
        log = EventLog(feed, **bound)
        for count in range(1, 41):
            feed.send(word(f"event {count}"))
            await logged(log, count)
        kept = log.after(log.oldest)
        assert kept[-1].number == 40
        assert 4 <= len(kept) <= 12
        for cursor in ("", log.newest.replace("-40", "-1")):
            with pytest.raises(ThreadError, match="no longer there") as caught:
                log.after(cursor)
            assert caught.value.slug == "events-lost"

    asyncio.run(main())


def test_deltas_are_dropped_first_and_not_missed() -> None:
    async def main() -> None:
        feed = Feed()
        log = EventLog(feed, most_events=20)
        feed.send(word("begin"))
        feed.send(*(delta("x") for _ in range(200)))
        feed.send(word("end"))
        await logged(log, 202)
        numbers = [event.number for event in log.after()]
        assert (numbers[0], numbers[-1]) == (1, 202)
        assert len(numbers) <= 20
        assert numbers[-6:] == [197, 198, 199, 200, 201, 202]
        for count in range(203, 243):
            feed.send(word("more"))
            await logged(log, count)
        with pytest.raises(ThreadError):
            log.after()

    asyncio.run(main())


@pytest.mark.parametrize("bound", [{"most_events": 4}, {"most_events": 1}, {"most_bytes": 500}])
def test_a_dropped_delta_after_the_cursor_is_not_missed(bound: Any) -> None:
    async def main() -> None:
        feed = Feed()
        log = EventLog(feed, **bound)
        feed.send(*(delta("x") for _ in range(40)))
        await logged(log, 40)
        assert [event.number for event in log.after()][-1] == 40

    asyncio.run(main())


def test_a_reader_that_keeps_up_gets_events_that_are_larger_than_the_log() -> None:
    async def main() -> None:
        feed = Feed()
        log = EventLog(feed, most_bytes=1_000)
        seen: list[int] = []

        async def read() -> None:
            cursor = ""
            while events := await log.read(cursor):
                seen.extend(event.number for event in events)
                cursor = events[-1].cursor

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        for _ in range(5):  # all at once
            feed.send(word("small"), word("x" * 5_000), word("small"), word("y" * 5_000))
        feed.close()
        await asyncio.wait_for(reading, 60)
        assert seen == list(range(1, 21))

    asyncio.run(main())


@pytest.mark.parametrize(
    "wrong", ["-1", "RUN", "RUN-", "RUN-x", "RUN--1", "RUN-²", "RUN-99", "0000-1", "RUN-" + "9" * 5_000]
)
def test_a_cursor_of_another_run_or_of_nobody_is_told(wrong: str) -> None:
    async def main() -> None:
        feed = Feed()
        log = EventLog(feed)
        feed.send(word("one"))
        await logged(log, 1)
        with pytest.raises(ThreadError) as caught:
            log.after(wrong.replace("RUN", log.newest.partition("-")[0]))
        assert caught.value.slug == "events-lost"
        assert len(log.after(log.oldest)) == 1

    asyncio.run(main())


def test_a_text_that_is_no_unicode_is_kept_with_a_replacement() -> None:
    async def main() -> bytes:
        feed = Feed()
        log = EventLog(feed)
        feed.send(word("a\ud800b"))
        await logged(log, 1)
        return log.after()[0].data

    assert json.loads(asyncio.run(main()))["msg"]["message"] == "a?b"
