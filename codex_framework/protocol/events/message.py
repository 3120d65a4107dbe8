"""What is said: messages, reasoning, and their deltas."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from codex_framework.protocol.items import ResponseItem

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


@attrs.frozen
class UserMessageEvent:
    """The person's input, as it went into history."""

    type: ClassVar[str] = "user_message"
    message: str
    images: tuple[str, ...] | None = None
    local_images: tuple[str, ...] = ()


@attrs.frozen
class AgentMessageEvent:
    """A whole message of the model. ``phase`` is ``commentary`` or ``final_answer`` where the model says so."""

    type: ClassVar[str] = "agent_message"
    message: str
    phase: str | None = None


@attrs.frozen
class AgentReasoningEvent:
    """A whole reasoning summary."""

    type: ClassVar[str] = "agent_reasoning"
    text: str


@attrs.frozen
class AgentReasoningSectionBreakEvent:
    """The reasoning summary goes on with its next part."""

    type: ClassVar[str] = "agent_reasoning_section_break"
    item_id: str
    summary_index: int


@attrs.frozen
class RawResponseItemEvent:
    """An item exactly as it went into history."""

    type: ClassVar[str] = "raw_response_item"
    item: ResponseItem


@attrs.frozen
class ItemStartedEvent:
    """A turn item (wire: ``TurnItem``, a mapping with ``type`` and ``id``) has begun."""

    type: ClassVar[str] = "item_started"
    thread_id: str
    turn_id: str
    item: dict[str, Any]
    started_at_ms: int


@attrs.frozen
class ItemCompletedEvent:
    """A turn item has ended."""

    type: ClassVar[str] = "item_completed"
    thread_id: str
    turn_id: str
    item: dict[str, Any]
    completed_at_ms: int


@attrs.frozen
class AgentMessageContentDeltaEvent:
    """A piece of a message that is still being written."""

    type: ClassVar[str] = "agent_message_content_delta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


@attrs.frozen
class ReasoningContentDeltaEvent:
    """A piece of a reasoning summary."""

    type: ClassVar[str] = "reasoning_content_delta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    summary_index: int = 0


@attrs.frozen
class ReasoningRawContentDeltaEvent:
    """A piece of raw reasoning."""

    type: ClassVar[str] = "reasoning_raw_content_delta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    content_index: int = 0
