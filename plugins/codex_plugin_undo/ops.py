"""The ops ``undo`` and ``thread_rollback``, and their handlers."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, RolledBack, ThreadContext, ThreadError
from codex_framework.contract.protocol.events import ErrorEvent

__all__ = ["RollbackHandler", "ThreadRollback", "Undo", "UndoHandler"]

_FAILED = "thread_rollback_failed"


class Undo(Op):
    """Restore the files to their state before the last turn that has not been undone. A running turn is replaced, as in Codex."""

    type: ClassVar[Literal["undo"]] = "undo"


class ThreadRollback(Op):
    """Drop turns from the conversation. The files are not changed.

    Attributes:
        num_turns: The number of turns, from the last one back. A larger number than the total drops all of them.
    """

    type: ClassVar[Literal["thread_rollback"]] = "thread_rollback"
    num_turns: int


class UndoHandler(OpHandler[Undo]):
    """Starts the task that restores the files."""

    op = Undo

    async def handle(self, op: Undo, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Start the task under the submission's id."""
        from codex_plugin_undo.task import Undoing

        thread.start_task(Undoing(), id=id)


class RollbackHandler(OpHandler[ThreadRollback]):
    """Drops turns. Every refusal has Codex's ``codex_error_info`` for a failed rollback, which fails no turn."""

    op = ThreadRollback

    async def handle(self, op: ThreadRollback, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Drop the turns, if none is running."""
        try:
            await thread.edit_history(RolledBack(op.num_turns))
        except ThreadError as error:
            text = "Cannot rollback while a turn is in progress." if error.slug == "busy" else error.fact
            thread.emit(ErrorEvent(text, _FAILED), id=id)
