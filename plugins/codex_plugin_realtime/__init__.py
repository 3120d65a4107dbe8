"""Realtime conversations: a voice session beside a thread, whose requests the thread handles as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import ContextSource, EventMsg, OpHandler, PluginContext, hookimpl
from codex_framework.toolkit.exports import lazy_exports
from codex_plugin_realtime.desk import Desk, RealtimeContext

if TYPE_CHECKING:
    from codex_plugin_realtime.events import (
        RealtimeConversationClosedEvent,
        RealtimeConversationListVoicesResponseEvent,
        RealtimeConversationRealtimeEvent,
        RealtimeConversationSdpEvent,
        RealtimeConversationStartedEvent,
        RealtimeVoicesList,
    )
    from codex_plugin_realtime.ops import (
        RealtimeAudioFrame,
        RealtimeConversationAudio,
        RealtimeConversationClose,
        RealtimeConversationListVoices,
        RealtimeConversationSpeech,
        RealtimeConversationStart,
        RealtimeConversationText,
        WebrtcTransport,
        WebsocketTransport,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "events": "RealtimeConversationClosedEvent RealtimeConversationListVoicesResponseEvent"
            " RealtimeConversationRealtimeEvent RealtimeConversationSdpEvent RealtimeConversationStartedEvent"
            " RealtimeVoicesList",
            "ops": "RealtimeAudioFrame RealtimeConversationAudio RealtimeConversationClose"
            " RealtimeConversationListVoices RealtimeConversationSpeech RealtimeConversationStart RealtimeConversationText"
            " WebrtcTransport WebsocketTransport",
        },
    )

__all__ = [
    "RealtimeAudioFrame",
    "RealtimeConversationAudio",
    "RealtimeConversationClose",
    "RealtimeConversationClosedEvent",
    "RealtimeConversationListVoices",
    "RealtimeConversationListVoicesResponseEvent",
    "RealtimeConversationRealtimeEvent",
    "RealtimeConversationSdpEvent",
    "RealtimeConversationSpeech",
    "RealtimeConversationStart",
    "RealtimeConversationStartedEvent",
    "RealtimeConversationText",
    "RealtimeVoicesList",
    "WebrtcTransport",
    "WebsocketTransport",
    "codex_config_keys",
    "codex_context_sources",
    "codex_events",
    "codex_ops",
]

_desks: WeakKeyDictionary[PluginContext, Desk] = WeakKeyDictionary()
"""The conversations of each kernel, which its handlers and its context source share."""


def _desk(plugin: PluginContext) -> Desk:
    if plugin not in _desks:
        _desks[plugin] = Desk(plugin.environ)
    return _desks[plugin]


@hookimpl
def codex_config_keys() -> Iterable[str]:
    """Claim ``[realtime]`` and the keys that begin with ``experimental_realtime_``."""
    return [
        "realtime",
        "experimental_realtime_ws_base_url",
        "experimental_realtime_webrtc_call_base_url",
        "experimental_realtime_ws_model",
        "experimental_realtime_ws_backend_prompt",
        "experimental_realtime_ws_startup_context",
        "experimental_realtime_start_instructions",
    ]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare the five events of realtime conversations."""
    from codex_plugin_realtime import events

    return [
        events.RealtimeConversationStartedEvent,
        events.RealtimeConversationRealtimeEvent,
        events.RealtimeConversationSdpEvent,
        events.RealtimeConversationClosedEvent,
        events.RealtimeConversationListVoicesResponseEvent,
    ]


@hookimpl
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:
    """Offer the handlers of the six ops of realtime conversations."""
    from codex_plugin_realtime.handlers import OPS, Handler

    desk = _desk(plugin)
    return [Handler(op, desk, plugin) for op in OPS]


@hookimpl
def codex_context_sources(plugin: PluginContext) -> Iterable[ContextSource]:
    """Offer ``realtime``, which tells the model that a realtime conversation has begun or ended."""
    return [RealtimeContext(_desk(plugin))]
