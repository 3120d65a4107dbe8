"""The tables of the store. ``migrations`` creates and changes them.

Times are Unix seconds. Times of leases and changes come from the database's clock, so the clocks of workers do not matter.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects import postgresql, sqlite

__all__ = ["BUCKETS", "BUCKET_USERS", "ENTRIES", "THREADS", "insert_new"]

_METADATA = MetaData()

THREADS = Table(
    "codex_threads",
    _METADATA,
    Column("id", Text, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("cwd", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("name", Text),
    Column("preview", Text),
    Column("archived", Boolean, nullable=False),
    Column("parent_id", Text),
    Column("meta", Text, nullable=False),  # JSON of ThreadMeta
    Column("entries", BigInteger, nullable=False),  # how many entries it has
    Column("writer", Text),  # the process that writes it, and which of its recorders; no writer if the thread is closed
    Column("recorder", Integer),
    Column("writer_name", Text),  # for people: host and process
    Column("lease_until", Double),
    Index("codex_threads_by_time", "scope", "updated_at", "id"),
    Index("codex_threads_by_name", "scope", "name"),
    Index("codex_threads_by_writer", "writer"),
)
"""A row for each thread: its head, and its lease."""

ENTRIES = Table(
    "codex_entries",
    _METADATA,
    Column("thread_id", Text, ForeignKey(THREADS.c.id, ondelete="CASCADE"), nullable=False),
    Column("number", BigInteger, nullable=False),  # 0, 1, 2, ... in each thread
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),  # JSON; not of the type json, which refuses much that can be read
    Column("words", Text),  # what a search finds, with its case folded
    PrimaryKeyConstraint("thread_id", "number"),
)
"""A row for each entry of a thread's record."""

BUCKETS = Table(
    "codex_rate_limits",
    _METADATA,
    Column("name", Text, primary_key=True),  # a hash of the server and the key
    Column("requests_at", Double, nullable=False),
    Column("tokens_at", Double, nullable=False),
    Column("held_until", Double, nullable=False),
)
"""A row for each token bucket."""

BUCKET_USERS = Table(
    "codex_rate_limit_users",
    _METADATA,
    Column("name", Text, nullable=False),
    Column("process", Text, nullable=False),
    Column("seen_at", Double, nullable=False),
    PrimaryKeyConstraint("name", "process"),
)
"""A row for each bucket and process that uses it."""


def insert_new(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return a statement that inserts rows whose keys the table does not have yet."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()
