"""The voices of realtime conversations, as Codex 0.169 lists them."""

from __future__ import annotations

from codex_plugin_realtime.events import RealtimeVoicesList

__all__ = ["VOICES"]

VOICES = RealtimeVoicesList(
    v1=("juniper", "maple", "spruce", "ember", "vale", "breeze", "arbor", "sol", "cove"),
    v2=("alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar"),
    default_v1="cove",
    default_v2="marin",
)
