"""One review: asks a model, reads its answer, and refuses whenever there is no clear one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from codex_framework import CodexError, Decision, ReviewDecision, ReviewFacts
from codex_plugin_guardian.action import Request, summary
from codex_plugin_guardian.answer import SCHEMA, Answer, UnreadableAnswerError, read_answer
from codex_plugin_guardian.breaker import Breaker
from codex_plugin_guardian.prompt import case, instructions

__all__ = ["decision"]

_TRIES = 2
"""How often a model is asked that answers in another form than it should."""

_NO_WAY_AROUND = (
    "Do not try to get the same result in another way: not by a workaround, not indirectly, not by evading the policy."
    " Go on only with something clearly less risky, or once the user knows the risk and has approved exactly this."
    " Otherwise stop and ask the user."
)

_TIMED_OUT = (
    "The automatic approval review did not come to a decision in time, so this was not done. That does not mean that it is"
    " unsafe. You may try once more, or ask the user for guidance or an explicit approval."
)


async def decision(request: Request, facts: ReviewFacts, limit_s: float) -> ReviewDecision:
    """What the model decides; ``timed_out`` after ``limit_s`` seconds, ``denied`` if anything goes wrong."""
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            answer = await _answer(request, facts)
    except TimeoutError as error:
        if limit.expired():
            facts.warn(f"The automatic review of {summary(request)} took too long; it was not done.")
            return ReviewDecision(Decision.TIMED_OUT, message=_TIMED_OUT)
        answer = _no_answer(error)
    except Exception as error:  # whatever went wrong, nobody has allowed it
        answer = _no_answer(error)
    return _decided(answer, request, facts)


async def _answer(request: Request, facts: ReviewFacts) -> Answer:
    own = _table(facts.config, "auto_review").get("policy")
    settings = _table(_table(_table(facts.config, "framework"), "plugins"), "guardian")
    problem: str | None = None
    for _ in range(_TRIES):
        text = await facts.delegate(
            case(request, facts, problem=problem),
            instructions=instructions(own if isinstance(own, str) else ""),
            model=settings.get("model"),
            reasoning_effort=settings.get("reasoning_effort", "low"),
            output_schema=SCHEMA,
        )
        try:
            return read_answer(text)
        except UnreadableAnswerError as error:
            problem = str(error)
    raise UnreadableAnswerError(f"the reviewing model's answer could not be read: {problem}")


def _decided(answer: Answer, request: Request, facts: ReviewFacts) -> ReviewDecision:
    stop = facts.state(Breaker, Breaker).record(facts.turn_id, refused=not answer.allowed)
    if answer.allowed:
        return ReviewDecision(Decision.APPROVED)
    facts.warn(f"Automatic review refused {summary(request)} (risk: {answer.risk_level}): {_brief(answer.rationale)}")
    if stop is not None:
        message = f"Automatic review has stopped the turn: {stop}. Look at what the agent wants before it goes on."
        return ReviewDecision(Decision.ABORT, message=message)
    message = f"Refused by automatic review: {answer.rationale} {_NO_WAY_AROUND}"
    return ReviewDecision(Decision.DENIED, message=message)


def _no_answer(error: Exception) -> Answer:
    text = str(error) if isinstance(error, CodexError | UnreadableAnswerError) else f"{type(error).__name__}: {error}"
    return Answer(
        allowed=False,
        risk_level="unknown",
        user_authorization="unknown",
        rationale=f"There was no decision, as the review failed ({_brief(text)}).",
    )


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:199]}…"


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}
