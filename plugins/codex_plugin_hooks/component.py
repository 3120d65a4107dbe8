"""The component, which keeps a kernel from starting with hooks that cannot be run, and runs hooks at the end of turns and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from codex_framework import (
    Component,
    KernelContext,
    Outcome,
    Status,
    ThreadComponent,
    ThreadContext,
    TurnContext,
)
from codex_plugin_hooks.definitions import Definitions
from codex_plugin_hooks.firing import Hooks, common, end_fields
from codex_plugin_hooks.model_requests import cancel_attempt

__all__ = ["HookComponent"]


class HookComponent(Component):
    """Reports problems with the hooks."""

    name = "user-hooks"
    required = True

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    async def start(self, kernel: KernelContext) -> None:  # noqa: ARG002  # the role's
        """Check the hooks.

        Raises:
            ConfigError: A hook cannot be run.
        """
        if self._definitions.errors:
            raise self._definitions.errors[0]

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Warn the user of settings without effect. Return the part that runs hooks at the end, if such hooks exist."""
        for text in self._definitions.warnings if not thread.depth else ():
            thread.warn(text)
        return EndHooks(thread, self._definitions) if self._definitions.of(*EndHooks.events) else None


class EndHooks(ThreadComponent):
    """Runs the hooks of ``Interrupt`` and ``SessionEnd``, and hooks of ``PostModelRequest`` for a cancelled request."""

    events = ("PostModelRequest", "Interrupt", "SessionEnd")

    def __init__(self, thread: ThreadContext, definitions: Definitions) -> None:
        self._thread = thread
        self._hooks = Hooks(definitions, *self.events)
        self._ended = False

    async def turn_ended(self, turn: TurnContext, outcome: Outcome) -> None:
        """Run the hooks at the end of a turn."""
        ends: list[Awaitable[object]] = [cancel_attempt(turn)]
        if outcome.status is Status.INTERRUPTED:
            ends.append(self._hooks.fire(self._hooks.selected("Interrupt"), turn, common("Interrupt", turn)))
        await asyncio.gather(*ends)  # at once, because the end of a turn does not wait long

    async def aclose(self) -> None:
        """Run the hooks at the end of a session. A sub-agent is a part of its parent's session."""
        if self._ended or self._thread.depth:
            return
        self._ended = True
        await self._hooks.fire_at_end(
            self._hooks.selected("SessionEnd", ["other"]), self._thread, end_fields(self._thread)
        )
