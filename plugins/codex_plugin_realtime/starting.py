"""The start of a conversation, from the op, the configuration and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from codex_framework import CodexError, PluginContext, ThreadContext, ThreadError
from codex_plugin_realtime.connecting import Connector, Servers
from codex_plugin_realtime.conversation import Conversation, told
from codex_plugin_realtime.events import RealtimeConversationClosedEvent, RealtimeConversationRealtimeEvent
from codex_plugin_realtime.instructions import default_instructions
from codex_plugin_realtime.messages import Session
from codex_plugin_realtime.ops import SAME, RealtimeConversationStart, WebrtcTransport
from codex_plugin_realtime.voices import VOICES

if TYPE_CHECKING:
    from codex_plugin_realtime.desk import Desk

__all__ = ["start"]

_MODEL = "gpt-realtime-1.5"
_VERSIONS = ("v1", "v2")
_DEFAULT_VERSION = "v2"
_WEBRTC_VERSION = "v1"
"""The version for calls over WebRTC where the client names none, as in Codex 0.169."""


async def start(
    desk: Desk, plugin: PluginContext, op: RealtimeConversationStart, thread: ThreadContext, submission: str
) -> None:
    """Start a conversation, which replaces an existing one of the thread. Mistakes in the op are events of the conversation."""
    try:
        conversation = _conversation(desk, plugin, op, thread, submission)
    except CodexError as error:
        thread.emit(RealtimeConversationRealtimeEvent({"Error": told(error)}), id=submission)
        return
    earlier = desk.open.get(thread.id)
    if earlier is not None:
        await earlier.stop()
        thread.emit(RealtimeConversationClosedEvent("requested"), id=earlier.submission)
    desk.begin(thread, conversation)


def _conversation(
    desk: Desk, plugin: PluginContext, op: RealtimeConversationStart, thread: ThreadContext, submission: str
) -> Conversation:
    config = thread.config
    table = config.get("realtime")
    settings = _Settings(table if isinstance(table, Mapping) else {}, config)
    if settings.is_off:
        raise ThreadError(
            "realtime conversations are switched off",
            slug="realtime-off",
            hint="Set features.realtime_conversation = true.",
        )
    offer = op.transport.sdp if isinstance(op.transport, WebrtcTransport) else None
    version = _version(op, settings, offer)
    session = Session(
        version=version,
        instructions=_prompt(op, settings, desk.environ),
        model=op.model or settings.text("experimental_realtime_ws_model") or _MODEL,
        session_id=str(uuid4()) if op.realtime_session_id is None else op.realtime_session_id,
        output_modality=_modality(op.output_modality, version),
        voice=_voice(op.voice or settings.voice, version),
        transcribes=version == "v2" and settings.kind == "transcription",
    )
    connector = Connector(
        provider=thread.settings.provider,
        env=desk.environ,
        config=config,
        servers=Servers(
            socket=settings.text("experimental_realtime_ws_base_url"),
            calls=settings.text("experimental_realtime_webrtc_call_base_url"),
        ),
        session=session,
        thread_id=thread.id,
        metadata={"originator": thread.meta.originator},
        offer=offer,
    )
    return Conversation(
        on_end=desk.forget,
        plugin=plugin,
        thread=thread,
        submission=submission,
        session=session,
        connector=connector,
        context=settings.startup_context if op.include_startup_context else "",
        forwards=not op.client_managed_handoffs,
    )


class _Settings:
    """The settings of Codex for realtime conversations."""

    def __init__(self, table: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        self._config = config
        self.version = table.get("version") or _DEFAULT_VERSION
        self.kind = table.get("type") or "conversational"
        self.voice = table.get("voice")
        features = config.get("features")
        self.is_off = isinstance(features, Mapping) and features.get("realtime_conversation") is False

    def text(self, key: str) -> str | None:
        """Return a text, or None if it is not set."""
        value = self._config.get(key)
        return value if isinstance(value, str) else None

    @property
    def startup_context(self) -> str | None:
        """The context to add to the instructions. None if it must be created."""
        return self.text("experimental_realtime_ws_startup_context")


def _version(op: RealtimeConversationStart, settings: _Settings, offer: str | None) -> str:
    version: str = op.version or (settings.version if offer is None else _WEBRTC_VERSION)
    if version not in _VERSIONS:
        raise ThreadError(
            f"realtime version {version!r} is not supported", slug="realtime-version", hint="Use v1 or v2."
        )
    if offer is not None and settings.kind == "transcription":
        raise ThreadError(
            "a session that only transcribes cannot use WebRTC",
            slug="realtime-version",
            hint='Use the transport websocket, or set realtime.type = "conversational".',
        )
    return version


def _modality(modality: str, version: str) -> str:
    if modality not in ("text", "audio"):
        raise ThreadError(
            f"realtime output modality {modality!r} is not supported",
            slug="realtime-version",
            hint="Use text or audio.",
        )
    if modality == "text" and version == "v1":
        raise ThreadError(
            "text realtime output modality requires realtime v2", slug="realtime-version", hint="Use v2, or audio."
        )
    return modality


def _voice(voice: str | None, version: str) -> str:
    voices, default = (VOICES.v1, VOICES.default_v1) if version == "v1" else (VOICES.v2, VOICES.default_v2)
    if not voice:
        return default
    if voice not in voices:
        raise ThreadError(
            f"realtime voice `{voice}` is not supported for {version}; supported voices: {', '.join(voices)}",
            slug="realtime-voice",
        )
    return voice


def _prompt(op: RealtimeConversationStart, settings: _Settings, environ: Mapping[str, str]) -> str:
    """Return the instructions: from the configuration, else from the client, else the plugin's."""
    configured = settings.text("experimental_realtime_ws_backend_prompt")
    if configured and configured.strip():
        return configured
    if op.prompt == SAME:
        return default_instructions(environ)
    return op.prompt or ""
