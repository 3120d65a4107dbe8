"""The thread store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from codex_contrib_postgres.database import Database
from codex_contrib_postgres.leases import Lease, Leases, is_free, writer_error
from codex_contrib_postgres.recorder import DatabaseRecorder
from codex_contrib_postgres.rows import clean_text, thread_row
from codex_contrib_postgres.settings import PostgresSettings
from codex_contrib_postgres.tables import ENTRIES, THREADS, insert_new
from codex_framework import StoredThread, ThreadError, ThreadMeta, ThreadRecorder, ThreadStore
from codex_framework.contract.roles.stores import ThreadEntry, ThreadPage, ThreadQuery, ThreadSummary
from codex_framework.toolkit.thread_records import (
    count_entries,
    decode_entry,
    decode_meta,
    excerpt,
    fold_entries,
    forked_meta,
    summary_of,
)

__all__ = ["DatabaseStore"]


class _LoadedThread(StoredThread, kw_only=True):
    """A thread with the number of entries that it had when it was read."""

    entries_read: int


class DatabaseStore(ThreadStore):
    """A thread store in a database, which several processes and machines can use concurrently.

    Raises:
        ConfigError: The database has no usable URL.
    """

    name = "postgres"

    def __init__(self, url: str, settings: PostgresSettings) -> None:
        self._scope = settings.scope
        self._must_save = settings.must_save
        self.patience_s = settings.patience_s
        self._database = Database(url)
        self._leases = Leases(self._database, settings.lease_s)

    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:  # noqa: ARG002  # the database is everybody's
        """Return a recorder for a new thread. Its first flush writes its row."""
        return self._recorder(self._leases.new(), meta, None)

    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:  # noqa: ARG002
        """Take a thread without a writer, and return a recorder that continues it.

        Raises:
            ThreadError: Another recorder writes it or has written it since it was loaded, or it is archived.
        """
        id_, lease = stored.meta.id, self._leases.new()

        def take(connection: Connection) -> int:
            row = connection.execute(
                update(THREADS)
                .where(THREADS.c.id == id_, or_(is_free(self._database), lease.is_held), THREADS.c.archived.is_(False))
                .values(lease.values)
                .returning(THREADS.c.entries)
            ).one_or_none()
            if row is None:
                raise self._refusal(connection, id_)
            if isinstance(stored, _LoadedThread) and stored.entries_read != row.entries:
                raise ThreadError(
                    f"thread {id_} has been continued since it was loaded",
                    slug="session-in-use",
                    hint="Load it again.",
                )
            return int(row.entries)

        entries = self._database.run(f"continue thread {id_}", take)
        return self._recorder(lease, stored.meta, entries)

    def load(self, thread_id: str, codex_home: str) -> StoredThread:  # noqa: ARG002
        """Read a thread by id, by the beginning of an id, or by name. Raises ThreadError."""
        what = f"load thread {thread_id[:80]}"
        thread, entries = self._database.run(what, lambda connection: self._read(connection, thread_id))
        stored = fold_entries(decode_meta(thread.meta), entries)
        return _LoadedThread(**attrs.asdict(stored, recurse=False), entries_read=thread.entries)

    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """Return the id of the thread that was written last. With ``cwd``, only threads that were started there count."""
        threads = self.find(ThreadQuery(limit=1, cwd=cwd), codex_home).threads
        return threads[0].id if threads else None

    def find(self, query: ThreadQuery, codex_home: str) -> ThreadPage:  # noqa: ARG002
        """List threads, most recently changed first. Raises ThreadError for a cursor of another store."""
        order = (THREADS.c.updated_at, THREADS.c.id)
        found = select(THREADS).where(THREADS.c.scope == self._scope, *_conditions(query))
        if query.cursor is not None:
            found = found.where(tuple_(*order) < tuple_(*map(literal, _read_cursor(query.cursor))))
        found = found.order_by(*(column.desc() for column in order)).limit(query.limit + 1)

        def list_threads(connection: Connection) -> ThreadPage:
            rows = connection.execute(found).all()
            page = rows[: query.limit]
            cursor = f"{page[-1].updated_at!r} {page[-1].id}" if len(rows) > query.limit else None
            threads = tuple(self._summary(connection, row, query.text) for row in page)
            return ThreadPage(threads=threads, cursor=cursor)

        return self._database.run("list threads", list_threads)

    def fork(self, thread_id: str, codex_home: str, *, new_id: str, at: int | str | None = None) -> None:  # noqa: ARG002
        """Store a thread that begins as another one. The entries are copied in the database.

        Raises:
            ThreadError: There is no such thread or turn.
        """

        def copy(connection: Connection) -> None:
            thread, entries = self._read(connection, thread_id)
            count = count_entries(thread.id, entries, at)
            meta = forked_meta(decode_meta(thread.meta), new_id)
            row = {**thread_row(meta, self._scope, self._database.now), "preview": thread.preview, "entries": count}
            connection.execute(insert_new(connection, THREADS).values(row))
            columns = [column for column in ENTRIES.c if column is not ENTRIES.c.thread_id]
            kept = select(literal(new_id), *columns).where(ENTRIES.c.thread_id == thread.id, ENTRIES.c.number < count)
            connection.execute(
                insert_new(connection, ENTRIES).from_select(["thread_id", *(column.name for column in columns)], kept)
            )

        self._database.run(f"fork thread {thread_id[:80]}", copy)

    def rename(self, thread_id: str, name: str, codex_home: str) -> None:  # noqa: ARG002
        """Name a thread. Raises ThreadError."""
        self._change("rename", thread_id, {"name": clean_text(name.strip()) or None}, if_free=False)

    def archive(self, thread_id: str, codex_home: str) -> None:  # noqa: ARG002
        """Archive a thread. Raises ThreadError."""
        self._change("archive", thread_id, {"archived": True})

    def unarchive(self, thread_id: str, codex_home: str) -> None:  # noqa: ARG002
        """Take a thread out of the archive. Raises ThreadError."""
        self._change("unarchive", thread_id, {"archived": False})

    def delete(self, thread_id: str, codex_home: str) -> None:  # noqa: ARG002
        """Delete a thread and its entries. Raises ThreadError."""

        def remove(connection: Connection) -> None:
            row = self._find_row(connection, thread_id)
            if not connection.execute(delete(THREADS).where(THREADS.c.id == row.id, is_free(self._database))).rowcount:
                raise writer_error(connection, row.id, self._database)

        self._database.run(f"delete thread {thread_id[:80]}", remove)

    @property
    def address(self) -> str:
        """The database's URL without its password."""
        return self._database.address

    def upgrade(self) -> tuple[str | None, str]:
        """Bring the tables to the version of this package, and return the versions before and after. Raises ThreadError."""
        return self._database.upgrade()

    def close(self) -> int:
        """Save what could not be saved yet, close the connections, and return how many threads are still not saved."""
        unsaved = self._leases.close(self.patience_s)
        self._database.close()
        return unsaved

    def _recorder(self, lease: Lease, meta: ThreadMeta, entries: int | None) -> DatabaseRecorder:
        return DatabaseRecorder(
            self._database,
            self._leases,
            lease,
            meta,
            scope=self._scope,
            entries=entries,
            must_save=self._must_save,
        )

    def _change(self, verb: str, thread_id: str, values: dict[str, Any], *, if_free: bool = True) -> None:
        def change(connection: Connection) -> None:
            row = self._find_row(connection, thread_id)
            if row.archived is values.get("archived"):
                state = "is already archived" if row.archived else "is not archived"
                raise ThreadError(f"thread {row.id} {state}", slug="session-archived", hint="There is nothing to do.")
            statement = update(THREADS).where(THREADS.c.id == row.id).values(values)
            if if_free:
                statement = statement.where(is_free(self._database))
            if not connection.execute(statement).rowcount:
                raise writer_error(connection, row.id, self._database)

        self._database.run(f"{verb} thread {thread_id[:80]}", change)

    def _read(self, connection: Connection, wanted: str) -> tuple[Row[Any], list[ThreadEntry | None]]:
        """Return a thread's row and its entries. An unreadable entry is None."""
        thread = self._find_row(connection, wanted)
        rows = connection.execute(
            select(ENTRIES.c.kind, ENTRIES.c.payload)
            .where(ENTRIES.c.thread_id == thread.id, ENTRIES.c.number < thread.entries)
            .order_by(ENTRIES.c.number)
        )
        return thread, [decode_entry(row.kind, row.payload) for row in rows]

    def _refusal(self, connection: Connection, thread_id: str) -> ThreadError:
        row = self._find_row(connection, thread_id)
        if not row.archived:
            return writer_error(connection, thread_id, self._database)
        return ThreadError(
            f"session {thread_id} is archived",
            slug="session-archived",
            hint=f"Run `codex-framework unarchive {thread_id}` to unarchive it first.",
        )

    def _find_row(self, connection: Connection, wanted: str) -> Row[Any]:
        """Return the row of a thread by its id, its name, or the beginning of its id, in this order."""
        wanted = clean_text(wanted)
        ways: list[ColumnElement[bool]] = [THREADS.c.id == wanted, THREADS.c.name == wanted]
        if len(wanted) >= 4:
            ways.append(THREADS.c.id.startswith(wanted, autoescape=True))
        rows: Sequence[Row[Any]] = ()
        for way in ways:
            rows = connection.execute(select(THREADS).where(THREADS.c.scope == self._scope, way).limit(2)).all()
            if len(rows) == 1:
                return rows[0]
            if rows:
                break
        raise ThreadError(
            f"several sessions are called or begin with {wanted[:80]}"
            if rows
            else f"no rollout found for thread id {wanted[:80]}",
            slug="thread-not-found",
            hint="Name the whole id. List the sessions: codex-framework sessions",
        )

    def _summary(self, connection: Connection, row: Row[Any], text: str | None) -> ThreadSummary:
        return summary_of(
            decode_meta(row.meta),
            updated_at=row.updated_at,
            name=row.name,
            preview=row.preview,
            archived=row.archived,
            match=_match(connection, row, text) if text else None,
        )


def _conditions(query: ThreadQuery) -> list[ColumnElement[bool]]:
    if query.limit < 1:
        raise ThreadError(f"the limit is {query.limit}", slug="bad-request", hint="Ask for at least one thread.")
    conditions: list[ColumnElement[bool]] = []
    if query.archived is not None:
        conditions.append(THREADS.c.archived.is_(query.archived))
    if query.cwd is not None:
        conditions.append(THREADS.c.cwd == clean_text(query.cwd))
    if not query.subagents:
        conditions.append(THREADS.c.parent_id.is_(None))
    if query.text:
        words = _in_words(query.text) & (ENTRIES.c.thread_id == THREADS.c.id)
        name = func.lower(THREADS.c.name).contains(clean_text(query.text.lower()), autoescape=True)
        conditions.append(or_(name, exists().where(words)))
    return conditions


def _in_words(text: str) -> ColumnElement[bool]:
    return ENTRIES.c.words.contains(clean_text(text.casefold()), autoescape=True)


def _match(connection: Connection, row: Row[Any], text: str) -> str | None:
    """Return the place that a search found: of the name, or else of the first message that contains the text."""
    found = connection.execute(
        select(ENTRIES.c.payload)
        .where(ENTRIES.c.thread_id == row.id, _in_words(text))
        .order_by(ENTRIES.c.number)
        .limit(1)
    ).scalar_one_or_none()
    message = json.loads(found).get("message", "") if found is not None else row.name or ""
    return excerpt(message, text.casefold())


def _read_cursor(cursor: str) -> tuple[float, str]:
    updated_at, space, thread_id = cursor.partition(" ")
    try:
        if space:
            return float(updated_at), clean_text(thread_id)
    except ValueError:
        pass
    raise ThreadError(
        f"{cursor!r} is not a cursor of the list of threads",
        slug="bad-request",
        hint="Pass the cursor of the previous page, or none for the first one.",
    )
