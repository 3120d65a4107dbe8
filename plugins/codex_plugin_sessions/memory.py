"""The thread store that keeps threads in memory."""

from __future__ import annotations

import time
from collections.abc import Sequence

from codex_framework import StoredThread, ThreadError, ThreadMeta, ThreadRecorder, ThreadStore
from codex_framework.contract.roles.stores import ThreadEntry, ThreadPage, ThreadQuery, ThreadSummary
from codex_framework.toolkit.thread_records import (
    BufferedRecorder,
    changed_meta,
    find_id,
    fold_entries,
    fork_record,
    page_of,
    preview_of,
    searchable_text,
    summary_of,
)

__all__ = ["MemoryStore"]


class _Record:
    """The flushed data of a thread."""

    def __init__(self, meta: ThreadMeta, entries: Sequence[ThreadEntry] = ()) -> None:
        self.meta = meta
        self.entries = list(entries)
        self.updated_at = meta.created_at
        self.name: str | None = None
        self.archived = False
        self.open = False

    def summary(self) -> ThreadSummary:
        """Return the thread for the list."""
        return summary_of(
            changed_meta(self.meta, self.entries),
            updated_at=self.updated_at,
            name=self.name,
            preview=preview_of(self.entries),
            archived=self.archived,
        )


class MemoryStore(ThreadStore):
    """A thread store that keeps threads for as long as the kernel: for tests, and for programs that must write nothing."""

    name = "memory"

    def __init__(self) -> None:
        self._homes: dict[str, dict[str, _Record]] = {}

    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:
        """Return a recorder for a new thread. The thread is kept from its first turn on."""
        return self._recorder(_Record(meta), codex_home, begun=False)

    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:
        """Return a recorder that continues a stored thread.

        Raises:
            ThreadError: It is not kept here, is archived, or another recorder has it open.
        """
        record = self._closed_record(stored.meta.id, codex_home, hint="Use the thread that is running, or fork it.")
        if record.archived:
            raise ThreadError(
                f"session {record.meta.id} is archived",
                slug="session-archived",
                hint=f"Run `codex-framework unarchive {record.meta.id}` to unarchive it first.",
            )
        return self._recorder(record, codex_home, begun=True)

    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        """Return a thread by id, the beginning of an id, or name. Raises ThreadError."""
        record = self._record(thread_id, codex_home)
        return fold_entries(record.meta, record.entries)

    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """Return the id of the thread that was written last. With ``cwd``, only threads that were started there count."""
        page = self.find(ThreadQuery(limit=1, cwd=cwd), codex_home)
        return page.threads[0].id if page.threads else None

    def find(self, query: ThreadQuery, codex_home: str) -> ThreadPage:
        """List threads, most recently changed first. Raises ThreadError for a cursor of another store."""
        records = self._records(codex_home)
        summaries = [record.summary() for record in records.values()]
        return page_of(
            summaries, query, lambda summary: filter(None, map(searchable_text, records[summary.id].entries))
        )

    def fork(self, thread_id: str, codex_home: str, *, new_id: str, at: int | str | None = None) -> None:
        """Keep a thread that begins as another one.

        Raises:
            ThreadError: There is no such thread or turn.
        """
        record = self._record(thread_id, codex_home)
        self._records(codex_home)[new_id] = _Record(*fork_record(record.meta, record.entries, new_id=new_id, at=at))

    def rename(self, thread_id: str, name: str, codex_home: str) -> None:
        """Name a thread. Raises ThreadError."""
        self._record(thread_id, codex_home).name = name.strip() or None

    def archive(self, thread_id: str, codex_home: str) -> None:
        """Archive a thread. Raises ThreadError."""
        self._set_archived(thread_id, codex_home, archived=True)

    def unarchive(self, thread_id: str, codex_home: str) -> None:
        """Take a thread out of the archive. Raises ThreadError."""
        self._set_archived(thread_id, codex_home, archived=False)

    def delete(self, thread_id: str, codex_home: str) -> None:
        """Forget a thread. Raises ThreadError."""
        del self._records(codex_home)[self._closed_record(thread_id, codex_home).meta.id]

    def _set_archived(self, thread_id: str, codex_home: str, *, archived: bool) -> None:
        record = self._closed_record(thread_id, codex_home)
        if record.archived is archived:
            state = "is already archived" if archived else "is not archived"
            raise ThreadError(
                f"thread {record.meta.id} {state}", slug="session-archived", hint="There is nothing to do."
            )
        record.archived = archived

    def _recorder(self, record: _Record, codex_home: str, *, begun: bool) -> ThreadRecorder:
        def write(entries: Sequence[ThreadEntry]) -> None:
            record.entries += entries
            record.updated_at = time.time()
            self._records(codex_home)[record.meta.id] = record

        def close() -> None:
            record.open = False

        record.open = True
        return BufferedRecorder(write, close=close, begun=begun)

    def _records(self, codex_home: str) -> dict[str, _Record]:
        return self._homes.setdefault(codex_home, {})

    def _record(self, thread_id: str, codex_home: str) -> _Record:
        records = self._records(codex_home)
        return records[find_id(thread_id, {id_: record.name for id_, record in records.items()})]

    def _closed_record(self, thread_id: str, codex_home: str, hint: str = "Shut the thread down first.") -> _Record:
        record = self._record(thread_id, codex_home)
        if record.open:
            raise ThreadError(f"thread {record.meta.id} already has an active writer", slug="session-in-use", hint=hint)
        return record
