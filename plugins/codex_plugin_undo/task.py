"""The task of the op ``undo``."""

from __future__ import annotations

from codex_framework import ServiceError, Task, TaskContext
from codex_plugin_undo.component import UNDONE, Snapshots, latest
from codex_plugin_undo.events import UndoCompletedEvent, UndoStartedEvent
from codex_plugin_undo.snapshots import SnapshotError

__all__ = ["Undoing"]

_OFF = "Snapshots are off. Set `snapshots = true` in [framework.plugins.undo], and turns from then on can be undone."


class Undoing(Task):
    """Restores the files of the newest snapshot that was not restored before."""

    kind = "undo"
    when_busy = "replace"

    async def run(self, turn: TaskContext, input: object) -> None:  # noqa: A002, ARG002  # the word of the contract
        """Restore the files and tell the clients."""
        turn.emit(UndoStartedEvent("Restoring the files as they were before the last turn."))
        success, message = await _undone(turn)
        turn.emit(UndoCompletedEvent(success, message))


async def _undone(turn: TaskContext) -> tuple[bool, str]:
    try:
        part = turn.thread.component(Snapshots)
    except ServiceError:
        return False, _OFF
    entry = latest(turn.thread)
    if entry is None:
        return False, "There is no snapshot to go back to."
    try:
        done = await part.restore(entry, turn)
    except SnapshotError as error:
        return False, f"The snapshot could not be restored: {error}"
    turn.thread.append_entry(UNDONE, {"commit": entry["commit"], "before": done.before})
    return True, done.summary
