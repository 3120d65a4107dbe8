"""The thread store that uses rollout files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.roles.stores import (
    StoredThread,
    ThreadFault,
    ThreadMeta,
    ThreadPage,
    ThreadQuery,
    ThreadRecorder,
    ThreadStore,
)
from codex_plugin_rollout.head import Head
from codex_plugin_rollout.recorder import RolloutRecorder

if TYPE_CHECKING:
    from codex_plugin_rollout.paginated import PaginatedEvents
    from codex_plugin_rollout.turn_previews import TurnPreviews
    from codex_plugin_rollout.writer_lock import WriterLock

__all__ = ["RolloutStore"]

_SHOWN = 80
"""How much of an unknown id an error shows, in characters."""

_PREFIX = "[0-9a-f-]{4,36}"
"""A possible beginning of an id. Shorter ones would often be ambiguous."""


class RolloutStore(ThreadStore):
    """A thread store with one file per thread in ``$CODEX_HOME/sessions``, as in Codex."""

    name = "rollout"

    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:
        """Return a recorder for a new thread. The first flush after the start of a turn, or a user message, creates its file."""
        home = Path(codex_home)
        path = _new_path(home, meta.id, meta.created_at)
        return RolloutRecorder(
            path,
            Head(meta, begun=False),
            begun=False,
            archive=home / "archived_sessions",
            paginated=_paginated_events(meta),
            lock=partial(_lock_thread, meta.id, home),
        )

    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:
        """Return a recorder that continues the thread's file.

        Raises:
            ThreadError: The thread was not loaded from an uncompressed file, is archived, or is open in another process.
        """
        if stored.path is None or not stored.path.endswith(".jsonl"):
            raise ThreadError(
                f"thread {stored.meta.id} is not in a file that can be continued: {stored.path}",
                slug="thread-unreadable",
                hint=f"Decompress it first: zstd -d --rm {stored.path}",
            )
        home = Path(codex_home)
        if Path(stored.path).parent == home / "archived_sessions":
            raise ThreadError(
                f"session {stored.meta.id} is archived",
                slug="session-archived",
                hint=f"Run `codex-framework unarchive {stored.meta.id}` to unarchive it first.",
            )
        return RolloutRecorder(
            Path(stored.path),
            Head(stored.meta, begun=True),
            begun=True,
            archive=home / "archived_sessions",
            paginated=_paginated_events(stored.meta),
            lock=_lock_thread(stored.meta.id, home),
            previews=_previews(stored.meta, home),
        )

    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        """Read a thread by id, the beginning of an id, by name or by file path.

        Raises:
            ThreadError: The thread does not exist, or its file cannot be read.
        """
        from codex_plugin_rollout.reading import read_thread

        home = Path(codex_home)
        return read_thread(_find(thread_id, home), home).stored()

    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """Return the id of the most recently written thread, or None.

        With ``cwd``, only threads that were started in this folder count. Archived threads never count.
        """
        from codex_plugin_rollout import files

        @cache
        def resolve(path: str) -> str:
            return os.path.realpath(path)

        for path in files.newest_first(Path(codex_home)):
            head = files.read_head(path)
            if head is None or not isinstance(head.get("id"), str) or not files.is_of_user(head):
                continue  # an incomplete first line, or the thread of a sub-agent
            if cwd is None or files.is_folder_of(head, cwd, resolve):
                return files.id_of_file(path) or str(head["id"])
        return None

    def find(self, query: ThreadQuery, codex_home: str) -> ThreadPage:
        """List threads, most recently changed first. Raises ThreadError for a cursor of another store."""
        from codex_plugin_rollout.listing import find

        return find(query, Path(codex_home))

    def fork(self, thread_id: str, codex_home: str, *, new_id: str, at: int | str | None = None) -> None:
        """Write the file of a thread that begins as another one.

        Raises:
            ThreadError: There is no such thread or no such turn, or the file cannot be written.
        """
        from codex_plugin_rollout.forks import fork
        from codex_plugin_rollout.reading import read_thread

        home = Path(codex_home)
        fork(read_thread(_find(thread_id, home), home), _new_path(home, new_id, time.time()), new_id, at)

    def rename(self, thread_id: str, name: str, codex_home: str) -> None:
        """Name a thread in ``session_index.jsonl``. Raises ThreadError."""
        from codex_plugin_rollout.organising import rename

        rename(_id(thread_id, Path(codex_home)), name, Path(codex_home))

    def archive(self, thread_id: str, codex_home: str) -> None:
        """Move a thread's files to ``archived_sessions``. Raises ThreadError."""
        from codex_plugin_rollout.organising import archive

        archive(_id(thread_id, Path(codex_home)), Path(codex_home))

    def unarchive(self, thread_id: str, codex_home: str) -> None:
        """Move a thread's files back to ``sessions``. Raises ThreadError."""
        from codex_plugin_rollout.organising import unarchive

        unarchive(_id(thread_id, Path(codex_home)), Path(codex_home))

    def delete(self, thread_id: str, codex_home: str) -> None:
        """Delete a thread's files. Raises ThreadError."""
        from codex_plugin_rollout.organising import delete

        delete(_id(thread_id, Path(codex_home)), Path(codex_home))

    def check(self, codex_home: str, thread_id: str | None = None) -> Iterable[ThreadFault]:
        """Return the damages in a thread's file, or in all files. Raises ThreadError."""
        from codex_plugin_rollout.repairs import all_paths, check

        home = Path(codex_home)
        paths = all_paths(home) if thread_id is None else [_find(thread_id, home)]
        return (fault for path in paths for fault in check(path, home))

    def repair(self, thread_id: str, codex_home: str) -> Iterable[ThreadFault]:
        """Repair a thread's file, and keep a copy of the damaged one beside it. Raises ThreadError."""
        from codex_plugin_rollout.repairs import repair

        return repair(_find(thread_id, Path(codex_home)), Path(codex_home))

    def export(self, thread_id: str, codex_home: str) -> Iterable[bytes]:
        """Return the lines of one file that contains the whole thread. Raises ThreadError."""
        from codex_plugin_rollout.forks import exported
        from codex_plugin_rollout.reading import read_thread

        return exported(read_thread(_find(thread_id, Path(codex_home)), Path(codex_home)))


def _lock_thread(thread_id: str, home: Path) -> WriterLock:
    from codex_plugin_rollout.writer_lock import lock_thread

    return lock_thread(thread_id, home)


def _id(thread_id: str, home: Path) -> str:
    """Return the id of a thread that was named by id, name or path. It is the one in the file's name."""
    from codex_plugin_rollout.files import id_of_file, is_session

    path = _find(thread_id, home)
    found = id_of_file(path)
    if found is None or not is_session(path, home):
        raise ThreadError(
            f"{path} is not a session of {home}",
            slug="thread-not-found",
            hint="Name a session by its id or name. `codex-framework sessions list` lists them.",
        )
    return found


def _paginated_events(meta: ThreadMeta) -> PaginatedEvents | None:
    if meta.extra.get("history_mode") != "paginated":
        return None
    from codex_plugin_rollout.paginated import PaginatedEvents

    return PaginatedEvents(meta.id, meta.extra.get("history_base"))


def _previews(meta: ThreadMeta, codex_home: Path) -> TurnPreviews | None:
    is_one_file = meta.extra.get("history_mode") == "paginated" and meta.extra.get("history_base") is None
    if not is_one_file or not (codex_home / "thread_history_1.sqlite").exists():
        return None
    from codex_plugin_rollout.turn_previews import TurnPreviews

    return TurnPreviews(codex_home, meta.id)


def _new_path(codex_home: Path, thread_id: str, created_at: float) -> Path:
    """Return the path for a thread's new file. The folder and file name contain the local time at which the thread started."""
    began = time.localtime(created_at)
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', began)}-{thread_id}.jsonl"
    return codex_home / f"sessions/{time.strftime('%Y/%m/%d', began)}/{name}"


def _find(thread_id: str, home: Path) -> Path:
    if "/" in thread_id or thread_id.endswith((".jsonl", ".jsonl.zst")):
        path = Path(home_expanded(thread_id)).absolute()
        if path.is_file():
            return path
        raise ThreadError(
            f"no rollout found at {path}",
            slug="thread-not-found",
            hint="Name a rollout file, a thread id or a thread name.",
        )
    from codex_plugin_rollout import files

    path_of_id = files.file_of(home, thread_id) if thread_id else None
    if path_of_id is None and (named := files.id_named(home, thread_id)):
        path_of_id = files.file_of(home, named)
    if path_of_id is None and re.fullmatch(_PREFIX, thread_id):
        begin = files.ids_beginning(home, thread_id)
        if len(begin) > 1:
            some = ", ".join(begin[:5]) + (", ..." if len(begin) > 5 else "")
            raise ThreadError(
                f"{len(begin)} sessions begin with {thread_id}: {some}",
                slug="thread-not-found",
                hint="Give more of the id.",
            )
        path_of_id = files.file_of(home, begin[0]) if begin else None
    if path_of_id is None:
        shown = thread_id if len(thread_id) <= _SHOWN else f"{thread_id[:_SHOWN]}…"
        raise ThreadError(
            f"no rollout found for thread id {shown}",
            slug="thread-not-found",
            hint="`codex-framework sessions list` lists the sessions. CODEX_HOME must be the folder in which it was recorded.",
        )
    return path_of_id
