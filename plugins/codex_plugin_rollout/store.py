"""The thread store that uses rollout files."""

from __future__ import annotations

import os
import time
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.roles.stores import StoredThread, ThreadMeta, ThreadRecorder, ThreadStore
from codex_plugin_rollout.lines import meta_from_wire, meta_line
from codex_plugin_rollout.recorder import RolloutRecorder

if TYPE_CHECKING:
    from codex_plugin_rollout.paginated import PaginatedEvents
    from codex_plugin_rollout.reconstruction import Reconstruction

__all__ = ["RolloutStore"]


class RolloutStore(ThreadStore):
    """A thread store with one file per thread in ``$CODEX_HOME/sessions``, as in Codex."""

    name = "rollout"

    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:
        """Return a recorder for a new thread. The first flush after the start of a turn, or a user message, creates its file."""
        home = Path(codex_home)
        path = _new_path(home, meta.id, meta.created_at)
        return RolloutRecorder(path, partial(_head, meta), begun=False, archive=home / "archived_sessions")

    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:
        """Return a recorder that continues the thread's file.

        Raises:
            ThreadError: The thread was not loaded from an uncompressed file.
        """
        if stored.path is None or not stored.path.endswith(".jsonl"):
            raise ThreadError(
                f"thread {stored.meta.id} is not in a file that can be continued: {stored.path}",
                slug="thread-unreadable",
                hint=f"Decompress it first: zstd -d --rm {stored.path}",
            )
        return RolloutRecorder(
            Path(stored.path),
            partial(_head, stored.meta),
            begun=True,
            archive=Path(codex_home) / "archived_sessions",
            paginated=_paginated(stored.meta),
        )

    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        """Read a thread by id, by name or by file path.

        Raises:
            ThreadError: The thread does not exist, or its file cannot be read.
        """
        path = _find(thread_id, Path(codex_home))
        try:
            modified = path.stat().st_mtime
            state = _state(path, Path(codex_home))
        except OSError as error:
            raise ThreadError(
                f"cannot read {error.filename or path}: {error.strerror or error}",
                slug="thread-unreadable",
                hint="Make the file readable.",
            ) from error
        meta, warnings = _meta(state, path, modified)
        return StoredThread(
            meta=meta,
            history=state.history,
            events=state.events,
            last_turn_context=state.turn_context,
            entries=state.entries,
            path=str(path),
            warnings=(*warnings, *state.warnings),
        )

    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """Return the id of the most recently written thread, or None if there is none.

        With ``cwd``, only threads that were started in this folder count. Archived threads never count.
        """
        from codex_plugin_rollout import files

        real = cache(os.path.realpath)
        for path in files.newest_first(Path(codex_home)):
            head = files.read_head(path)
            if head is None or not isinstance(head.get("id"), str) or not isinstance(head.get("source", ""), str):
                continue  # an incomplete first line, or the thread of a sub-agent
            started_in = head.get("cwd")
            if cwd is None or started_in == cwd or (isinstance(started_in, str) and real(started_in) == real(cwd)):
                return str(head["id"])
        return None


def _paginated(meta: ThreadMeta) -> PaginatedEvents | None:
    if meta.extra.get("history_mode") != "paginated":
        return None
    from codex_plugin_rollout.paginated import PaginatedEvents

    return PaginatedEvents(meta.id, meta.extra.get("history_base"))


def _new_path(codex_home: Path, thread_id: str, created_at: float) -> Path:
    """Return the path for a thread's new file. The folder and file name contain the local time at which the thread started."""
    began = time.localtime(created_at)
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', began)}-{thread_id}.jsonl"
    return codex_home / "sessions" / time.strftime("%Y/%m/%d", began) / name


def _head(meta: ThreadMeta) -> bytes:
    from codex_plugin_rollout.git import git_facts

    git = meta.git if meta.git is not None else git_facts(Path(meta.cwd))
    return meta_line(meta, git, time.time())


def _find(thread_id: str, home: Path) -> Path:
    if "/" in thread_id or thread_id.endswith((".jsonl", ".jsonl.zst")):
        path = Path(thread_id).expanduser().absolute()
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
    if path_of_id is None:
        raise ThreadError(
            f"no rollout found for thread id {thread_id}",
            slug="thread-not-found",
            hint=f"Look for the thread in {home / 'sessions'}, or check that CODEX_HOME is the folder in which it was recorded.",
        )
    return path_of_id


def _state(path: Path, codex_home: Path) -> Reconstruction:
    from codex_plugin_rollout.lineage import lineage_of
    from codex_plugin_rollout.reconstruction import Reconstruction

    lineage = lineage_of(path, codex_home, _reader)
    state = Reconstruction(lineage.head)
    for part in lineage.parts[:-1]:
        with _reader(part.path) as lines:
            if not state.take(lines, end=part.end, file=str(part.path)):
                raise ThreadError(
                    f"{path} continues the conversation in {part.path}, whose end is missing",
                    slug="thread-unreadable",
                    hint=f"Restore {part.path.name} from a copy.",
                )
    with _reader(path) as lines:
        state.take(lines)
    return state


def _reader(path: Path) -> BinaryIO:
    if path.suffix != ".zst":
        return path.open("rb")
    from codex_plugin_rollout.files import decompressed

    reader = decompressed(path)
    if reader is None:
        raise ThreadError(
            f"{path} is compressed, and reading compressed conversations requires the zstandard package",
            slug="thread-unreadable",
            hint=f"Run: pip install zstandard, or: zstd -d --rm {path}",
        )
    return reader


def _meta(state: Reconstruction, path: Path, modified: float) -> tuple[ThreadMeta, tuple[str, ...]]:
    if state.meta is not None:
        return meta_from_wire(state.meta, modified), ()
    from codex_plugin_rollout.files import id_of_file

    thread_id = id_of_file(path)
    if thread_id is None:
        raise ThreadError(
            f"{path} is not a rollout file: it does not contain the id of its thread",
            slug="thread-unreadable",
            hint="Name a file whose first line is a session_meta line.",
        )
    settings = state.turn_context or {}
    cwd = settings.get("cwd")
    meta = meta_from_wire({"id": thread_id, "cwd": cwd if isinstance(cwd, str) else str(Path.cwd())}, modified)
    return meta, ("the first line of the conversation's file is missing; the thread id was taken from the file's name",)
