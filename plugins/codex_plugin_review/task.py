"""The task of a review."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from codex_framework import Agent, ApprovalPolicy, EventMsg, Message, Task, TaskContext, ThreadClient, ThreadError
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    ErrorEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    RawResponseItemEvent,
    Request,
    RequestResolvedEvent,
    SessionConfiguredEvent,
    ThreadSettingsAppliedEvent,
    TokenCountEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.items import OutputText, user_message
from codex_framework.contract.protocol.ops import TextInput, UserInputOp
from codex_framework.contract.protocol.turn_items import older_events, turn_item
from codex_plugin_review.events import EnteredReviewModeEvent, ExitedReviewModeEvent
from codex_plugin_review.output import (
    INTERRUPTED_ACTION,
    INTERRUPTED_MESSAGE,
    ReviewOutput,
    action,
    read_output,
    rendered,
)
from codex_plugin_review.targets import Target, prompt_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Reviewing"]

_HIDDEN = (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    RawResponseItemEvent,
    Request,
    RequestResolvedEvent,
    SessionConfiguredEvent,
    ThreadSettingsAppliedEvent,
    TokenCountEvent,
    TurnStartedEvent,
    UserMessageEvent,
)
"""Events of the reviewing thread that clients of the thread do not receive from the review. Requests reach them in any case."""

_HIDDEN_ITEMS = ("AgentMessage", "UserMessage")


class Reviewing(Task):
    """Runs one review in a separate thread, and records its output in this thread."""

    kind = "review"

    async def run(self, turn: TaskContext, input: tuple[Target, str | None]) -> str | None:  # noqa: A002  # the contract's word
        """Review.

        Raises:
            ThreadError: There is nothing to review, or the reviewing model failed.
        """
        target, hint = input
        prompt = await prompt_of(target, turn.thread)
        hint = hint or target.hint
        item = {"type": "EnteredReviewMode", "target": dict(target.wire), "user_facing_hint": hint}
        _tell(turn, item, EnteredReviewModeEvent(target.wire, hint))
        output: ReviewOutput | None = None
        try:
            text = await _ask_reviewer(prompt, turn)
            output = read_output(text) if text.strip() else None
        finally:
            message = _record(turn, output)
        return message


async def _ask_reviewer(prompt: str, turn: TaskContext) -> str:
    """Return the final message of the reviewing model. Clients see its work as a part of the turn.

    Raises:
        ThreadError: The model failed, or a limit was reached.
    """
    child = await turn.thread.spawn(_reviewer(turn), extra={"source_detail": {"subagent": "review"}})
    try:
        problem: ErrorEvent | None = None
        async with aclosing(_events(child, prompt)) as events:
            async for msg in events:
                match msg:
                    case ErrorEvent():
                        problem = msg
                    case TurnCompleteEvent(last_agent_message=text) if problem is None:
                        return text or ""
                    case TurnCompleteEvent() | TurnAbortedEvent():
                        raise _failure(msg, problem)
                    case _:
                        _forward(msg, turn)
    finally:
        await child.shutdown()
    raise ThreadError("the reviewing thread was shut down", slug="shut-down")


def _failure(end: TurnCompleteEvent | TurnAbortedEvent, problem: ErrorEvent | None) -> ThreadError:
    if problem is not None:
        return ThreadError(problem.message, slug="turn-failed")
    reason = end.reason if isinstance(end, TurnAbortedEvent) else "failed"
    return ThreadError(f"the review was stopped: {reason}", slug="turn-failed")


async def _events(child: ThreadClient, prompt: str) -> AsyncGenerator[EventMsg, None]:
    """Submit the prompt and yield the events of the child, which leaves its requests to the parent's clients."""
    subscription = child.events(answers=False)
    await child.submit(UserInputOp((TextInput(prompt),)))
    async for event in subscription:
        yield event.msg


def _reviewer(turn: TaskContext) -> Agent[str]:
    """Return the agent. It has the permissions of the thread, asks for no approvals, and reads no instructions of the workspace."""
    from codex_plugin_review.prompt import INSTRUCTIONS

    model = turn.facts.config.get("review_model")
    asks = turn.facts.approval_policy is ApprovalPolicy.UNTRUSTED  # `never` would not be stricter
    return Agent(
        name="review",
        instructions=INSTRUCTIONS,
        model=model if isinstance(model, str) and model else None,
        disallowed_tools=("web_search",),
        context=("environment",),
        approval_policy=None if asks else ApprovalPolicy.NEVER.value,
    )


def _forward(msg: EventMsg, turn: TaskContext) -> None:
    """Show an event of the reviewing thread as one of the turn."""
    if isinstance(msg, _HIDDEN):
        return
    if isinstance(msg, ItemStartedEvent | ItemCompletedEvent):
        if msg.item.get("type") in _HIDDEN_ITEMS:
            return
        msg = msg.evolve(thread_id=turn.facts.thread_id)
    if hasattr(msg, "turn_id"):
        msg = msg.evolve(turn_id=turn.facts.turn_id)
    turn.emit(msg)


def _record(turn: TaskContext, output: ReviewOutput | None) -> str | None:
    """Record the output, or its absence, and return it as text."""
    text = INTERRUPTED_MESSAGE if output is None else rendered(output)
    turn.record([user_message(INTERRUPTED_ACTION if output is None else action(text))])
    wire = None if output is None else dict(output)
    _tell(turn, {"type": "ExitedReviewMode", "review_output": wire}, ExitedReviewModeEvent(wire))
    message = Message("assistant", (OutputText(text),))
    turn.record([message])
    item = turn_item(message) or {}
    _tell(turn, item, *(older_events(item) or ()))
    return text


def _tell(turn: TaskContext, item: Mapping[str, Any], *older: EventMsg) -> None:
    """Show an item of the turn, and the older events that say the same."""
    facts = turn.facts
    whole = {
        "type": item["type"],
        "id": f"{item['type']}-{facts.turn_id}",
        **{k: v for k, v in item.items() if k != "id"},
    }
    now = int(time.time() * 1000)
    turn.emit(ItemStartedEvent(facts.thread_id, facts.turn_id, whole, now))
    turn.emit(ItemCompletedEvent(facts.thread_id, facts.turn_id, whole, now))
    for event in older:
        turn.emit(event)
