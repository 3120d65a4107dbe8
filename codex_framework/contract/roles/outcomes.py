"""How turns end, what they use, and how history is edited."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.value import Value

__all__ = ["Compaction", "HistoryEdit", "Limits", "Outcome", "RolledBack", "SampleResult", "Status", "Usage"]


class Status(enum.StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LIMITED = "limited"
    """A limit of the thread was reached. Raising it and another input go on. Wire: ``turn_aborted`` with ``budget_limited``."""


class Usage(Value):
    """What a turn, a run or a thread has used, its children included.

    Attributes:
        requests: Requests to a model.
        tool_calls: Calls of tools.
        tokens: Tokens as the provider counted them.
    """

    requests: int = 0
    tool_calls: int = 0
    tokens: TokenUsage = TokenUsage()

    def __add__(self, other: Usage) -> Usage:
        """Add field by field."""
        return Usage(self.requests + other.requests, self.tool_calls + other.tool_calls, self.tokens + other.tokens)


class Outcome(Value, kw_only=True):
    """The end of a turn.

    Attributes:
        last_agent_message: The model's last message. None if it said nothing.
        error: Why the turn failed. None unless ``status`` is ``failed``.
        info: The error's ``CodexErrorInfo`` wire value.
        reason: Why it was aborted: ``interrupted``, ``replaced``, ``review_ended`` or ``budget_limited``.
    """

    status: Status
    last_agent_message: str | None = None
    error: str | None = None
    info: str | Mapping[str, Any] = "other"
    reason: str | None = None
    usage: Usage = Usage()


class Compaction(Value, kw_only=True):
    """A shorter history.

    Attributes:
        items: What takes the place of history, oldest first, without instructions and context: the kernel asks the context
            sources again and puts these in.
        message: The summary, as it is kept in the record.
    """

    items: Sequence[ResponseItem]
    message: str


class RolledBack(Value):
    """The last ``turns`` turns are taken out of history. Files are not touched."""

    turns: int


HistoryEdit: TypeAlias = Compaction | RolledBack


class SampleResult(Value, kw_only=True):
    """A response of the model to a task.

    Attributes:
        items: All items of the response. They are not recorded: the task decides.
        message: The text of the last assistant message. None if there is none.
        usage: Tokens of the response. None if the provider does not count.
    """

    items: Sequence[ResponseItem]
    message: str | None
    usage: TokenUsage | None


class Limits(Value, kw_only=True):
    """The most that a thread and its children may use together. None means no limit.

    When a limit is reached, the turn ends as ``limited`` at its next sample.

    Attributes:
        requests: Requests to a model.
        tokens: Tokens as the provider counts them.
        tool_calls: Calls of tools.
        seconds: Time in which turns were running, in seconds.
    """

    requests: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
