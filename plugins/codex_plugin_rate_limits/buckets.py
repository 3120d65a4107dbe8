"""Token buckets in an SQLite file, which all processes of a machine share.

A bucket is two times: when the limit of requests, and when that of tokens, would be free again if nobody asked any more. A request
may begin as long as that is at most the burst ahead of now, and moves it on (the generic cell rate algorithm).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from codex_framework import Value
from codex_plugin_rate_limits.settings import ProviderLimits

__all__ = ["Bucket", "Buckets"]

_TABLE = """
create table if not exists buckets (
    name text primary key, requests_at real not null, tokens_at real not null, held_until real not null
)
"""
_MINUTE_S = 60.0
_LONGEST_HOLD_S = 3600.0
"""A server that names a longer time, or a clock that was wrong, must not hold all processes for longer."""


class Bucket(Value, kw_only=True):
    """The state of a bucket, in Unix seconds.

    Attributes:
        requests_at: When the limit of requests would be free again.
        tokens_at: When the limit of tokens would be free again.
        held_until: No request may begin before.
    """

    requests_at: float = 0.0
    tokens_at: float = 0.0
    held_until: float = 0.0


Change: TypeAlias = Callable[[Bucket, float], tuple[Bucket, float]]
"""Returns what becomes of a bucket, and a value for the caller. It gets the bucket and the time."""


class Buckets:
    """The buckets of a file.

    All methods raise ``sqlite3.Error`` if the file cannot be used.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._connection: sqlite3.Connection | None = None

    def reserve(self, name: str, limits: ProviderLimits) -> float:
        """Reserve a place for a request, and return after how many seconds it may begin."""
        return self._change(name, lambda bucket, now: _reserve(bucket, limits, now))

    def delay(self, name: str, limits: ProviderLimits) -> float:
        """Return for how many seconds a request with a reserved place still has to wait, for tokens or a server."""
        return self._change(name, lambda bucket, now: (bucket, _ready_at(bucket, limits, now) - now))

    def charge(self, name: str, tokens: int, limits: ProviderLimits) -> None:
        """Count the tokens of a response."""
        if limits.tokens_per_minute:
            cost = tokens * _MINUTE_S / limits.tokens_per_minute
            self._change(name, lambda bucket, now: (bucket.evolve(tokens_at=max(bucket.tokens_at, now) + cost), 0.0))

    def hold(self, name: str, seconds: float) -> None:
        """Let no request begin for this time."""
        wait = min(max(seconds, 0.0), _LONGEST_HOLD_S)

        def change(bucket: Bucket, now: float) -> tuple[Bucket, float]:
            until = max(bucket.held_until, now + wait)
            return bucket.evolve(held_until=until, requests_at=max(bucket.requests_at, until)), 0.0

        self._change(name, change)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _change(self, name: str, change: Change) -> float:
        """Change a bucket while no other process can, and return what the change says."""
        connection = self._opened()
        connection.execute("begin immediate")
        try:
            now = time.time()
            found = "select requests_at, tokens_at, held_until from buckets where name = ?"
            with closing(connection.execute(found, (name,))) as rows:
                row = rows.fetchone()
            bucket = (
                Bucket()
                if row is None
                else _plausible(Bucket(requests_at=row[0], tokens_at=row[1], held_until=row[2]), now)
            )
            bucket, value = change(bucket, now)
            state = (name, bucket.requests_at, bucket.tokens_at, bucket.held_until)
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


def _reserve(bucket: Bucket, limits: ProviderLimits, now: float) -> tuple[Bucket, float]:
    ready_at = _ready_at(bucket, limits, now)
    if limits.requests_per_minute:
        free_at = max(bucket.requests_at, now)
        ready_at = max(ready_at, free_at - limits.burst_s)
        bucket = bucket.evolve(requests_at=free_at + _MINUTE_S / limits.requests_per_minute)
    return bucket, ready_at - now


def _ready_at(bucket: Bucket, limits: ProviderLimits, now: float) -> float:
    tokens_at = bucket.tokens_at - limits.burst_s if limits.tokens_per_minute else now
    return max(now, bucket.held_until, tokens_at)


def _plausible(bucket: Bucket, now: float) -> Bucket:
    """Return a bucket without times that a clock that was wrong has left behind."""
    latest = now + _LONGEST_HOLD_S
    kept = {name: min(getattr(bucket, name), latest) for name in ("requests_at", "tokens_at", "held_until")}
    return Bucket(**kept)
