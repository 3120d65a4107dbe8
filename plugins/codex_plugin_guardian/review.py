"""One review: asks a model, parses its answer, and refuses if there is no clear one."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from typing import Any

from codex_framework import Agent, CodexError, Decision, ReviewDecision, RunResult, Status, ThreadError, TurnContext
from codex_framework.contract.errors import described
from codex_plugin_guardian.action import Request, action_key, summary
from codex_plugin_guardian.answer import SCHEMA, Answer, UnreadableAnswerError, read_answer
from codex_plugin_guardian.assessments import Refused, action_of, tell
from codex_plugin_guardian.breaker import Breaker
from codex_plugin_guardian.events import GuardianAssessmentEvent, GuardianWarningEvent
from codex_plugin_guardian.prompt import case, instructions
from codex_plugin_guardian.settings import Settings

__all__ = ["decision"]

_TRIES = 2
"""How often a model is asked whose answers do not have the required form."""

_NO_WAY_AROUND = (
    "Do not try to get the same result in another way: not by a workaround, not indirectly, not by evading the policy."
    " Go on only with something clearly less risky, or once the user knows the risk and has approved exactly this."
    " Otherwise stop and ask the user."
)

_TIMED_OUT = (
    "The automatic approval review did not come to a decision in time, so this was not done. That does not mean that it is"
    " unsafe. You may try once more, or ask the user for guidance or an explicit approval."
)


async def decision(request: Request, turn: TurnContext, settings: Settings, limit_s: float) -> ReviewDecision:
    """Return the model's decision: ``timed_out`` after ``limit_s`` seconds, ``denied`` after any error.

    An action that the user has approved after its refusal is approved without asking the model.
    """
    cwd = turn.facts.cwd
    refused, key = turn.state(Refused, Refused), action_key(request, cwd)
    begun = tell(
        turn,
        GuardianAssessmentEvent(
            id=str(uuid.uuid4()),
            turn_id=turn.facts.turn_id,
            started_at_ms=_now_ms(),
            status="in_progress",
            action=action_of(request, cwd),
            target_item_id=request.call_id,
        ),
    )
    if refused.take(key):
        turn.state(Breaker, Breaker).record(turn.facts.turn_id, refused=False)
        tell(turn, begun, status="approved", completed_at_ms=_now_ms())
        return ReviewDecision(Decision.APPROVED)
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            answer = await _answer(request, turn, settings)
    except asyncio.CancelledError:
        tell(turn, begun, status="aborted", completed_at_ms=_now_ms())
        raise
    except TimeoutError as error:
        if limit.expired():
            tell(turn, begun, status="timed_out", completed_at_ms=_now_ms())
            turn.emit(
                GuardianWarningEvent(
                    f"The automatic review of {summary(request)} took too long; it was not done.", slug="not-approved"
                )
            )
            return ReviewDecision(Decision.TIMED_OUT, message=_TIMED_OUT)
        answer = _no_answer(error)
    except Exception as error:  # fails closed
        answer = _no_answer(error)
    if not answer.allowed:
        refused.add(begun.id, key, begun.action)
    known = {"risk_level": answer.risk_level, "user_authorization": answer.user_authorization}
    tell(
        turn,
        begun,
        status="approved" if answer.allowed else "denied",
        completed_at_ms=_now_ms(),
        rationale=answer.rationale or None,
        decision_source="agent",
        **{name: None if name == "risk_level" and value == "unknown" else value for name, value in known.items()},
    )
    return _to_decision(answer, request, turn)


def _now_ms() -> int:
    return int(time.time() * 1000)


async def _answer(request: Request, turn: TurnContext, settings: Settings) -> Answer:
    problem: str | None = None
    for _ in range(_TRIES):
        text = await _ask_model(case(request, turn, problem=problem), turn, settings)
        try:
            return read_answer(text)
        except UnreadableAnswerError as error:
            problem = str(error)
    raise UnreadableAnswerError(f"the reviewing model's answer could not be read: {problem}")


async def _ask_model(prompt: str, turn: TurnContext, settings: Settings) -> str:
    """Ask a model in a separate thread, and return its answer.

    The thread has no tools and no context, because the model is asked about untrusted content. Texts of a workspace must not reach
    it as instructions, and the content must not make it use a tool.

    Raises:
        ThreadError: The model gave no answer.
    """
    child = await turn.thread.spawn(_reviewing_agent(turn.facts.config, settings))
    try:
        result: RunResult[str] = await child.run(prompt, output_schema=SCHEMA)
    finally:
        await child.shutdown()
    if result.status is not Status.COMPLETED or not result.final_message:
        raise ThreadError(result.error or "the model gave no answer", slug="turn-failed")
    return result.final_message


def _reviewing_agent(config: Mapping[str, Any], settings: Settings) -> Agent[str]:
    section = config.get("auto_review")
    own = section.get("policy") if isinstance(section, Mapping) else None
    return Agent(
        name="guardian",
        instructions=instructions(own if isinstance(own, str) else ""),
        model=settings.model,
        reasoning_effort=settings.reasoning_effort,
        allowed_tools=(),
        context=(),
        permissions=":read-only",
        approval_policy="never",
        ephemeral=True,
    )


def _to_decision(answer: Answer, request: Request, turn: TurnContext) -> ReviewDecision:
    stop = turn.state(Breaker, Breaker).record(turn.facts.turn_id, refused=not answer.allowed)
    if answer.allowed:
        return ReviewDecision(Decision.APPROVED)
    text = f"Automatic review refused {summary(request)} (risk: {answer.risk_level}): {_brief(answer.rationale)}"
    turn.emit(GuardianWarningEvent(text, slug="not-approved"))
    if stop is not None:
        message = (
            f"Automatic review has stopped the turn: {stop}. Check the agent's request before you let it continue."
        )
        turn.emit(GuardianWarningEvent(message, slug="not-approved"))
        return ReviewDecision(Decision.ABORT)
    message = f"Refused by automatic review: {answer.rationale} {_NO_WAY_AROUND}"
    return ReviewDecision(Decision.DENIED, message=message)


def _no_answer(error: Exception) -> Answer:
    text = str(error) if isinstance(error, CodexError | UnreadableAnswerError) else described(error)
    return Answer(
        allowed=False,
        risk_level="unknown",
        user_authorization="unknown",
        rationale=f"There was no decision, as the review failed ({_brief(text)}).",
    )


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:199]}…"
