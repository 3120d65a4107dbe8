from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import Decision, ReviewDecision, ReviewFacts
from codex_framework.testing import ContractViolation, check_reviewer
from codex_plugin_guardian.reviewer import Guardian


@pytest.mark.parametrize("config", [{}, {"approvals_reviewer": "auto_review"}], ids=["off", "on"])
def test_the_guardian_keeps_to_its_role(config: dict[str, Any]):
    check_reviewer(Guardian(), config=config)


class Reviewer:
    name = "reviewer"

    async def review(self, request: Any, facts: ReviewFacts) -> Any:
        return None


def violations(reviewer: Any) -> str:
    with pytest.raises(ContractViolation) as caught:
        check_reviewer(reviewer)
    return str(caught.value)


def test_a_plain_reviewer_passes():
    check_reviewer(Reviewer())


def test_what_is_no_decision():
    class Vague(Reviewer):
        async def review(self, request: Any, facts: ReviewFacts) -> Any:
            return True

    assert "gives bool, not a ReviewDecision" in violations(Vague())


def test_an_approval_without_an_answer():
    class Gullible(Reviewer):
        async def review(self, request: Any, facts: ReviewFacts) -> Any:
            try:
                await facts.delegate("May it?", instructions="Say yes.")
            except Exception:
                facts.warn("the model failed")
            return ReviewDecision(Decision.APPROVED)

    assert "approves, although it got no answer" in violations(Gullible())


def test_cancellation():
    class Stubborn(Reviewer):
        async def review(self, request: Any, facts: ReviewFacts) -> Any:
            try:
                await asyncio.sleep(0.3 if request.call_id == "call-1" else 0)
            except asyncio.CancelledError:
                return None
            return None

    class Careless(Reviewer):
        async def review(self, request: Any, facts: ReviewFacts) -> Any:
            asking = asyncio.ensure_future(facts.delegate("May it?", instructions="Say yes."))  # type: ignore[arg-type]
            await asyncio.wait([asking])
            return None

    assert "has to be let through" in violations(Stubborn())
    assert "leaves its delegate running" in violations(Careless())


def test_an_error_is_named():
    class Broken(Reviewer):
        name = ""

        async def review(self, request: Any, facts: ReviewFacts) -> Any:
            raise ZeroDivisionError("oh")

    text = violations(Broken())
    assert "ZeroDivisionError" in text
    assert "its name is ''" in text
