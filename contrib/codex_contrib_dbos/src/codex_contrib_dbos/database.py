"""The database of the queue: DBOS's tables and one of our own, transactions, and errors that say what to do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from dbos import DBOS
from dbos._migration import get_migration_versions, get_sqlite_migration_versions
from dbos._schemas import SCHEMA_PLACEHOLDER
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Double,
    Engine,
    MetaData,
    Table,
    Text,
    cast,
    create_engine,
    event,
    extract,
    func,
    make_url,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.roles.launchers import LaunchError

__all__ = ["SCHEMA", "WORKERS", "Database", "DatabaseDownError"]

T = TypeVar("T")

SCHEMA = "dbos"

WORKERS = Table(
    "codex_workers",
    MetaData(schema=SCHEMA_PLACEHOLDER),
    Column("executor_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("beat_at", Double, nullable=False),
)
"""The workers that have not ended. A worker writes the time into its row again and again."""

_RETRY_S = 0.5

_POSTGRES = {
    "connect_timeout": 3,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "options": "-c statement_timeout=30000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=60000",
    "application_name": "codex-framework",
}
"""Limits in milliseconds, but ``connect_timeout`` and ``keepalives_idle`` in seconds."""


class DatabaseDownError(LaunchError):
    """The database does not answer."""


class Database:
    """The database that programs and workers share. Connections are made at first use.

    Args:
        patience_s: How long a lost database is tried again.

    Raises:
        ConfigError: The URL is not one of PostgreSQL or SQLite.
    """

    def __init__(self, url: str, *, patience_s: float) -> None:
        self._url = _read_url(url)
        self._patience_s = patience_s
        self._is_closed = False
        schema = SCHEMA if self.is_postgres else None
        self.engine: Engine = _engine(self._url).execution_options(schema_translate_map={SCHEMA_PLACEHOLDER: schema})

    @property
    def url(self) -> str:
        """The URL with its password, for DBOS."""
        return self._url.render_as_string(hide_password=False)

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
        return cast((func.julianday("now") - 2440587.5) * 86400.0, Double)

    async def run(self, what: str, function: Callable[[Connection], T]) -> T:
        """Call a function in a transaction, on another thread. It is called again until the database answers.

        Args:
            what: For errors: ``start the job``.

        Raises:
            LaunchError: The database did not answer for too long, or refuses.
        """
        end = time.monotonic() + self._patience_s
        while True:
            try:
                return await asyncio.to_thread(self.run_once, what, function)
            except DatabaseDownError:
                if time.monotonic() > end:
                    raise
            await asyncio.sleep(_RETRY_S)

    def run_once(self, what: str, function: Callable[[Connection], T]) -> T:
        """Call a function in a transaction.

        Raises:
            DatabaseDownError: The database does not answer.
            LaunchError: The database refuses.
        """
        pool = self.engine.pool
        try:
            with self.engine.begin() as connection:
                return function(connection)
        except SQLAlchemyError as error:
            raise self.error(what, error) from error
        finally:
            if self._is_closed:  # a caller that was cancelled has not waited for this thread
                pool.dispose()

    def prepare(self) -> None:
        """Create the tables in an empty database.

        Raises:
            LaunchError: The database does not answer, refuses, or has tables of an older version of DBOS.
        """
        try:
            self.engine.connect().close()
            if self.is_postgres:
                version, latest = get_migration_versions(self.engine, SCHEMA, use_listen_notify=True)
            else:
                version, latest = get_sqlite_migration_versions(self.engine)
            if version == 0:
                DBOS.migrate(self.url, schema=SCHEMA)
            elif version < latest:
                fact = f"the tables in {self.address} have version {version} of DBOS, and this program needs {latest}"
                hint = "Stop the programs that use the database, and run: dbos migrate --sys-db-url URL"
                raise LaunchError(fact, hint=hint)
            try:
                WORKERS.create(self.engine, checkfirst=True)
            except DBAPIError:  # another process has created it in the same moment
                WORKERS.create(self.engine, checkfirst=True)
        except SQLAlchemyError as error:
            raise self.error("open the queue", error) from error

    def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        self.engine.dispose()

    def error(self, what: str, error: Exception) -> LaunchError:
        """Return the error for programs of an error of the database."""
        cause = getattr(error, "orig", None) or error
        fact = f"cannot {what} in {self.address}: {' '.join(str(cause).split()) or type(cause).__name__}"
        if isinstance(error, (OperationalError, InterfaceError)) or getattr(error, "connection_invalidated", False):
            hint = "Check that the database runs, and the setting framework.plugins.dbos.url or CODEX_DATABASE_URL."
            return DatabaseDownError(fact, hint=hint)
        return LaunchError(fact, hint="Check the rights of the database's user, and its version.")


def _read_url(text: str) -> URL:
    try:
        url = make_url(text)
        backend = url.get_backend_name()
        if backend == "postgresql" and url.database:
            return url.set(drivername="postgresql+psycopg")
        if backend == "sqlite" and url.database and url.database != ":memory:":
            return url.set(drivername="sqlite")
    except (ArgumentError, ValueError):  # its text may contain the password
        pass
    raise ConfigError(
        "the database of the launcher dbos has no usable URL",
        slug="config",
        hint="Set [framework.plugins.dbos] url, or CODEX_DATABASE_URL, to postgresql://user@host/name or sqlite:////path/to/file.",
    )


def _engine(url: URL) -> Engine:
    logging.getLogger("dbos").setLevel(logging.WARNING)
    if url.get_backend_name() == "postgresql":
        arguments = {**_POSTGRES, **url.query}
        return create_engine(url, connect_args=arguments, pool_size=4, max_overflow=4, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": 30})

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
