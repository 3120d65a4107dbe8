"""The component that keeps the scripts of each thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from codex_framework import (
    Component,
    Outcome,
    Status,
    ThreadComponent,
    ThreadContext,
    TurnContext,
    TurnFacts,
)
from codex_plugin_code_mode.mode import mode_of

if TYPE_CHECKING:
    from codex_plugin_code_mode.cells import Cells
    from codex_plugin_code_mode.nesting import Nestings

__all__ = ["CodeMode", "Scripts"]


class CodeMode(Component):
    """Keeps the scripts of each thread.

    Args:
        folder: The folder that the engine's package is in.
    """

    name = "code_mode"

    def __init__(self, nestings: Callable[[], Nestings], folder: str) -> None:
        self._nestings = nestings
        self._folder = folder

    def for_thread(self, thread: ThreadContext) -> ThreadComponent:
        """Return the part of a thread."""
        return Scripts(thread, self._nestings, self._folder)


class Scripts(ThreadComponent):
    """The scripts of one thread. Nothing is made before the first turn in code mode."""

    def __init__(self, thread: ThreadContext, nestings: Callable[[], Nestings], folder: str) -> None:
        self._thread = thread
        self._nestings = nestings
        self._folder = folder

    @cached_property
    def cells(self) -> Cells:
        """The scripts."""
        from codex_plugin_code_mode.cells import Cells

        nestings, thread = self._nestings(), self._thread
        return Cells(thread, self._folder, lambda: nestings.of(thread.id))

    def has_turn_work(self, turn: TurnFacts) -> bool:
        """Return whether the turn is in code mode, or an earlier one was."""
        return mode_of(turn) is not None or "cells" in self.__dict__

    async def before_calls(self, turn: TurnContext) -> None:
        """Start the process for scripts while the model answers, if the turn is in code mode."""
        if mode_of(turn.facts) is not None:
            await self.cells.warm()

    async def turn_ended(self, turn: TurnContext, outcome: Outcome) -> None:  # noqa: ARG002  # the role's arguments
        """End the calls of scripts, which are a part of the turn, and the scripts too if it was interrupted."""
        if "cells" not in self.__dict__:
            return
        if outcome.status is Status.INTERRUPTED:
            await self.cells.end_all()
        else:
            await self.cells.end_calls()

    async def aclose(self) -> None:
        """End all scripts and processes."""
        if "cells" in self.__dict__:
            self._nestings().forget(self._thread.id)
            await self.cells.aclose()
