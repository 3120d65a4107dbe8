"""Requests of parents and children whose ids are the same, and of turns that have ended."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import Approval, Decision, ReviewDecision, ToolApprovalRequestEvent
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
