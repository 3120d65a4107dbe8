"""Takes a snapshot at the beginning of every turn, while the model answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework import Component, ThreadComponent, ThreadContext, TurnContext
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_framework.toolkit.environments import environments_of

if TYPE_CHECKING:
    from codex_plugin_undo.settings import Settings
    from codex_plugin_undo.snapshots import Restored, Store

__all__ = ["SNAPSHOT", "UNDONE", "Snapshots", "UndoComponent", "latest"]

SNAPSHOT = "snapshot"
"""The kind of the entries of snapshots: ``{"commit", "root", "folder"}``. A rollback of the turn takes them along."""

UNDONE = "undone"
"""The kind of the entries of restored snapshots: ``{"commit", "before"}``, where ``before`` is the snapshot from before the
undo.
"""


def latest(thread: ThreadContext) -> Mapping[str, Any] | None:
    """Return the entry of the newest snapshot that was not restored before, or None."""
    restored = [entry.get("commit") for entry in thread.entries(UNDONE)]
    entry: Mapping[str, Any]
    for entry in reversed(thread.entries(SNAPSHOT)):
        if entry.get("commit") not in restored:
            return entry
    return None


class Snapshots(ThreadComponent):
    """The snapshots of one thread.

    Args:
        home: The folder with the snapshots of all repositories.
        search_path: ``PATH``.
    """

    def __init__(self, thread: ThreadContext, settings: Settings, home: Path, search_path: str) -> None:
        self._thread = thread
        self._settings = settings
        self._home = home
        self._search_path = search_path
        self._told: set[str] = set()

    async def before_calls(self, turn: TurnContext) -> None:
        """Take a snapshot. The first call of the turn waits for it."""
        from codex_framework.toolkit.projects import git_root

        if all(each.environment_id != LOCAL_ENVIRONMENT for each in environments_of(turn.facts)):
            return  # there is nothing of this machine to be undone
        folder = turn.facts.cwd
        root = git_root(folder)
        if root is None:
            self._tell(f"Turns cannot be undone in {folder}: it is not part of a git repository.")
            return
        from codex_plugin_undo.snapshots import SnapshotError

        try:
            snapshot = await self._store(root, folder, turn).take(turn.facts.turn_id)
        except SnapshotError as error:
            self._tell(f"This turn cannot be undone: {error}")
            return
        for text in snapshot.notes:
            self._tell(text)
        data = {"commit": snapshot.commit, "root": str(root), "folder": str(folder)}
        self._thread.append_entry(SNAPSHOT, data, per_turn=True)

    async def restore(self, entry: Mapping[str, Any], turn: TurnContext) -> Restored:
        """Restore the files of a snapshot.

        Raises:
            SnapshotError: It cannot be restored.
        """
        from codex_plugin_undo.snapshots import SnapshotError

        commit, root, folder = (entry.get(key) for key in ("commit", "root", "folder"))
        if not (isinstance(commit, str) and isinstance(root, str) and isinstance(folder, str)):
            raise SnapshotError("its entry in the session is damaged")
        return await self._store(Path(root), Path(folder), turn).restore(commit)

    def _store(self, root: Path, folder: Path, turn: TurnContext) -> Store:
        from codex_framework.toolkit.programs import safe_search_path
        from codex_plugin_undo.snapshots import Store

        path = safe_search_path(self._search_path, turn.facts.access)
        return Store(self._home, root, folder, self._settings, self._thread.id, path)

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._thread.warn(text)


class UndoComponent(Component):
    """Offers the snapshots of threads whose configuration wants them."""

    name = "undo"

    def __init__(self, codex_home: Path, environ: Mapping[str, str]) -> None:
        self._home = codex_home / "snapshots"
        self._search_path = environ.get("PATH", os.defpath)

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the part that takes snapshots, or None where they are off."""
        codex_feature = (thread.config.get("features") or {}).get("ghost_commit") is True
        if not codex_feature and not (thread.config.get("framework") or {}).get("plugins", {}).get(self.name):
            return None  # the default, for which nothing more is imported
        from codex_plugin_undo.settings import Settings

        settings = thread.plugin_settings(Settings)
        if not settings.snapshots and not codex_feature:
            return None
        return Snapshots(thread, settings, self._home, self._search_path)
