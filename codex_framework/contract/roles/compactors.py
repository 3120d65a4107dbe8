"""The role of a compactor, which shortens a conversation that fills the model's context window."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.outcomes import Compaction
from codex_framework.contract.roles.tasks import TaskContext
from codex_framework.contract.value import Value

__all__ = ["Compactor", "ContextStatus"]


class ContextStatus(Value, kw_only=True):
    """How full the context window is.

    Attributes:
        tokens: The last count of the server, plus an estimate of later items (4 bytes per token, as in Codex).
        window: The model's context window in tokens, if known.
        first: Whether the turn has sent no request yet.
        previous_model: The model of the previous turn, if it was another one.
    """

    tokens: int
    window: int | None
    first: bool
    previous_model: ModelInfo | None = None


class Compactor:
    """Shortens conversations. A kernel uses one compactor: the one named in ``[framework] compactor``, or the first.

    Attributes:
        name: Short and unique.
    """

    name: ClassVar[str] = ""

    def due(self, status: ContextStatus, turn: TurnFacts) -> str | None:  # noqa: ARG002  # for those who override it
        """Return the reason for a compaction now, or None if no compaction is needed.

        Called before every sample, but never twice in a row. If a request exceeds the window, the history is compacted once without
        calling this. Keep it cheap.
        """
        return None

    @abstractmethod
    async def compact(self, turn: TaskContext, reason: str) -> Compaction:
        """Return the history that replaces the current one.

        Args:
            reason: The result of :meth:`due`, or ``manual``, or ``overflow``.

        Raises:
            ModelError: If its ``info`` is ``context_window_exceeded``, the turn fails, because no request would fit. After any
                other error, the turn continues without a compaction, with a warning.
        """
        raise NotImplementedError
