"""The ops of realtime conversations."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from codex_framework import Op
from codex_framework.contract.value import Value

__all__ = [
    "SAME",
    "RealtimeAudioFrame",
    "RealtimeConversationAudio",
    "RealtimeConversationClose",
    "RealtimeConversationListVoices",
    "RealtimeConversationSpeech",
    "RealtimeConversationStart",
    "RealtimeConversationText",
    "WebrtcTransport",
    "WebsocketTransport",
]

SAME = "\0same"
"""The value of a prompt that was not given. None means an empty prompt."""


class WebsocketTransport(Value):
    """Audio and text go over a WebSocket of this program. The default."""

    type: ClassVar[Literal["websocket"]] = "websocket"


class WebrtcTransport(Value):
    """The client speaks to the server itself. ``sdp`` is its offer; the answer is ``realtime_conversation_sdp``."""

    type: ClassVar[Literal["webrtc"]] = "webrtc"
    sdp: str


Transport: TypeAlias = WebsocketTransport | WebrtcTransport


class RealtimeAudioFrame(Value, kw_only=True):
    """A piece of audio: 16-bit PCM, little-endian.

    Attributes:
        data: The samples in base64.
        sample_rate: In hertz.
        samples_per_channel: None if it follows from the data.
        item_id: The item of the conversation that the audio belongs to, if known.
    """

    data: str
    sample_rate: int
    num_channels: int
    samples_per_channel: int | None = None
    item_id: str | None = None


class RealtimeConversationStart(Op):
    """Start a realtime conversation. An existing conversation of the thread is closed.

    Attributes:
        output_modality: The form of the voice model's answers: ``text`` or ``audio``.
        model: The voice model. By default, the one of the configuration.
        prompt: The instructions for the voice model. If it is not given, the plugin's instructions are used; None uses no
            instructions. A prompt of the configuration has precedence.
        realtime_session_id: The id of the session in the header ``x-session-id``. By default, a new one.
        transport: The connection. The default is a WebSocket.
        version: The version of the protocol: ``v1`` or ``v2``. By default, the one of the configuration; for WebRTC it means
            ``v1``.
        voice: By default, the one of the configuration.
        include_startup_context: Whether the instructions describe the thread and the user's other sessions.
        client_managed_handoffs: Whether the client itself forwards the output of the thread's model to the voice model.
    """

    type: ClassVar[Literal["realtime_conversation_start"]] = "realtime_conversation_start"
    nulls = ("prompt",)
    output_modality: str
    model: str | None = None
    prompt: str | None = SAME
    realtime_session_id: str | None = None
    transport: Transport | None = None
    version: str | None = None
    voice: str | None = None
    include_startup_context: bool = True
    client_managed_handoffs: bool = False


class RealtimeConversationAudio(Op):
    """Add audio of the user."""

    type: ClassVar[Literal["realtime_conversation_audio"]] = "realtime_conversation_audio"
    frame: RealtimeAudioFrame


class RealtimeConversationText(Op):
    """Add a text. ``role`` is ``user``, ``developer`` or ``assistant``."""

    type: ClassVar[Literal["realtime_conversation_text"]] = "realtime_conversation_text"
    text: str
    role: str = "user"


class RealtimeConversationSpeech(Op):
    """Add a text as if the thread's model had written it, so that the voice model tells the user."""

    type: ClassVar[Literal["realtime_conversation_speech"]] = "realtime_conversation_speech"
    text: str


class RealtimeConversationClose(Op):
    """End the conversation."""

    type: ClassVar[Literal["realtime_conversation_close"]] = "realtime_conversation_close"


class RealtimeConversationListVoices(Op):
    """Ask for the voices. The answer is ``realtime_conversation_list_voices_response``."""

    type: ClassVar[Literal["realtime_conversation_list_voices"]] = "realtime_conversation_list_voices"
