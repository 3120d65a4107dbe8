"""Compaction on request: the op ``compact`` and the task that it starts."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, Task, TaskContext, ThreadContext, ThreadError

__all__ = ["Compact", "CompactHandler", "Compacting"]


class Compact(Op):
    """Shorten the conversation now. A running turn is replaced, as in Codex."""

    type: ClassVar[Literal["compact"]] = "compact"


class Compacting(Task):
    """Fills a turn with one compaction by the thread's compactor."""

    kind = "compact"
    when_busy = "replace"

    async def run(self, turn: TaskContext, input: object) -> None:  # noqa: A002, ARG002  # the word of the contract
        """Shorten the history."""
        await turn.compact("manual")


class CompactHandler(OpHandler[Compact]):
    """Starts the task."""

    op = Compact

    async def handle(self, op: Compact, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Start the task under the submission's id.

        Raises:
            ThreadError: There is nothing to shorten.
        """
        if not thread.history:
            raise ThreadError("there is nothing to compact yet", slug="bad-request", hint="Start a turn first.")
        thread.start_task(Compacting(), id=id)
