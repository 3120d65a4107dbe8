"""The events of 2025 with which clients get text while the model writes it. Each repeats an event of today."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import Component, EventMsg, ThreadComponent, ThreadContext, Value
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
)

__all__ = ["AgentMessageDelta", "AgentReasoningDelta", "AgentReasoningRawContentDelta", "OlderDeltas", "Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.older_ops]``.

    Attributes:
        deltas: Whether the older delta events are sent in addition to the current ones.
    """

    deltas: bool = False


class AgentMessageDelta(EventMsg):
    """A piece of a message (``agent_message_content_delta`` today)."""

    type: ClassVar[Literal["agent_message_delta"]] = "agent_message_delta"
    is_delta = True
    delta: str


class AgentReasoningDelta(EventMsg):
    """A piece of a reasoning summary (``reasoning_content_delta`` today)."""

    type: ClassVar[Literal["agent_reasoning_delta"]] = "agent_reasoning_delta"
    is_delta = True
    delta: str


class AgentReasoningRawContentDelta(EventMsg):
    """A piece of raw reasoning (``reasoning_raw_content_delta`` today)."""

    type: ClassVar[Literal["agent_reasoning_raw_content_delta"]] = "agent_reasoning_raw_content_delta"
    is_delta = True
    delta: str


_OLDER: dict[type[EventMsg], type[AgentMessageDelta | AgentReasoningDelta | AgentReasoningRawContentDelta]] = {
    AgentMessageContentDeltaEvent: AgentMessageDelta,
    ReasoningContentDeltaEvent: AgentReasoningDelta,
    ReasoningRawContentDeltaEvent: AgentReasoningRawContentDelta,
}


class OlderDeltas(Component):
    """Repeats the deltas of every thread in their older form."""

    name = "older_deltas"

    def for_thread(self, thread: ThreadContext) -> ThreadComponent:
        """Listen to a thread."""
        thread.background(_repeat(thread), name="older deltas")
        return ThreadComponent()


async def _repeat(thread: ThreadContext) -> None:
    async for event in thread.events():
        older = _OLDER.get(type(event.msg))
        if older is not None and not event.thread_id:
            thread.emit(older(event.msg.delta), id=event.id)  # type: ignore[attr-defined]  # all of them have it
