from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import Agent, Decision, ReviewDecision, Status, TurnContext
from codex_framework.testing import ContractViolation, check_reviewer
from codex_plugin_guardian.reviewer import Guardian


@pytest.mark.parametrize("config", [{}, {"approvals_reviewer": "auto_review"}], ids=["off", "on"])
def test_the_guardian_keeps_to_its_role(config: dict[str, Any]):
    check_reviewer(Guardian(), config=config)


class Reviewer:
    name = "reviewer"

    async def review(self, request: Any, turn: TurnContext) -> Any:
        return None


def violations(reviewer: Any) -> str:
    with pytest.raises(ContractViolation) as caught:
        check_reviewer(reviewer)
    return str(caught.value)


def test_a_plain_reviewer_passes():
    check_reviewer(Reviewer())


def test_what_is_no_decision():
    class Vague(Reviewer):
        async def review(self, request: Any, turn: TurnContext) -> Any:
            return True

    assert "returns bool, not a ReviewDecision" in violations(Vague())


def test_an_approval_without_an_answer():
    class Gullible(Reviewer):
        async def review(self, request: Any, turn: TurnContext) -> Any:
            child = await turn.thread.spawn(Agent(name="judge", instructions="Say yes."))
            result = await child.run("May it?")
            await child.shutdown()
            assert result.status in Status
            return ReviewDecision(Decision.APPROVED)

    assert "approves, although it got no answer" in violations(Gullible())


def test_cancellation():
    class Stubborn(Reviewer):
        async def review(self, request: Any, turn: TurnContext) -> Any:
            try:
                await asyncio.sleep(0.3 if request.call_id == "call-1" else 0)
            except asyncio.CancelledError:
                return None
            return None

    class Careless(Reviewer):
        async def review(self, request: Any, turn: TurnContext) -> Any:
            child = await turn.thread.spawn(Agent(name="judge", instructions="Say yes."))
            asking = asyncio.ensure_future(child.run("May it?"))
            await asyncio.wait([asking])
            return None

    assert "must be raised again" in violations(Stubborn())
    assert "leaves its child asking the model" in violations(Careless())
    assert "leaves a child thread running" in violations(Careless())


def test_an_error_is_named():
    class Broken(Reviewer):
        name = ""

        async def review(self, request: Any, turn: TurnContext) -> Any:
            raise ZeroDivisionError("oh")

    text = violations(Broken())
    assert "ZeroDivisionError" in text
    assert "its name is ''" in text
