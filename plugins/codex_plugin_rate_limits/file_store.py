"""Buckets in an SQLite file, which all processes of a machine share."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from codex_plugin_rate_limits.buckets import Bucket, Change, StoreError

__all__ = ["FileStore"]

_TABLE = """
create table if not exists buckets (
    name text primary key, requests_at real not null, tokens_at real not null, held_until real not null
)
"""


class FileStore:
    """The buckets of a file. A change takes about 0.1 ms, so it is done in the event loop."""

    share = 1.0

    def __init__(self, file: Path) -> None:
        self._file = file
        self._connection: sqlite3.Connection | None = None

    async def change(self, name: str, change: Change) -> float:
        """Change a bucket in a transaction. Raises StoreError."""
        try:
            return self._change(self._opened(), name, change)
        except sqlite3.Error as error:
            raise StoreError(str(error), hint="Check the file of the plugin rate_limits.") from error

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _change(self, connection: sqlite3.Connection, name: str, change: Change) -> float:
        connection.execute("begin immediate")
        try:
            found = "select requests_at, tokens_at, held_until from buckets where name = ?"
            with closing(connection.execute(found, (name,))) as rows:
                row = rows.fetchone()
            bucket = Bucket() if row is None else Bucket(requests_at=row[0], tokens_at=row[1], held_until=row[2])
            changed, value = change(bucket, time.time())
            if changed != bucket:
                state = (name, changed.requests_at, changed.tokens_at, changed.held_until)
                connection.execute("insert or replace into buckets values (?, ?, ?, ?)", state)
            connection.execute("commit")
        except BaseException:
            connection.rollback()
            raise
        return value

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self._file, timeout=2.0, isolation_level=None)
            try:
                connection.execute("pragma journal_mode = wal")
                connection.execute("pragma synchronous = off")  # after a power failure, the limits are not used up
                connection.execute(_TABLE)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection
