"""The events of realtime conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from codex_framework import EventMsg
from codex_framework.contract.value import Value, field

__all__ = [
    "RealtimeConversationClosedEvent",
    "RealtimeConversationListVoicesResponseEvent",
    "RealtimeConversationRealtimeEvent",
    "RealtimeConversationSdpEvent",
    "RealtimeConversationStartedEvent",
    "RealtimeVoicesList",
]

_PIECES = frozenset({"AudioOut", "InputTranscriptDelta", "OutputTranscriptDelta"})
"""Kinds of events that are numerous, and useless to late listeners."""


class RealtimeConversationStartedEvent(EventMsg):
    """The connection to the realtime server is open.

    Attributes:
        realtime_session_id: The id that the client chose, or a new one.
        version: The version of the protocol: ``v1`` or ``v2``.
    """

    type: ClassVar[Literal["realtime_conversation_started"]] = "realtime_conversation_started"
    realtime_session_id: str | None = None
    version: str = "v2"


class RealtimeConversationRealtimeEvent(EventMsg):
    """Something that the realtime server has sent, or an error.

    Attributes:
        payload: The event, as Codex has it: ``{"KIND": content}``. The documentation of the plugin lists the kinds.
    """

    type: ClassVar[Literal["realtime_conversation_realtime"]] = "realtime_conversation_realtime"
    payload: Mapping[str, Any]

    if not TYPE_CHECKING:

        @property
        def is_delta(self) -> bool:
            """Whether it is a piece of audio or of a transcript."""
            return not _PIECES.isdisjoint(self.payload)


class RealtimeConversationSdpEvent(EventMsg):
    """The server's answer to the SDP offer of a WebRTC client."""

    type: ClassVar[Literal["realtime_conversation_sdp"]] = "realtime_conversation_sdp"
    sdp: str


class RealtimeConversationClosedEvent(EventMsg):
    """The conversation has ended.

    Attributes:
        reason: ``requested``, ``transport_closed`` or ``error``.
    """

    type: ClassVar[Literal["realtime_conversation_closed"]] = "realtime_conversation_closed"
    reason: str | None = None


class RealtimeVoicesList(Value, kw_only=True):
    """The voices of both versions of the protocol, and the default of each."""

    v1: tuple[str, ...]
    v2: tuple[str, ...]
    default_v1: str = field(metadata={"wire": "defaultV1"})
    default_v2: str = field(metadata={"wire": "defaultV2"})


class RealtimeConversationListVoicesResponseEvent(EventMsg):
    """The answer to ``realtime_conversation_list_voices``."""

    type: ClassVar[Literal["realtime_conversation_list_voices_response"]] = "realtime_conversation_list_voices_response"
    voices: RealtimeVoicesList
