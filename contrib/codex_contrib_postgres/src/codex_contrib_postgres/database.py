"""The connection to the database: transactions that are retried after a lost connection, and errors with advice."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Double, Engine, cast, create_engine, event, extract, func, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from codex_contrib_postgres.schema import check_schema, upgrade_schema
from codex_framework.contract.errors import ConfigError, ThreadError

__all__ = ["Database"]

T = TypeVar("T")

_CONNECT_S = 3
"""The time limit for a connection in seconds. Turns wait for it."""

_PAUSE_S = 1.0
"""The pause after a failed connection in seconds. Otherwise hundreds of threads would each wait for the time limit."""

_POSTGRES = {
    "connect_timeout": _CONNECT_S,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "options": "-c statement_timeout=30000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=60000",
    "application_name": "codex-framework",
}
"""Limits in milliseconds, but the first one and ``keepalives_idle`` in seconds. A dead network must not stop a turn for minutes."""


class Database:
    """A database that processes share. Connections are made at first use, and anew after a fork of the process.

    Raises:
        ConfigError: The URL is not one of PostgreSQL or SQLite.
    """

    def __init__(self, url: str) -> None:
        self._url = _read_url(url)
        self._engine: Engine | None = None
        self._owner = 0
        self._lock = threading.Lock()
        self._failed_at = float("-inf")

    @property
    def address(self) -> str:
        """The URL without its password."""
        return self._url.set(drivername=self._url.get_backend_name()).render_as_string(hide_password=True)

    @property
    def is_postgres(self) -> bool:
        """Whether this is PostgreSQL, and not SQLite."""
        return self._url.get_backend_name() == "postgresql"

    @property
    def now(self) -> ColumnElement[float]:
        """The database's clock, in Unix seconds."""
        if self.is_postgres:
            return cast(extract("epoch", func.clock_timestamp()), Double)
        return (func.julianday("now") - 2440587.5) * 86400.0

    def run(self, what: str, function: Callable[[Connection], T]) -> T:
        """Call a function in a transaction. It is called a second time if its connection was lost, even while it was committed.

        Args:
            what: For errors: ``save the thread``.

        Raises:
            ThreadError: The database cannot be reached, has another version, or refuses.
        """
        if time.monotonic() < self._failed_at + _PAUSE_S:
            raise self._error(what, "it could not be reached a moment ago")
        is_second = False
        while True:
            try:
                with self._connections().begin() as connection:
                    return function(connection)
            except DBAPIError as error:
                if error.connection_invalidated and not is_second:
                    is_second = True
                    continue
                if error.connection_invalidated or _is_of_connecting(error):
                    self._failed_at = time.monotonic()
                raise self._error(what, " ".join(str(error.orig).split()) or type(error.orig).__name__) from error
            except SQLAlchemyError as error:
                raise self._error(what, str(error)) from error

    def upgrade(self) -> tuple[str | None, str]:
        """Bring the tables to the version of this package, and return the versions before and after. Raises ThreadError."""
        engine = _engine(self._url)
        try:
            return upgrade_schema(engine)
        except SQLAlchemyError as error:
            raise self._error("change the tables", str(getattr(error, "orig", error)).strip()) from error
        finally:
            engine.dispose()

    def close(self) -> None:
        """Close the connections. A later use makes new ones."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose(close=self._owner == os.getpid())
                self._engine = None

    def _connections(self) -> Engine:
        with self._lock:
            if self._engine is None or self._owner != os.getpid():
                if self._engine is not None:  # its connections are those of the process that forked this one
                    self._engine.dispose(close=False)
                    self._engine = None
                engine = _engine(self._url)
                try:
                    check_schema(engine, self.address)
                except Exception:
                    engine.dispose()
                    raise
                self._engine, self._owner = engine, os.getpid()
            return self._engine

    def _error(self, what: str, fact: str) -> ThreadError:
        return ThreadError(
            f"cannot {what} in {self.address}: {fact}",
            slug="thread-unsaved",
            hint="Check that it runs, and [framework.plugins.postgres] url. Unsaved entries are kept, and saved when it answers.",
        )


def _read_url(text: str) -> URL:
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except ArgumentError:
        backend = ""
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database and url.database != ":memory:":
        return url.set(drivername="sqlite")
    raise ConfigError(
        "the database of the thread store has no usable URL",
        slug="config",
        hint="Set [framework.plugins.postgres] url, or CODEX_DATABASE_URL, to postgresql://user@host/name or sqlite:////path/to/file.",
    )


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        return create_engine(
            url, connect_args={**_POSTGRES, **url.query}, pool_size=4, max_overflow=12, pool_timeout=10
        )
    engine = create_engine(url, connect_args={"timeout": 10})

    # The driver begins transactions late, so two processes could both read first and then wait for one another.
    # https://docs.sqlalchemy.org/en/20/dialects/sqlite.html#serializable-isolation-savepoints-transactional-ddl
    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _is_of_connecting(error: DBAPIError) -> bool:
    return error.statement is None
