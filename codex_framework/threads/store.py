"""Checked calls of a kernel's thread store: if the store fails, the error names it and its plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from codex_framework.contract.errors import CodexError, ThreadError
from codex_framework.contract.roles.stores import StoredThread, ThreadMeta, ThreadRecorder, ThreadStore
from codex_framework.contract.value import Value
from codex_framework.threads.faults import Label, WrongValue, checked, fact_of, kind_of

__all__ = ["Store", "create_record", "find_newest", "fork_thread", "load_thread", "reopen_record"]

T = TypeVar("T")

_RECORDER = ("append", "flush", "close")


class Store(Value):
    """A thread store and its name in messages."""

    store: ThreadStore
    label: Label


def create_record(store: Store, meta: ThreadMeta, home: str) -> ThreadRecorder:
    """Return the recorder of a new thread. Raises ThreadError."""
    create = store.store.create
    return _asked(store, "create", lambda: _recorder(create(meta, home), create), create)


def reopen_record(store: Store, stored: StoredThread, home: str) -> ThreadRecorder:
    """Return the recorder of a stored thread. Raises ThreadError."""
    reopen = store.store.reopen
    return _asked(store, "reopen", lambda: _recorder(reopen(stored, home), reopen), reopen)


def load_thread(store: Store, thread_id: str, home: str) -> StoredThread:
    """Read a thread. Raises ThreadError."""
    load = store.store.load
    return _asked(store, "load", lambda: checked(load(thread_id, home), StoredThread, "it", load), load)


def fork_thread(store: Store, thread_id: str, home: str, new_id: str, at: int | str | None) -> None:
    """Store a thread that begins as another one. Raises ThreadError."""
    fork = store.store.fork
    _asked(store, "fork", lambda: fork(thread_id, home, new_id=new_id, at=at), fork)


def find_newest(store: Store, home: str, cwd: str | None) -> str | None:
    """Return the id of the newest thread. Raises ThreadError."""
    latest = store.store.latest

    def ask() -> str | None:
        found = latest(home, cwd=cwd)
        return None if found is None else checked(found, str, "it", latest)

    return _asked(store, "latest", ask, latest)


def _asked(store: Store, method: str, ask: Callable[[], T], source: object) -> T:
    try:
        return ask()
    except CodexError:
        raise
    except Exception as error:  # a plugin may raise anything
        fact = f"{store.label}: {method}() failed: {fact_of(error, source)}"
        raise ThreadError(fact, slug="plugin", hint=store.label.advice(error)) from error


def _recorder(given: Any, source: object) -> ThreadRecorder:
    missing = [name for name in _RECORDER if not callable(getattr(given, name, None))]
    if not hasattr(given, "path"):
        missing.append("path")
    if missing:
        hint = "Return an object with append(entries), flush(), close() and path."
        raise WrongValue(f"it returned {kind_of(given)}, which has no {missing[0]}", source, hint=hint)
    recorder: ThreadRecorder = given
    return recorder
