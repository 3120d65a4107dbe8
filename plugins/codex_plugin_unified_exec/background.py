"""Background terminals, for clients: commands whose sessions are still running.

This module is loaded with the plugin, so it imports nothing else of it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext

__all__ = [
    "ListBackgroundTerminals",
    "ListHandler",
    "TerminateBackgroundTerminal",
    "TerminateHandler",
]


class ListBackgroundTerminals(Op):
    """Ask for the commands that run in the background, answered with ``background_terminals``."""

    type: ClassVar[Literal["list_background_terminals"]] = "list_background_terminals"


class TerminateBackgroundTerminal(Op):
    """End a command that runs in the background, answered with ``background_terminal_terminated``.

    Attributes:
        process_id: The id in ``background_terminals``.
    """

    type: ClassVar[Literal["terminate_background_terminal"]] = "terminate_background_terminal"
    process_id: int


class ListHandler(OpHandler[ListBackgroundTerminals]):
    """Handles ``list_background_terminals``."""

    op = ListBackgroundTerminals

    async def handle(self, op: ListBackgroundTerminals, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """List the sessions."""
        from codex_plugin_unified_exec.events import BackgroundTerminal, BackgroundTerminalsEvent
        from codex_plugin_unified_exec.sessions import Sessions

        found = thread.state(Sessions, Sessions).running()
        terminals = tuple(
            BackgroundTerminal(process_id=one.process_id, call_id=one.call_id, command=one.script, cwd=one.cwd)
            for one in found
        )
        thread.emit(BackgroundTerminalsEvent(terminals), id=id)


class TerminateHandler(OpHandler[TerminateBackgroundTerminal]):
    """Handles ``terminate_background_terminal``."""

    op = TerminateBackgroundTerminal

    async def handle(self, op: TerminateBackgroundTerminal, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """End the command, and wait until it has ended."""
        from codex_plugin_unified_exec.events import BackgroundTerminalTerminatedEvent
        from codex_plugin_unified_exec.sessions import Sessions

        sessions = thread.state(Sessions, Sessions)
        session = next((one for one in sessions.running() if one.process_id == op.process_id), None)
        if session is not None:
            sessions.drop(session)
            await session.running.kill()
        thread.emit(BackgroundTerminalTerminatedEvent(session is not None), id=id)
