"""Requests of parents and children whose ids are the same, and of turns that have ended."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from codex_framework import Approval, Decision, Request, ReviewDecision, ThreadError, ToolApprovalRequestEvent
from codex_framework.contract.errors import TurnEnded
from codex_framework.threads.requests import RequestDesk

YES, NO = ReviewDecision(Decision.APPROVED), ReviewDecision(Decision.DENIED)


def asked() -> ToolApprovalRequestEvent:
    return ToolApprovalRequestEvent(
        call_id="call", turn_id="turn", tool="t", approval=Approval(question="?"), request_id="call"
    )


def desk(name: str, *, attended: bool, parent: RequestDesk | None = None) -> RequestDesk:
    return RequestDesk(
        name, tell=lambda scope, msg, child: None, answering=lambda request: int(attended), parent=parent
    )


def test_an_answer_to_a_parent_is_not_taken_for_one_to_a_child_that_asks_under_the_same_id():
    async def story():
        parent = desk("parent", attended=True)
        child = desk("child", attended=False, parent=parent)
        own = asyncio.ensure_future(parent.ask(asked(), "turn"))
        await asyncio.sleep(0)
        of_child = asyncio.ensure_future(child.ask(asked(), "turn"))
        await asyncio.sleep(0)
        ids = [request.request_id for request in parent.open]
        assert ids[0] == "call"
        assert len(set(ids)) == 2
        assert parent.answer("call", YES)
        assert not parent.answer("call", NO)
        assert await own == YES
        assert not of_child.done()
        assert parent.answer(ids[1], NO)
        assert await of_child == NO

    asyncio.run(story())


def test_a_late_answer_to_a_closed_request_answers_no_later_one():
    async def story():
        parent = desk("parent", attended=True)
        child = desk("child", attended=False, parent=parent)
        first = asyncio.ensure_future(parent.ask(asked(), "turn"))
        await asyncio.sleep(0)
        assert parent.answer("call", YES)
        assert await first == YES
        later = [asyncio.ensure_future(each.ask(asked(), "next")) for each in (parent, child)]
        await asyncio.sleep(0)
        assert not parent.answer("call", YES)
        assert "call" not in {request.request_id for request in parent.open}
        for request in list(parent.open):
            assert parent.answer(request.request_id, NO)
        assert await asyncio.gather(*later) == [NO, NO]
        of_child = asyncio.ensure_future(child.ask(asked(), "another"))
        await asyncio.sleep(0)
        assert not parent.answer("child:call", YES), "the id under which the parent showed the child's earlier request"
        of_child.cancel()

    asyncio.run(story())


def test_a_turn_that_has_ended_asks_nobody():
    async def story():
        one = desk("one", attended=True)
        one.abort("turn")
        with pytest.raises(TurnEnded):
            await asyncio.wait_for(one.ask(asked(), "turn"), 1)
        assert one.open == []

    asyncio.run(story())


def test_a_parent_that_was_shut_down_is_not_asked():
    async def story():
        parent = desk("parent", attended=True)
        parent.close()
        child = desk("child", attended=False, parent=parent)
        assert await asyncio.wait_for(child.ask(asked(), "turn"), 1) == asked().unattended()

    asyncio.run(story())


def test_a_turn_takes_its_own_requests_along_and_the_end_of_the_thread_all():
    async def story():
        one = desk("one", attended=True)
        turns = {turn: asyncio.ensure_future(one.ask(asked(), turn)) for turn in ("a", "b", "c")}
        await asyncio.sleep(0)
        one.abort("a")
        await asyncio.sleep(0)
        assert [waiting.cancelled() for waiting in turns.values()] == [True, False, False]
        one.close()
        await asyncio.sleep(0)
        assert [waiting.cancelled() for waiting in turns.values()] == [True, True, True]
        assert one.open == []
        with pytest.raises(TurnEnded):
            await asyncio.wait_for(one.ask(asked(), "d"), 1)

    asyncio.run(story())


def test_a_request_that_nobody_wants_to_answer_is_left_by_way_of_the_parent():
    async def story():
        parent = desk("parent", attended=True)
        child = desk("child", attended=False, parent=parent)
        waiting = asyncio.ensure_future(child.ask(asked(), "turn"))
        await asyncio.sleep(0)
        (shown,) = parent.open
        parent.leave(shown.request_id)
        assert await asyncio.wait_for(waiting, 1) == asked().unattended()
        assert (parent.open, child.open) == ([], [])

    asyncio.run(story())


def test_whoever_asks_hears_that_a_request_is_shown_if_it_waits():
    async def story():
        told = []
        waiting = asyncio.ensure_future(desk("one", attended=True).ask(asked(), shown=lambda: told.append("open")))
        await asyncio.sleep(0)
        assert told == ["open"]
        waiting.cancel()
        await desk("other", attended=False).ask(asked(), shown=lambda: told.append("closed"))
        assert told == ["open"]

    asyncio.run(story())


class _Unanswered(Request[ReviewDecision]):
    type: ClassVar[str] = "test_unanswered"
    answer_type = ReviewDecision


class _Failing(_Unanswered):
    type: ClassVar[str] = "test_failing"

    def unattended(self) -> ReviewDecision:
        raise NotImplementedError("not for this one")

    @property
    def subject(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("request_class", "subject", "problem"),
    [
        (_Unanswered, "the request test_unanswered", "_Unanswered.unattended() is not implemented ("),
        (_Failing, "a _Failing", "_Failing.unattended() failed: NotImplementedError: not for this one ("),
    ],
)
def test_a_request_without_an_answer_for_nobody_fails_and_says_why(request_class, subject, problem):
    async def story():
        events = []
        one = RequestDesk("one", tell=lambda scope, msg, child: events.append(msg), answering=lambda request: 0)
        with pytest.raises(ThreadError) as caught:
            await asyncio.wait_for(one.ask(request_class()), 1)
        assert str(caught.value).startswith(f"nobody can answer {subject}, and {problem}")
        assert events[0].request_id.startswith("request-"), "the kernel names what has no name"

    asyncio.run(story())
