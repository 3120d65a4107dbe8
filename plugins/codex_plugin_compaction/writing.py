"""Requests the summary, repeatedly with less of the history if the request does not fit the window."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import Compaction, ModelError, ModelInfo, ModelRequest, ResponseItem, TaskContext
from codex_framework.contract.protocol.events import BackgroundEvent
from codex_framework.contract.protocol.items import user_message
from codex_plugin_compaction.history import compacted_items, summary_text, without_oldest
from codex_plugin_compaction.prompt import compact_prompt

__all__ = ["OVERFLOW", "compacted", "compaction_request"]

OVERFLOW = "context_window_exceeded"
"""The ``info`` of a ModelError for a request that does not fit the window."""


async def compacted(turn: TaskContext, model: ModelInfo | None) -> Compaction:
    """Return the history with a summary in place of the model's output and calls.

    Args:
        model: The model that writes the summary. None means the model of the turn.

    Raises:
        ConfigError: The prompt cannot be read.
        ModelError: The model failed, or not even the prompt alone fits the window.
    """
    history = tuple(turn.history)
    prompt = user_message(compact_prompt(turn.facts.config))
    items: Sequence[ResponseItem] = history
    while True:
        try:
            result = await turn.sample(_request(turn, [*items, prompt], model), announce=False)
            break
        except ModelError as error:
            if error.info != OVERFLOW or not items:
                raise
            items = without_oldest(items)
    left_out = len(history) - len(items)
    if left_out:
        turn.emit(BackgroundEvent(f"the summary does not cover the {left_out} oldest items, which did not fit"))
    text = summary_text(result.message)
    return Compaction(items=compacted_items(history, text), message=text)


def _request(turn: TaskContext, items: Sequence[ResponseItem], model: ModelInfo | None) -> ModelRequest:
    return compaction_request(turn, turn.draft(items, tools=False), model)


def compaction_request(turn: TaskContext, request: ModelRequest, model: ModelInfo | None) -> ModelRequest:
    """Return a request as that of a compaction.

    Args:
        model: The model to ask. None means the model of the turn.
    """
    request = request.evolve(output_schema=None, metadata={**request.metadata, "request_kind": "compaction"})
    if model is None:
        return request
    settings = turn.thread.settings
    return request.evolve(
        model=model,
        reasoning_effort=settings.reasoning_effort or model.default_effort,
        verbosity=settings.verbosity or model.verbosity,
    )
