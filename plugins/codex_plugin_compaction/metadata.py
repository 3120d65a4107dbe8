"""The metadata of a request for a compaction, in Codex's words (``compaction`` in ``x-codex-turn-metadata``)."""

from __future__ import annotations

import json

from codex_framework import ModelInfo, ModelRequest, TaskContext
from codex_framework.contract.value import Value

__all__ = ["DOWNSHIFT", "LIMIT", "OTHER_MODEL", "OVERFLOW", "Occasion"]

DOWNSHIFT = "model_downshift"
"""The reason if the thread continues with a model of a smaller window. The larger model then writes the summary."""

OTHER_MODEL = "comp_hash_changed"
"""The reason if the thread continues with a model of another ``compaction_hash``. The earlier model then writes the summary."""

_BY_PREVIOUS = (DOWNSHIFT, OTHER_MODEL)
_MANUAL = "manual"
LIMIT = "context_limit"
"""The reason if the history has reached the limit."""

OVERFLOW = "context_window_exceeded"
"""The ``info`` of a ModelError for a request that does not fit the window."""


class Occasion(Value, kw_only=True):
    """Why and when a conversation is compacted.

    Attributes:
        reason: The reason that the compactor was given.
        phase: ``standalone_turn``, ``pre_turn`` or ``mid_turn``.
        model: The model that is asked. By default, the model of the turn.
    """

    reason: str
    phase: str
    model: ModelInfo | None = None

    @classmethod
    def of(cls, turn: TaskContext, reason: str) -> Occasion:
        """Return the occasion of a compaction that begins now."""
        if reason == _MANUAL:
            return cls(reason=reason, phase="standalone_turn")
        phase = "mid_turn" if turn.samples else "pre_turn"
        return cls(reason=reason, phase=phase, model=turn.facts.previous_model if reason in _BY_PREVIOUS else None)

    def described(self, request: ModelRequest, implementation: str) -> ModelRequest:
        """Return a request with its purpose as metadata. A request that did not fit the window counts as a reached limit.

        Args:
            implementation: ``responses`` if the model writes a summary, and ``responses_compaction_v2`` if its server compacts.
        """
        is_manual = self.reason == _MANUAL
        about = {
            "trigger": "manual" if is_manual else "auto",
            "reason": "user_requested" if is_manual else self.reason if self.reason in _BY_PREVIOUS else LIMIT,
            "implementation": implementation,
            "phase": self.phase,
            "strategy": "memento",
        }
        own = {"request_kind": "compaction", "compaction": json.dumps(about, separators=(",", ":"))}
        return request.evolve(metadata={**request.metadata, **own})
