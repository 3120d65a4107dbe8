"""Writing one thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select, update

from codex_contrib_postgres.database import Database
from codex_contrib_postgres.leases import FREE, Lease, Leases
from codex_contrib_postgres.rows import clean_text, entry_row, thread_row
from codex_contrib_postgres.tables import ENTRIES, THREADS, insert_new
from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.contract.roles.stores import EventEntry, MetaEntry, RecorderStopped, ThreadEntry, ThreadMeta
from codex_framework.toolkit.thread_records import begins_thread, encode_meta, preview

__all__ = ["DatabaseRecorder"]


class DatabaseRecorder:
    """The recorder of one thread.

    The numbers of its entries are known before they are written, so a write whose commit was not answered can be done again.

    Args:
        entries: How many entries the thread already has. None for a new thread, whose row the first flush inserts.
        must_save: Whether the turn ends if its entries cannot be saved.
    """

    path: str | None = None

    def __init__(
        self,
        database: Database,
        leases: Leases,
        lease: Lease,
        meta: ThreadMeta,
        *,
        scope: str,
        entries: int | None,
        must_save: bool,
    ) -> None:
        self._database = database
        self._leases = leases
        self._lease = lease
        self._meta = meta
        self._scope = scope
        self._must_save = must_save
        self._exists = self._has_begun = entries is not None
        self._next = entries or 0
        self._pending: list[dict[str, Any]] = []
        self._preview: str | None = None
        self._is_lost = self._is_closed = False
        self._lock = threading.Lock()  # the background thread saves what could not be saved

    def append(self, entries: Sequence[ThreadEntry]) -> None:
        """Add entries."""
        with self._lock:
            for entry in entries:
                if isinstance(entry, EventEntry) and not entry.msg.is_kept():
                    continue
                if isinstance(entry, MetaEntry):
                    self._meta = self._meta.evolve(extra={**self._meta.extra, **entry.changes})
                if isinstance(entry, EventEntry) and isinstance(entry.msg, UserMessageEvent):
                    self._preview = self._preview or clean_text(preview(entry.msg.message))
                self._has_begun = self._has_begun or begins_thread(entry)
                self._pending.append(entry_row(entry))

    def flush(self) -> None:
        """Save the pending entries. Raises ThreadError if they cannot be saved; they are tried again until they are."""
        with self._lock:
            if self._has_begun and self._pending:
                self._save()

    def close(self) -> None:
        """Save the pending entries, and let other processes write the thread. Raises the same errors as :meth:`flush`."""
        with self._lock:
            self._is_closed = True
            if self._exists or (self._has_begun and self._pending):
                self._save()

    def _save(self) -> None:
        try:
            self._database.run(f"save thread {self._meta.id}", self._write)
        except RecorderStopped:
            raise
        except ThreadError as error:
            self._leases.retry(self._retry)
            if self._must_save:
                raise RecorderStopped(str(error), slug=error.slug, hint=error.hint) from error
            raise
        self._next += len(self._pending)
        self._pending.clear()
        self._exists = True

    def _retry(self) -> None:
        with self._lock:
            if not self._is_lost and (self._pending or self._is_closed):
                self._save()

    def _write(self, connection: Connection) -> None:
        thread, database = THREADS.c.id == self._meta.id, self._database
        if not self._exists:
            row = thread_row(self._meta, self._scope, database.now)
            connection.execute(insert_new(connection, THREADS).values({**row, **self._lease.values}))
        changes = {
            "updated_at": database.now,
            "entries": self._next + len(self._pending),
            "meta": encode_meta(self._meta),
            "preview": func.coalesce(THREADS.c.preview, self._preview),
            **(FREE if self._is_closed else self._lease.values),
        }
        if connection.execute(update(THREADS).where(thread, self._lease.is_held).values(changes)).rowcount != 1:
            if self._is_closed and self._was_closed(connection):
                return
            self._is_lost = True
            raise RecorderStopped(
                f"thread {self._meta.id} is continued by another process, or was deleted; {len(self._pending)} entries are not saved",
                slug="session-in-use",
                hint="This process was suspended, or could not reach the database, for longer than its lease. Stop it.",
            )
        if self._pending:
            rows = [
                {**row, "thread_id": self._meta.id, "number": number}
                for number, row in enumerate(self._pending, self._next)
            ]
            connection.execute(insert_new(connection, ENTRIES), rows)

    def _was_closed(self, connection: Connection) -> bool:
        """Whether an earlier run of this transaction was committed, although its answer was lost."""
        row = connection.execute(
            select(THREADS.c.writer, THREADS.c.entries).where(THREADS.c.id == self._meta.id)
        ).one_or_none()
        return row is not None and tuple(row) == (None, self._next + len(self._pending))
