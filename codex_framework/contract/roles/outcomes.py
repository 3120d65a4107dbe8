"""The outcomes of turns, their usage, and edits of the history."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.value import Value, field, fields_of

__all__ = ["Compaction", "HistoryEdit", "Limits", "Outcome", "RolledBack", "SampleResult", "Status", "Usage"]


class Status(enum.StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LIMITED = "limited"
    """A limit of the thread was reached. Raise it and submit an input to continue. Wire: ``turn_aborted`` with ``budget_limited``."""


class Usage(Value):
    """The usage of a turn or a run, children of the thread included.

    The usage of a turn begins where the usage of the previous turn of the thread ends: usage of children between two turns
    belongs to the later one. The sum over all turns is therefore the usage of the thread.

    Attributes:
        requests: Requests to a model, including failed and interrupted requests.
        tool_calls: Calls of tools, including failed and refused calls.
        tokens: Tokens as the provider counted them. A provider does not count a response that was interrupted.
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
        last_agent_message: The model's last message, if any.
        error: Why the turn failed. None unless ``status`` is ``failed``.
        info: The error's ``CodexErrorInfo`` wire value.
        failure: The exception behind ``error``, a ``ModelError`` if the model or its server failed. None if there is no single
            one.
        reason: Why the turn was aborted: ``interrupted``, ``replaced``, ``review_ended`` or ``budget_limited``.
    """

    status: Status
    last_agent_message: str | None = None
    error: str | None = None
    info: str | Mapping[str, Any] = "other"
    failure: CodexError | None = field(default=None, eq=False, repr=False)
    reason: str | None = None
    usage: Usage = Usage()


class Compaction(Value, kw_only=True):
    """A shorter history.

    Attributes:
        items: The new history, oldest first, without instructions and context. The kernel adds these again from the context
            sources.
        message: The summary for the record.
    """

    items: Sequence[ResponseItem]
    message: str


class RolledBack(Value):
    """The removal of the last ``turns`` turns from the history. Files are not changed."""

    turns: int


HistoryEdit: TypeAlias = Compaction | RolledBack


class SampleResult(Value, kw_only=True):
    """A response of the model to a task's request.

    Attributes:
        items: All items of the response. They are not recorded; the task decides whether to record them.
        message: The text of the last assistant message, if any.
        usage: Tokens of the response. None if the provider does not count.
    """

    items: Sequence[ResponseItem]
    message: str | None
    usage: TokenUsage | None


class Limits(Value, kw_only=True):
    """Limits of a thread together with its children. By default, there is no limit.

    When a limit is reached, the turn ends as ``limited`` at its next sample. Earlier usage still counts after a resume.

    Attributes:
        requests: Requests to a model.
        turns: Turns, without the children's. One more makes no request.
        tokens: Tokens as the provider counts them.
        tool_calls: Calls of tools.
        seconds: Time in which turns were running, in seconds, children included. Turns that run at the same time count once.
        cost: Money, in the currency of the prices of the models (``ModelInfo.prices``). Models without prices do not count,
            which is a warning.
    """

    requests: int | None = None
    turns: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    cost: float | None = None

    def smaller(self, other: Limits) -> Limits:
        """Return the smaller of two limits, field by field."""
        names = [each.name for each in fields_of(Limits)]
        both = {
            name: [most for most in (getattr(self, name), getattr(other, name)) if most is not None] for name in names
        }
        return Limits(**{name: min(found) for name, found in both.items() if found})
