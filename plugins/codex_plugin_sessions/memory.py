"""The thread store that keeps threads in memory."""

from __future__ import annotations

import time
from collections.abc import Sequence

from codex_framework import StoredThread, ThreadError, ThreadMeta, ThreadRecorder, ThreadStore
from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.contract.roles.stores import (
    EventEntry,
    MetaEntry,
    ThreadEntry,
    ThreadPage,
    ThreadQuery,
    ThreadSummary,
)
from codex_framework.toolkit.thread_records import count_entries, fold_entries, searchable_text, summary_of

__all__ = ["MemoryStore"]


class _Kept:
    """A thread: what was flushed of it."""

    def __init__(
        self, meta: ThreadMeta, entries: list[ThreadEntry], updated_at: float, *, is_open: bool = False
    ) -> None:
        self.meta = meta
        self.entries = entries
        self.updated_at = updated_at
        self.name: str | None = None
        self.archived = False
        self.open = is_open


class MemoryStore(ThreadStore):
    """A thread store that keeps threads for as long as the kernel: for tests, and for programs that must write nothing."""

    name = "memory"

    def __init__(self) -> None:
        self._homes: dict[str, dict[str, _Kept]] = {}

    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:
        """Return a recorder for a new thread. The thread is kept from its first flush on."""
        return _Recorder(self._threads(codex_home), _Kept(meta, [], meta.created_at, is_open=True))

    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:
        """Return a recorder that continues a stored thread.

        Raises:
            ThreadError: It is not kept here, is archived, or another recorder has it open.
        """
        kept = self._kept(stored.meta.id, codex_home)
        if kept.archived:
            raise ThreadError(
                f"session {kept.meta.id} is archived",
                slug="session-archived",
                hint=f"Run `codex-framework unarchive {kept.meta.id}` to unarchive it first.",
            )
        if kept.open:
            raise ThreadError(
                f"thread {kept.meta.id} already has an active writer",
                slug="session-in-use",
                hint="Use the thread that is running, or fork it.",
            )
        kept.open = True
        return _Recorder(self._threads(codex_home), kept)

    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        """Return a thread by id, the beginning of an id, or name. Raises ThreadError."""
        kept = self._kept(thread_id, codex_home)
        return fold_entries(kept.meta, kept.entries)

    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """Return the id of the thread that was written last. With ``cwd``, only threads that were started there count."""
        page = self.find(ThreadQuery(limit=1, cwd=cwd), codex_home)
        return page.threads[0].id if page.threads else None

    def find(self, query: ThreadQuery, codex_home: str) -> ThreadPage:
        """List threads, most recently changed first. Raises ThreadError for a cursor of another store."""
        if query.limit < 1 or (query.cursor is not None and not query.cursor.isdigit()):
            raise ThreadError(
                f"the limit {query.limit} or the cursor {query.cursor!r} cannot be used",
                slug="bad-request",
                hint="Pass the cursor of the previous page, or none for the first one.",
            )
        kept = sorted(
            self._threads(codex_home).values(), key=lambda each: (each.updated_at, each.meta.id), reverse=True
        )
        found = [summary for each in kept if (summary := _fitting(each, query)) is not None]
        start = int(query.cursor or 0)
        end = start + query.limit
        return ThreadPage(threads=tuple(found[start:end]), cursor=str(end) if end < len(found) else None)

    def fork(self, thread_id: str, codex_home: str, *, new_id: str, at: int | str | None = None) -> None:
        """Keep a thread that begins as another one.

        Raises:
            ThreadError: There is no such thread or turn.
        """
        kept = self._kept(thread_id, codex_home)
        end = count_entries(kept.meta.id, kept.entries, at)
        now = time.time()
        meta = kept.meta.evolve(id=new_id, created_at=now, forked_from_id=kept.meta.id)
        self._threads(codex_home)[new_id] = _Kept(meta, kept.entries[:end], now)

    def rename(self, thread_id: str, name: str, codex_home: str) -> None:
        """Name a thread. Raises ThreadError."""
        self._kept(thread_id, codex_home).name = name.strip() or None

    def archive(self, thread_id: str, codex_home: str) -> None:
        """Archive a thread. Raises ThreadError."""
        self._set_archived(thread_id, codex_home, archived=True)

    def unarchive(self, thread_id: str, codex_home: str) -> None:
        """Take a thread out of the archive. Raises ThreadError."""
        self._set_archived(thread_id, codex_home, archived=False)

    def delete(self, thread_id: str, codex_home: str) -> None:
        """Forget a thread. Raises ThreadError."""
        kept = self._kept(thread_id, codex_home)
        self._check_closed(kept)
        del self._threads(codex_home)[kept.meta.id]

    def _set_archived(self, thread_id: str, codex_home: str, *, archived: bool) -> None:
        kept = self._kept(thread_id, codex_home)
        self._check_closed(kept)
        if kept.archived is archived:
            state = "is already archived" if archived else "is not archived"
            raise ThreadError(f"thread {kept.meta.id} {state}", slug="session-archived", hint="There is nothing to do.")
        kept.archived = archived

    def _check_closed(self, kept: _Kept) -> None:
        if kept.open:
            raise ThreadError(
                f"thread {kept.meta.id} already has an active writer",
                slug="session-in-use",
                hint="Shut the thread down first.",
            )

    def _threads(self, codex_home: str) -> dict[str, _Kept]:
        return self._homes.setdefault(codex_home, {})

    def _kept(self, thread_id: str, codex_home: str) -> _Kept:
        threads = self._threads(codex_home)
        found = [threads[thread_id]] if thread_id in threads else []
        found = found or [kept for kept in threads.values() if thread_id and kept.name == thread_id]
        found = found or [kept for id_, kept in threads.items() if len(thread_id) >= 4 and id_.startswith(thread_id)]
        if len(found) != 1:
            many = f"{len(found)} sessions are called or begin with {thread_id}"
            raise ThreadError(
                many if found else f"no rollout found for thread id {thread_id}",
                slug="thread-not-found",
                hint="The store `memory` keeps only the threads of this process.",
            )
        return found[0]


class _Recorder:
    """The recorder of one thread."""

    path: str | None = None

    def __init__(self, threads: dict[str, _Kept], kept: _Kept) -> None:
        self._threads = threads
        self._kept = kept
        self._pending: list[ThreadEntry] = []

    def append(self, entries: Sequence[ThreadEntry]) -> None:
        """Add entries."""
        self._pending += [entry for entry in entries if not isinstance(entry, EventEntry) or entry.msg.is_kept()]

    def flush(self) -> None:
        """Keep the pending entries."""
        if self._pending:
            for entry in self._pending:
                if isinstance(entry, MetaEntry):
                    self._kept.meta = self._kept.meta.evolve(extra={**self._kept.meta.extra, **entry.changes})
            self._kept.entries += self._pending
            self._pending = []
            self._kept.updated_at = time.time()
            self._threads[self._kept.meta.id] = self._kept

    def close(self) -> None:
        """Keep the pending entries, and let the thread be opened again."""
        self.flush()
        self._kept.open = False


def _fitting(kept: _Kept, query: ThreadQuery) -> ThreadSummary | None:
    parent = kept.meta.extra.get("parent_thread_id")
    if (
        (query.archived is not None and kept.archived is not query.archived)
        or (query.cwd is not None and kept.meta.cwd != query.cwd)
        or (parent is not None and not query.subagents)
    ):
        return None
    asked = [
        entry.msg.message
        for entry in kept.entries
        if isinstance(entry, EventEntry) and isinstance(entry.msg, UserMessageEvent)
    ]
    match = None
    if query.text:
        wanted = query.text.casefold()
        texts = [kept.name or "", *(searchable_text(entry) or "" for entry in kept.entries)]
        match = next((text[:200] for text in texts if wanted in text.casefold()), None)
        if match is None:
            return None
    return summary_of(
        kept.meta,
        updated_at=kept.updated_at,
        name=kept.name,
        preview=asked[0] if asked else None,
        archived=kept.archived,
        match=match,
    )
