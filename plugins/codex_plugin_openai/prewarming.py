"""The connection of a thread before its first request, for providers with WebSockets."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from codex_framework import Component, ModelRequest, ThreadComponent, ThreadContext
from codex_framework.contract.errors import CodexError
from codex_plugin_openai.bare_request import bare_request
from codex_plugin_openai.socket_choice import socket_choice

__all__ = ["IDLE_S", "Prewarming"]

IDLE_S = 0.2
"""How long a thread must be idle, in seconds, before a connection is opened that its first request would not wait for."""


class Prewarming(Component):
    """Opens the WebSocket of a new or resumed thread in the background, and lets the server prepare while the thread is idle."""

    name: ClassVar[str] = "responses_prewarm"

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Begin, unless the thread is a child, which gets its first input immediately. The thread needs no part."""
        choice = None if thread.parent is not None else socket_choice(thread.settings.provider, thread.config)
        if choice is not None:
            thread.background(_prewarm(thread, 0.0 if choice == "required" else IDLE_S), name="prewarm")
        return None


async def _prewarm(thread: ThreadContext, after_s: float) -> None:
    if after_s:
        await asyncio.sleep(after_s)
        if thread.turn is not None:
            return  # a request of a turn does not wait for it, so it would only be in the way
    settings = thread.settings
    try:
        opened = thread.kernel.open_model(settings.model, settings.provider.id)
    except CodexError:
        return  # the first turn fails with the same error, and shows it
    prepare = getattr(opened.client, "prepare", None)  # a wrapper may have given it up
    if prepare is None or opened.provider != settings.provider:
        return

    async def whole() -> ModelRequest | None:
        try:
            return await thread.draft(()) if thread.turn is None else None
        except CodexError:
            return None

    await prepare(bare_request(thread, opened.info), whole)
