"""Messages, reasoning, and their deltas."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.ops import TextElement

__all__ = [
    "AgentMessageContentDeltaEvent",
    "AgentMessageEvent",
    "AgentReasoningEvent",
    "AgentReasoningRawContentEvent",
    "AgentReasoningSectionBreakEvent",
    "ItemCompletedEvent",
    "ItemStartedEvent",
    "RawResponseItemEvent",
    "ReasoningContentDeltaEvent",
    "ReasoningRawContentDeltaEvent",
    "UserMessageEvent",
]


_KEPT_ITEMS = (
    "Plan",
    "McpToolCall",
    "EnteredReviewMode",
    "ExitedReviewMode",
    "CollabAgentToolCall",
    "SubAgentActivity",
)


class UserMessageEvent(EventMsg):
    """The user's input as recorded in the history.

    Attributes:
        client_id: The id that the client has given to the message.
        image_details, local_image_details: The detail of each image. None if the client did not specify details.
        text_elements: The parts of ``message`` that are placeholders, if any.
    """

    type: ClassVar[Literal["user_message"]] = "user_message"
    kept = True
    message: str
    images: tuple[str, ...] | None = None
    local_images: tuple[str, ...] = ()
    client_id: str | None = None
    image_details: tuple[str | None, ...] | None = None
    local_image_details: tuple[str | None, ...] | None = None
    text_elements: tuple[TextElement, ...] | None = None


class AgentMessageEvent(EventMsg):
    """A complete message of the model. ``phase`` is ``commentary`` or ``final_answer`` if the model states it."""

    type: ClassVar[Literal["agent_message"]] = "agent_message"
    kept = True
    message: str
    phase: str | None = None


class AgentReasoningEvent(EventMsg):
    """A complete reasoning summary."""

    type: ClassVar[Literal["agent_reasoning"]] = "agent_reasoning"
    kept = True
    text: str


class AgentReasoningRawContentEvent(EventMsg):
    """A complete part of raw reasoning. Sent if ``show_raw_agent_reasoning`` is set."""

    type: ClassVar[Literal["agent_reasoning_raw_content"]] = "agent_reasoning_raw_content"
    kept = True
    text: str


class AgentReasoningSectionBreakEvent(EventMsg):
    """The reasoning summary continues with its next part."""

    type: ClassVar[Literal["agent_reasoning_section_break"]] = "agent_reasoning_section_break"
    item_id: str
    summary_index: int


class RawResponseItemEvent(EventMsg):
    """An item exactly as recorded in the history."""

    type: ClassVar[Literal["raw_response_item"]] = "raw_response_item"
    item: ResponseItem


class ItemStartedEvent(EventMsg):
    """A turn item (wire: ``TurnItem``, a mapping with ``type`` and ``id``) has begun."""

    type: ClassVar[Literal["item_started"]] = "item_started"
    thread_id: str
    turn_id: str
    item: dict[str, Any]
    started_at_ms: int


class ItemCompletedEvent(EventMsg):
    """A turn item has ended.

    Attributes:
        started_at_ms: When it began, in unix milliseconds. None if its sender does not say so.
    """

    type: ClassVar[Literal["item_completed"]] = "item_completed"
    thread_id: str
    turn_id: str
    item: dict[str, Any]
    completed_at_ms: int
    started_at_ms: int | None = None

    def is_kept(self) -> bool:
        """Return whether stores must keep the item although the history does not contain its kind."""
        return self.item.get("type") in _KEPT_ITEMS


class AgentMessageContentDeltaEvent(EventMsg):
    """A piece of a message that is still being written."""

    type: ClassVar[Literal["agent_message_content_delta"]] = "agent_message_content_delta"
    is_delta = True
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningContentDeltaEvent(EventMsg):
    """A piece of a reasoning summary."""

    type: ClassVar[Literal["reasoning_content_delta"]] = "reasoning_content_delta"
    is_delta = True
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    summary_index: int = 0


class ReasoningRawContentDeltaEvent(EventMsg):
    """A piece of raw reasoning."""

    type: ClassVar[Literal["reasoning_raw_content_delta"]] = "reasoning_raw_content_delta"
    is_delta = True
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    content_index: int = 0
