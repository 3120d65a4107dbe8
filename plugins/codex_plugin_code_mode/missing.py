"""The component without the JavaScript engine: it shows a notice if the user has chosen a model that is made for code mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from codex_framework import Component, ThreadComponent, ThreadContext, Tool, TurnFacts
from codex_framework.toolkit.installing import install_command
from codex_plugin_code_mode.mode import mode_of

__all__ = ["Missing"]


class Missing(Component):
    """Tells the user once per thread that the extra is missing for the chosen model. Models get the usual tools."""

    name: ClassVar[str] = "code_mode"

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the part of a thread that gives the notice. The user learns it from the thread that spawned a child."""
        return _Notice(thread) if thread.parent is None else None


class _Notice(ThreadComponent):
    def __init__(self, thread: ThreadContext) -> None:
        self._thread = thread
        self._told = False

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:
        """Return no tools. The notice is given in the first turn whose model is made for code mode.

        Nobody has chosen the default model, so it has no notice, which would appear in each run.
        """
        if not self._told and "model" in self._thread.config and mode_of(turn) is not None:
            self._told = True
            self._thread.warn(
                f"The model {turn.model.slug} is made for code mode, in which it calls tools by programs. It gets the usual tools"
                " instead, because the JavaScript engine is not installed. Install it with:"
                f" {install_command('codex-framework[code]')}"
            )
        return ()
