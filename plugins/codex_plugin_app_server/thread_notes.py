"""Notes of clients about threads, stored beside their records: git information, and a choice.

All servers of a home share the notes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_plugin_app_server.table import Json

if TYPE_CHECKING:
    import sqlite3

__all__ = ["ThreadNotes"]

_FILE = "app_server_threads_1.sqlite"
_TABLE = "CREATE TABLE IF NOT EXISTS notes (thread_id TEXT PRIMARY KEY NOT NULL, note TEXT NOT NULL) STRICT"
_WAIT_S = 5.0
"""How long another process may write."""


class ThreadNotes:
    """The notes about threads. Each is a JSON object: ``gitInfo`` with the fields that were set, and ``daybreakEnabled``."""

    def __init__(self, home: Path) -> None:
        self._path = home / _FILE

    def add_to(self, threads: Iterable[Json]) -> list[Json]:
        """Return each ``Thread`` with its note."""
        notes = self._read()
        return [_with_note(thread, notes[thread["id"]]) if thread["id"] in notes else thread for thread in threads]

    def change(self, thread_id: str, change: Callable[[Json], Json]) -> None:
        """Replace the note about a thread. ``change`` gets the old note, which may be empty."""
        with closing(self._open()) as database:
            database.execute(_TABLE)
            with database:
                database.execute("BEGIN IMMEDIATE")
                rows = database.execute("SELECT note FROM notes WHERE thread_id = ?", (thread_id,)).fetchall()
                note = change(json.loads(rows[0][0]) if rows else {})
                database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (thread_id, json.dumps(note)))

    def forget(self, thread_id: str) -> None:
        """Remove the note about a thread."""
        if self._path.exists():
            with closing(self._open()) as database, database:
                database.execute(_TABLE)
                database.execute("DELETE FROM notes WHERE thread_id = ?", (thread_id,))

    def _read(self) -> Mapping[str, Json]:
        if not self._path.exists():
            return {}
        with closing(self._open()) as database:
            database.execute(_TABLE)
            return {thread_id: json.loads(note) for thread_id, note in database.execute("SELECT * FROM notes")}

    def _open(self) -> sqlite3.Connection:
        import sqlite3  # most servers keep no notes

        return sqlite3.connect(self._path, timeout=_WAIT_S, isolation_level=None)


def _with_note(thread: Json, note: Json) -> Json:
    git: dict[str, Any] = {**(thread["gitInfo"] or dict.fromkeys(("sha", "branch", "originUrl"))), **note["gitInfo"]}
    shown = git if any(value is not None for value in git.values()) else None
    return {**thread, "gitInfo": shown, "daybreakEnabled": note["daybreakEnabled"]}
