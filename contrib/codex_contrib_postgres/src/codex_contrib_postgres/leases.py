"""Leases: each thread has one writer, and a writer whose process died loses the thread.

A thread's row names the process that writes it, and the end of its lease. One background thread per process renews all its
leases. Each write checks in its transaction that the row still names this writer, so a process that was suspended for too long
cannot write into a thread that another process continues.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable

from sqlalchemy import ColumnElement, Connection, and_, null, or_, select, update

from codex_contrib_postgres.database import Database
from codex_contrib_postgres.tables import THREADS
from codex_framework.contract.errors import ThreadError

__all__ = ["FREE", "Lease", "Leases", "is_free", "writer_error"]

FREE = {"writer": null(), "recorder": null(), "writer_name": null(), "lease_until": null()}
"""The value in a thread's row if no process writes it."""

_RETRY_S = 1.0
"""How often entries that could not be saved are tried again, in seconds."""


class Lease:
    """The right to write one thread.

    Attributes:
        is_held: The condition that a thread's row still names this lease.
        values: The columns that a write sets to renew the lease.
    """

    def __init__(self, process: str, number: int, until: ColumnElement[float]) -> None:
        self.is_held = and_(THREADS.c.writer == process, THREADS.c.recorder == number)
        self.values = {
            "writer": process,
            "recorder": number,
            "writer_name": f"process {os.getpid()} on {socket.gethostname()}",
            "lease_until": until,
        }


class Leases:
    """The leases of this process.

    Args:
        lasts_s: How long a lease lasts that is not renewed, in seconds.
    """

    def __init__(self, database: Database, lasts_s: float) -> None:
        self._database = database
        self._lasts_s = lasts_s
        self._process = ""
        self._owner = 0
        self._numbers = itertools.count(1)
        self._unsaved: set[Callable[[], None]] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_closed = False

    def new(self) -> Lease:
        """Return a lease for a thread that this process creates or takes. It is renewed until the row is free."""
        with self._lock:
            if self._owner != os.getpid():  # the first lease, or the first one after a fork of the process
                self._process, self._owner = uuid.uuid4().hex, os.getpid()
                self._unsaved, self._wake = set(), threading.Event()
                threading.Thread(target=self._renew, name="codex-leases", daemon=True).start()
            return Lease(self._process, next(self._numbers), self._database.now + self._lasts_s)

    def retry(self, save: Callable[[], None]) -> None:
        """Call ``save`` again, from the background thread, until it raises no ThreadError or the lease is lost."""
        with self._lock:
            self._unsaved.add(save)
            self._wake.set()

    def close(self, patience_s: float) -> int:
        """Wait until everything is saved, but not longer than ``patience_s``, and return how many threads are not saved."""
        end = time.monotonic() + patience_s
        while self._unsaved and time.monotonic() < end:
            time.sleep(0.05)
        with self._lock:
            self._is_closed = True
            self._wake.set()
            return len(self._unsaved)

    def _renew(self) -> None:
        renewed_at = time.monotonic()
        while not self._is_closed:
            self._wake.wait(self._lasts_s / 3)
            self._wake.clear()
            for save in tuple(self._unsaved):
                self._save(save)
            if self._unsaved:
                time.sleep(_RETRY_S)
                self._wake.set()
            if time.monotonic() >= renewed_at + self._lasts_s / 3:
                renewed_at = time.monotonic()
                self._extend()

    def _save(self, save: Callable[[], None]) -> None:
        try:
            save()
        except ThreadError:
            return
        with self._lock:
            self._unsaved.discard(save)

    def _extend(self) -> None:
        def extend(connection: Connection) -> None:
            until = self._database.now + self._lasts_s
            connection.execute(update(THREADS).where(THREADS.c.writer == self._process).values(lease_until=until))

        with contextlib.suppress(ThreadError):  # the next one may succeed; until then, writes say what is wrong
            self._database.run("renew leases", extend)


def is_free(database: Database) -> ColumnElement[bool]:
    """Return the condition under which a thread can be taken."""
    return or_(THREADS.c.writer.is_(None), THREADS.c.lease_until < database.now)


def writer_error(connection: Connection, thread_id: str, database: Database) -> ThreadError:
    """Return the error for a thread that another recorder writes."""
    row = connection.execute(
        select(THREADS.c.writer_name, THREADS.c.lease_until - database.now).where(THREADS.c.id == thread_id)
    ).one_or_none()
    name, left = (None, None) if row is None else row
    by = f": {name}" if name else ""
    return ThreadError(
        f"thread {thread_id} already has an active writer{by}",
        slug="session-in-use",
        hint="Wait until it ends, or copy the thread: codex-framework fork "
        + thread_id
        + (f". If that process has died, the thread is free in {max(left, 0):.0f} s." if left is not None else ""),
    )
