"""The compactor ``summary``: the model itself summarises the conversation, or its server compacts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import Compaction, Compactor, ContextStatus, ModelInfo, TaskContext, TurnFacts
from codex_plugin_compaction.metadata import DOWNSHIFT, OTHER_MODEL, Occasion

__all__ = ["Summary", "token_limit"]

_WINDOW_PERCENT = 90
"""The share of the window that may be used, in percent of its tokens."""


class Summary(Compactor):
    """Replaces the history by the user's messages and a summary written by the model, or the item of its server."""

    name = "summary"

    def due(self, status: ContextStatus, turn: TurnFacts) -> str | None:
        """Return ``comp_hash_changed``, or if the history has reached the limit, ``context_limit`` or ``model_downshift``."""
        previous = status.previous_model if status.first and not turn.first else None
        if previous is not None and _cannot_continue(previous, turn.model):
            return OTHER_MODEL
        limit = token_limit(status.window, turn.config)
        if limit is None or status.tokens < limit:
            return None
        larger = previous is not None and previous.context_window > (status.window or 0)
        return DOWNSHIFT if larger else "context_limit"

    async def compact(self, turn: TaskContext, reason: str) -> Compaction:
        """Request a summary, or a compaction by the server, and return it with the user's messages.

        Raises:
            ConfigError: The prompt cannot be read.
            ModelError: The model returned no summary, or cannot be asked for one.
        """
        occasion = Occasion.of(turn, reason)
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
    """Return the number of tokens from which on a history is compacted. None means never."""
    share = None if window is None else window * _WINDOW_PERCENT // 100
    wanted = config.get("model_auto_compact_token_limit")
    if not isinstance(wanted, int) or wanted <= 0:
        return share
    return wanted if share is None else min(share, wanted)
