"""The handler of the ops of realtime conversations. Imported at every start, so it contains only a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codex_framework import Op, OpHandler, PluginContext, ThreadContext
from codex_plugin_realtime import ops

if TYPE_CHECKING:
    from codex_plugin_realtime.desk import Desk

__all__ = ["OPS", "Handler"]

OPS: tuple[type[Op], ...] = (
    ops.RealtimeConversationStart,
    ops.RealtimeConversationAudio,
    ops.RealtimeConversationText,
    ops.RealtimeConversationSpeech,
    ops.RealtimeConversationClose,
    ops.RealtimeConversationListVoices,
)


class Handler(OpHandler[Any]):
    """Handles one of the ops. Its dependencies are imported at the first op.

    Args:
        op: The class of the op.
        desk: The conversations.
        plugin: The plugin's context.
    """

    def __init__(self, op: type[Op], desk: Desk, plugin: PluginContext) -> None:
        self.op = op
        self._desk = desk
        self._plugin = plugin

    async def handle(self, op: Op, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Handle the op. Raises ThreadError."""
        from codex_plugin_realtime.handling import handle

        await handle(op, self._desk, self._plugin, thread, id)
