"""Rate limits that the processes of several machines share: the token buckets of the plugin ``rate_limits`` in the database."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable

from sqlalchemy import Connection, delete, func, insert, select, update

from codex_contrib_postgres.database import Database
from codex_contrib_postgres.tables import BUCKET_USERS, BUCKETS, insert_new
from codex_framework.contract.errors import ThreadError
from codex_plugin_rate_limits.buckets import Bucket, Change, StoreError
from codex_plugin_rate_limits.limiter import RateLimiter

__all__ = ["BucketTable", "DatabaseLimiter"]

_PATIENCE_S = 5.0
"""How long a request waits for the database. After that, the process limits itself."""

_SEEN_S = 60.0
"""How long a process that does not send requests counts as one that shares the limits."""

_FRESH_S = 15.0
"""How often a process says that it shares the limits."""


class DatabaseLimiter(RateLimiter):
    """The interceptor of the plugin ``rate_limits`` with buckets in the database."""

    name = "postgres_rate_limits"


class BucketTable:
    """The buckets of a database. Its clock decides, so the clocks of the machines do not matter.

    One thread per process talks to the database, so that the event loop never waits for it.

    Attributes:
        share: One divided by the number of processes that have used a bucket in the last minute.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._process = uuid.uuid4().hex
        self._seen_at: dict[str, float] = {}
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._owner = 0
        self.share = 1.0

    async def change(self, name: str, change: Change) -> float:
        """Change a bucket in a transaction of its own. Raises StoreError."""
        if self._owner != os.getpid():  # the first change, or the first one after a fork
            self._owner, self._process, self._calls = os.getpid(), uuid.uuid4().hex, queue.SimpleQueue()
            threading.Thread(target=_serve, args=(self._calls,), name="codex-rate-limits", daemon=True).start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[float] = loop.create_future()

        def call() -> None:
            if answer.cancelled():  # nobody waits any more
                return
            value: float | StoreError
            try:
                value = self._database.run(
                    "use the rate limits", lambda connection: self._change(connection, name, change)
                )
            except ThreadError as error:
                value = StoreError(error.fact, hint="Check the database.")
            except Exception as error:
                value = StoreError(f"{type(error).__name__}: {error}")
            with contextlib.suppress(RuntimeError):  # the loop may have ended
                loop.call_soon_threadsafe(_resolve, answer, value)

        self._calls.put(call)
        try:
            return await asyncio.wait_for(answer, _PATIENCE_S)
        except TimeoutError:
            fact = f"{self._database.address} does not answer within {_PATIENCE_S:g} s"
            raise StoreError(fact, hint="Check the database.") from None

    def close(self) -> None:
        """Close the connections."""
        self._calls.put(self._database.close)

    def _change(self, connection: Connection, name: str, change: Change) -> float:
        columns = (BUCKETS.c.requests_at, BUCKETS.c.tokens_at, BUCKETS.c.held_until)
        found = select(*columns, self._database.now.label("now")).where(BUCKETS.c.name == name).with_for_update()
        row = connection.execute(found).one_or_none()
        if row is None:
            connection.execute(insert_new(connection, BUCKETS).values(name=name, **_values(Bucket())))
            row = connection.execute(found).one()
        bucket = Bucket(requests_at=row.requests_at, tokens_at=row.tokens_at, held_until=row.held_until)
        changed, value = change(bucket, row.now)
        if changed != bucket:
            connection.execute(update(BUCKETS).where(BUCKETS.c.name == name).values(_values(changed)))
        if time.monotonic() > self._seen_at.get(name, float("-inf")) + _FRESH_S:
            self._count_users(connection, name)
            self._seen_at[name] = time.monotonic()
        return value

    def _count_users(self, connection: Connection, name: str) -> None:
        """Say that this process uses a bucket, and count who else does."""
        users, now = BUCKET_USERS, self._database.now
        is_old = (users.c.process == self._process) | (users.c.seen_at < now - _SEEN_S)
        connection.execute(delete(users).where(users.c.name == name, is_old))
        connection.execute(insert(users).values(name=name, process=self._process, seen_at=now))
        count = connection.execute(select(func.count()).where(users.c.name == name)).scalar_one()
        self.share = 1.0 / count


def _serve(calls: queue.SimpleQueue[Callable[[], None]]) -> None:
    while True:
        calls.get()()


def _resolve(answer: asyncio.Future[float], value: float | StoreError) -> None:
    if answer.done():
        return
    if isinstance(value, StoreError):
        answer.set_exception(value)
    else:
        answer.set_result(value)


def _values(bucket: Bucket) -> dict[str, float]:
    return {"requests_at": bucket.requests_at, "tokens_at": bucket.tokens_at, "held_until": bucket.held_until}
