"""Requests the summary, repeatedly with less of the history if the request does not fit the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codex_framework import Compaction, ModelError, ModelInfo, ModelRequest, ResponseItem, TaskContext
from codex_framework.contract.protocol.events import BackgroundEvent
from codex_framework.contract.protocol.items import user_message
from codex_plugin_compaction.history import (
    compacted_items,
    is_reducible,
    missing_items,
    shortened,
    summary_text,
    without_oldest,
)
from codex_plugin_compaction.metadata import OVERFLOW, Occasion
from codex_plugin_compaction.prompt import compact_prompt

__all__ = ["compacted", "compaction_request"]

_NOT_FITTING = "overflow"
"""The reason of a compaction after a request of the turn did not fit the window."""

_SHARES = (1 / 2, 1 / 8)
"""The shares of a history that a summary covers if the whole does not fit, after a request of the turn did not fit either."""


async def compacted(turn: TaskContext, occasion: Occasion) -> Compaction:
    """Return the history with a summary in place of the model's output and calls.

    Raises:
        ConfigError: The prompt cannot be read.
        ModelError: The model failed, or not even the prompt alone fits the window.
    """
    history = tuple(turn.history)
    prompt = user_message(compact_prompt(turn.facts.config))
    attempts = _attempts(history, occasion.reason)
    items = next(attempts)
    while True:
        try:
            result = await turn.sample(_request(turn, [*items, prompt], occasion), announce=False)
            break
        except ModelError as error:
            shorter = next(attempts, None)
            if error.info != OVERFLOW or shorter is None:
                raise
            items = shorter
    if missing := missing_items(history, items):
        turn.emit(BackgroundEvent(f"the summary does not cover {missing}, which did not fit"))
    text = summary_text(result.message)
    return Compaction(items=compacted_items(history, text), message=text)


def _attempts(history: Sequence[ResponseItem], reason: str) -> Iterator[Sequence[ResponseItem]]:
    """Yield the history for the summary, each time with fewer items.

    After a reached limit, one item less may suffice, as in Codex. The excess of a request is unknown, and each attempt costs as
    much as a request of the turn.
    """
    items = history
    yield items
    if reason == _NOT_FITTING:
        for share in _SHARES if is_reducible(history) else ():
            if (shorter := shortened(history, share)) != items:
                items = shorter
                yield items
    else:
        while items:
            items = without_oldest(items)
            yield items


def _request(turn: TaskContext, items: Sequence[ResponseItem], occasion: Occasion) -> ModelRequest:
    return compaction_request(turn, turn.draft(items, tools=False), occasion, "responses")


def compaction_request(
    turn: TaskContext, request: ModelRequest, occasion: Occasion, implementation: str
) -> ModelRequest:
    """Return a request for a compaction.

    Args:
        implementation: See :meth:`Occasion.described`.
    """
    request = occasion.described(request.evolve(output_schema=None), implementation)
    model = occasion.model
    if model is None:
        return request
    settings = turn.thread.settings
    return request.evolve(
        model=model,
        reasoning_effort=_effort(settings.reasoning_effort, model),
        verbosity=settings.verbosity or model.verbosity,
    )


def _effort(configured: str | None, model: ModelInfo) -> str | None:
    """Return the effort of an earlier model: the configured one if the model has it, else its middle one (as in Codex)."""
    if not model.efforts:
        return configured or model.default_effort
    return configured if configured in model.efforts else model.efforts[(len(model.efforts) - 1) // 2]
