"""The compactor ``summary``: the model itself summarises the conversation, or its server compacts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import Compaction, Compactor, ContextStatus, ModelError, ModelInfo, TaskContext, TurnFacts
from codex_plugin_compaction.metadata import DOWNSHIFT, LIMIT, OTHER_MODEL, OVERFLOW, Occasion

__all__ = ["Summary", "token_limit"]

_WINDOW_PERCENT = 90
"""The share of the window that may be used, in percent of its tokens."""


class Summary(Compactor):
    """Replaces the history by the user's messages and a summary written by the model, or the item of its server."""

    name = "summary"

    def __init__(self) -> None:
        self._due: dict[str, ContextStatus] = {}  # by thread, if the limit is the reason

    def due(self, status: ContextStatus, turn: TurnFacts) -> str | None:
        """Return ``comp_hash_changed``, or if the history has reached the limit, ``context_limit`` or ``model_downshift``."""
        previous = status.previous_model if status.first and not turn.first else None
        if previous is not None and _cannot_continue(previous, turn.model):
            return OTHER_MODEL
        limit = token_limit(status.window, turn.config)
        if limit is None or status.tokens < limit:
            return None
        larger = previous is not None and previous.context_window > (status.window or 0)
        if larger:
            return DOWNSHIFT
        self._due[turn.thread_id] = status
        return LIMIT

    async def compact(self, turn: TaskContext, reason: str) -> Compaction:
        """Request a summary, or a compaction by the server, and return it with the user's messages.

        Raises:
            ConfigError: The prompt cannot be read.
            ModelError: The model returned no summary, or cannot be asked for one. Or the last compaction did not help.
        """
        last = turn.state(_LastCompaction, _LastCompaction)
        status = self._due.pop(turn.facts.thread_id, None)
        if status is not None and reason == LIMIT and last.was_before_last_sample(turn):
            raise _still_above(status, turn)
        compaction = await _compact_turn(turn, Occasion.of(turn, reason))
        last.turn_id, last.samples = turn.facts.turn_id, turn.samples
        return compaction


class _LastCompaction:
    """When a thread was compacted last."""

    turn_id = ""
    samples = 0

    def was_before_last_sample(self, turn: TaskContext) -> bool:
        return self.turn_id == turn.facts.turn_id and self.samples == turn.samples - 1


def _still_above(status: ContextStatus, turn: TaskContext) -> ModelError:
    """Return the error of a turn in which every request would be followed by another compaction (in Codex's words)."""
    limit = token_limit(status.window, turn.facts.config)
    return ModelError(
        f"Conversation is still above the token limit after automatic summarization (limit {limit}, current {status.tokens})",
        info=OVERFLOW,
        hint="Please start a new session or trim your input.",
    )


async def _compact_turn(turn: TaskContext, occasion: Occasion) -> Compaction:
    if turn.server_compacts:
        from codex_plugin_compaction.remote import compacted_by_server

        if (compaction := await compacted_by_server(turn, occasion)) is not None:
            return compaction
    from codex_plugin_compaction.writing import compacted

    return await compacted(turn, occasion)


def _cannot_continue(previous: ModelInfo, model: ModelInfo) -> bool:
    """Return whether a conversation with ``previous`` should reach ``model`` as a summary only."""
    hashes = previous.compaction_hash, model.compaction_hash
    return None not in hashes and hashes[0] != hashes[1]


def token_limit(window: int | None, config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens at which a history is compacted. None means never."""
    share = None if window is None else window * _WINDOW_PERCENT // 100
    wanted = config.get("model_auto_compact_token_limit")
    if not isinstance(wanted, int) or wanted <= 0:
        return share
    return wanted if share is None else min(share, wanted)
