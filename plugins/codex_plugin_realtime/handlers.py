"""The handlers of the ops of realtime conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_framework import OpHandler, PluginContext, ThreadContext, ThreadError
from codex_plugin_realtime.ops import (
    RealtimeConversationAudio,
    RealtimeConversationClose,
    RealtimeConversationListVoices,
    RealtimeConversationSpeech,
    RealtimeConversationStart,
    RealtimeConversationText,
)

if TYPE_CHECKING:
    from codex_plugin_realtime.conversation import Conversation
    from codex_plugin_realtime.desk import Desk

__all__ = ["AudioHandler", "CloseHandler", "ListVoicesHandler", "SpeechHandler", "StartHandler", "TextHandler"]


def _running(desk: Desk, thread: ThreadContext) -> Conversation:
    """Return the thread's conversation.

    Raises:
        ThreadError: It has none.
    """
    conversation = desk.open.get(thread.id)
    if conversation is None:
        raise ThreadError(
            "conversation is not running",
            slug="realtime-not-running",
            hint="Start one with the op realtime_conversation_start, and wait for realtime_conversation_started.",
        )
    return conversation


class StartHandler(OpHandler[RealtimeConversationStart]):
    """Starts a conversation."""

    op = RealtimeConversationStart

    def __init__(self, desk: Desk, plugin: PluginContext) -> None:
        self._desk = desk
        self._plugin = plugin

    async def handle(self, op: RealtimeConversationStart, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Check the op, end an earlier conversation and start the new one. What goes wrong is an event of the conversation."""
        from codex_plugin_realtime.starting import start

        await start(self._desk, self._plugin, op, thread, id)


class AudioHandler(OpHandler[RealtimeConversationAudio]):
    """Passes audio on."""

    op = RealtimeConversationAudio

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def handle(self, op: RealtimeConversationAudio, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002
        """Add the audio. Raises ThreadError."""
        from codex_plugin_realtime.audio import checked_audio

        conversation = _running(self._desk, thread)
        conversation.audio(checked_audio(op.frame))


class TextHandler(OpHandler[RealtimeConversationText]):
    """Passes text on."""

    op = RealtimeConversationText

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def handle(self, op: RealtimeConversationText, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002
        """Add the text. Raises ThreadError."""
        _running(self._desk, thread).text(op.text, op.role)


class SpeechHandler(OpHandler[RealtimeConversationSpeech]):
    """Passes on what is to be said."""

    op = RealtimeConversationSpeech

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def handle(self, op: RealtimeConversationSpeech, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002
        """Add the text. Raises ThreadError."""
        _running(self._desk, thread).speech(op.text)


class CloseHandler(OpHandler[RealtimeConversationClose]):
    """Ends the conversation."""

    op = RealtimeConversationClose

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def handle(self, op: RealtimeConversationClose, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002
        """End it, if there is one, and tell so in any case."""
        from codex_plugin_realtime.events import RealtimeConversationClosedEvent

        conversation = self._desk.open.get(thread.id)
        if conversation is not None:
            await conversation.stop()
        thread.emit(RealtimeConversationClosedEvent("requested"), id=id)


class ListVoicesHandler(OpHandler[RealtimeConversationListVoices]):
    """Lists the voices."""

    op = RealtimeConversationListVoices

    async def handle(self, op: RealtimeConversationListVoices, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002
        """Answer under the submission's id."""
        from codex_plugin_realtime.events import RealtimeConversationListVoicesResponseEvent
        from codex_plugin_realtime.voices import VOICES

        thread.emit(RealtimeConversationListVoicesResponseEvent(VOICES), id=id)
