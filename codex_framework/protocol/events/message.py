"""What is said: messages, reasoning, and their deltas."""

from __future__ import annotations

from typing import Any, ClassVar

from codex_framework.protocol.items import ResponseItem
from codex_framework.value import Value

__all__ = [
    "AgentMessageContentDeltaEvent",
    "AgentMessageEvent",
    "AgentReasoningEvent",
    "AgentReasoningSectionBreakEvent",
    "ItemCompletedEvent",
    "ItemStartedEvent",
    "RawResponseItemEvent",
    "ReasoningContentDeltaEvent",
    "ReasoningRawContentDeltaEvent",
    "UserMessageEvent",
]


class UserMessageEvent(Value):
    """The person's input, as it went into history."""

    type: ClassVar[str] = "user_message"
    message: str
    images: tuple[str, ...] | None = None
    local_images: tuple[str, ...] = ()


class AgentMessageEvent(Value):
    """A whole message of the model. ``phase`` is ``commentary`` or ``final_answer`` where the model says so."""

    type: ClassVar[str] = "agent_message"
    message: str
    phase: str | None = None


class AgentReasoningEvent(Value):
    """A whole reasoning summary."""

    type: ClassVar[str] = "agent_reasoning"
    text: str


class AgentReasoningSectionBreakEvent(Value):
    """The reasoning summary goes on with its next part."""

    type: ClassVar[str] = "agent_reasoning_section_break"
    item_id: str
    summary_index: int


class RawResponseItemEvent(Value):
    """An item exactly as it went into history."""

    type: ClassVar[str] = "raw_response_item"
    item: ResponseItem


class ItemStartedEvent(Value):
    """A turn item (wire: ``TurnItem``, a mapping with ``type`` and ``id``) has begun."""

    type: ClassVar[str] = "item_started"
    thread_id: str
    turn_id: str
    item: dict[str, Any]
    started_at_ms: int


class ItemCompletedEvent(Value):
    """A turn item has ended."""

    type: ClassVar[str] = "item_completed"
    thread_id: str
    turn_id: str
    item: dict[str, Any]
    completed_at_ms: int


class AgentMessageContentDeltaEvent(Value):
    """A piece of a message that is still being written."""

    type: ClassVar[str] = "agent_message_content_delta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningContentDeltaEvent(Value):
    """A piece of a reasoning summary."""

    type: ClassVar[str] = "reasoning_content_delta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    summary_index: int = 0


class ReasoningRawContentDeltaEvent(Value):
    """A piece of raw reasoning."""

    type: ClassVar[str] = "reasoning_raw_content_delta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    content_index: int = 0
