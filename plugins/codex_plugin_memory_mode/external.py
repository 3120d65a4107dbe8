"""Threads that get a mode from the configuration: new threads, and threads that contain external text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codex_framework import (
    Component,
    Interceptor,
    ModelRequest,
    Outcome,
    ResponseItem,
    ThreadComponent,
    ThreadContext,
    ToolCall,
    TurnContext,
)
from codex_framework.contract.protocol.items import UnknownItem, begins_turn
from codex_plugin_memory_mode.ops import DISABLED, POLLUTED, memory_mode
from codex_plugin_memory_mode.settings import MemorySettings

__all__ = ["ExternalContext", "MemoryModes"]

_SEARCH = "web_search_call"


class MemoryModes(Component):
    """Sets the mode of new threads, and checks the items with which turns end."""

    name = "memory_mode"

    def __init__(self, settings: MemorySettings) -> None:
        self._settings = settings

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Set the mode of a new thread."""
        if self._settings.disables_new and thread.origin != "resumed" and "memory_mode" not in thread.meta.extra:
            thread.change_meta(memory_mode=DISABLED)
        return _Part(thread) if self._settings.marks_external else None


class _Part(ThreadComponent):
    def __init__(self, thread: ThreadContext) -> None:
        self._thread = thread

    async def start(self) -> None:
        """Check the existing items of a thread, because its process may have ended before it was marked."""
        if self._thread.origin != "new" and _has_search(self._thread.history):
            _mark(self._thread)

    async def turn_ended(self, turn: TurnContext, outcome: Outcome) -> None:  # noqa: ARG002  # the base's
        """Mark the thread if its last response searched the web."""
        if _has_search(_of_turn(turn.history)):
            _mark(turn.thread)


class ExternalContext(Interceptor):
    """Marks a thread before a call to an MCP server, and before the request after a search of the web."""

    name = "external_context"

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
        """Mark the thread if a server answers the call."""
        view = turn.view(call)
        if view is not None and view.server is not None:
            _mark(turn.thread)
        return call

    async def request(self, request: ModelRequest, turn: TurnContext) -> ModelRequest:
        """Mark the thread if a response of the turn searched the web."""
        if _has_search(_of_turn(turn.history)):
            _mark(turn.thread)
        return request


def _of_turn(history: Sequence[ResponseItem]) -> Iterable[ResponseItem]:
    """Yield the items of the running turn, newest first."""
    for item in reversed(history):
        if begins_turn(item):
            return
        yield item


def _has_search(items: Iterable[ResponseItem]) -> bool:
    return any(isinstance(item, UnknownItem) and item.kind == _SEARCH for item in items)


def _mark(thread: ThreadContext) -> None:
    """Mark a thread and the threads above it, which read its results."""
    above: ThreadContext | None = thread
    while above is not None:
        if memory_mode(above.meta) != POLLUTED:
            above.change_meta(memory_mode=POLLUTED)
        above = above.parent
