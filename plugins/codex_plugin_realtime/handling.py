"""The actions of the ops of realtime conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_framework import Op, PluginContext, ThreadContext, ThreadError
from codex_plugin_realtime.audio import checked_audio
from codex_plugin_realtime.events import RealtimeConversationClosedEvent, RealtimeConversationListVoicesResponseEvent
from codex_plugin_realtime.ops import (
    RealtimeConversationAudio,
    RealtimeConversationClose,
    RealtimeConversationListVoices,
    RealtimeConversationSpeech,
    RealtimeConversationStart,
    RealtimeConversationText,
)
from codex_plugin_realtime.voices import VOICES

if TYPE_CHECKING:
    from codex_plugin_realtime.conversation import Conversation
    from codex_plugin_realtime.desk import Desk

__all__ = ["handle"]


async def handle(op: Op, desk: Desk, plugin: PluginContext, thread: ThreadContext, submission: str) -> None:
    """Handle an op.

    Raises:
        ThreadError: It needs a running conversation, or its input is invalid.
    """
    match op:
        case RealtimeConversationStart():
            from codex_plugin_realtime.starting import start

            await start(desk, plugin, op, thread, submission)
        case RealtimeConversationAudio(frame=frame):
            _running(desk, thread).audio(checked_audio(frame))
        case RealtimeConversationText(text=text, role=role):
            _running(desk, thread).text(text, role)
        case RealtimeConversationSpeech(text=text):
            _running(desk, thread).speech(text)
        case RealtimeConversationClose():
            conversation = desk.open.get(thread.id)
            if conversation is not None:
                await conversation.stop()
            thread.emit(RealtimeConversationClosedEvent("requested"), id=submission)  # without a conversation, too
        case RealtimeConversationListVoices():
            thread.emit(RealtimeConversationListVoicesResponseEvent(VOICES), id=submission)
        case _:
            raise AssertionError(op)  # no other op has this handler


def _running(desk: Desk, thread: ThreadContext) -> Conversation:
    """Return the thread's conversation.

    Raises:
        ThreadError: The thread has no conversation.
    """
    conversation = desk.open.get(thread.id)
    if conversation is None:
        raise ThreadError(
            "conversation is not running",
            slug="realtime-not-running",
            hint="Start one with the op realtime_conversation_start, and wait for realtime_conversation_started.",
        )
    return conversation
