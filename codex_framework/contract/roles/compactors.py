"""The role of a compactor: how a conversation is shortened when it fills the model's context window."""

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
        tokens: As the server counted last, and an estimate of what came after (4 bytes are a token, as in Codex).
        window: The model's context window in tokens. None if it is not known.
        first: Whether the turn has not sampled yet.
        previous_model: The model of the turn before, if it was another one.
    """

    tokens: int
    window: int | None
    first: bool
    previous_model: ModelInfo | None = None


class Compactor:
    """Shortens conversations. One compactor serves a kernel: ``[framework] compactor``, else the first.

    Attributes:
        name: Short and unique.
    """

    name: ClassVar[str] = ""

    def due(self, status: ContextStatus, turn: TurnFacts) -> str | None:  # noqa: ARG002  # for those who override it
        """Return the reason for a compaction now, or None.

        Asked before every sample, but never twice in a row. A request that overflows the window is always due once, without
        asking. Keep it cheap.
        """
        return None

    @abstractmethod
    async def compact(self, turn: TaskContext, reason: str) -> Compaction:
        """Return what takes the place of the history.

        Args:
            reason: What :meth:`due` gave, or ``manual``, or ``overflow``.
        """
        raise NotImplementedError
