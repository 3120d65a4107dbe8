"""The thread store over rollout files."""

from __future__ import annotations

import os
import time
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from codex_framework.errors import ThreadError
from codex_framework.roles.stores import StoredThread, ThreadMeta, ThreadRecorder
from codex_plugin_rollout import files
from codex_plugin_rollout.lines import meta_from_wire, meta_line
from codex_plugin_rollout.recorder import RolloutRecorder

if TYPE_CHECKING:
    from codex_plugin_rollout.reconstruction import Reconstruction

__all__ = ["RolloutStore"]


class RolloutStore:
    """Keeps threads in ``$CODEX_HOME/sessions``, one file each, as Codex does."""

    name = "rollout"

    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:
        """A recorder for a new thread. Its file is made by the first flush after a person has said something."""
        home = Path(codex_home)
        path = files.new_path(home, meta.id, meta.created_at)
        return RolloutRecorder(path, partial(_head, meta), begun=False, archive=home / "archived_sessions")

    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:
        """A recorder that goes on in the thread's file.

        Raises:
            ThreadError: The thread does not come from a plain file.
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
            numbered=stored.meta.extra.get("history_mode") == "paginated",
        )

    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        """Read a thread by id, by name or by file path.

        Raises:
            ThreadError: There is none, or its file cannot be read.
        """
        from codex_plugin_rollout.reconstruction import Reconstruction

        path = _located(thread_id, Path(codex_home))
        state = Reconstruction()
        try:
            modified = path.stat().st_mtime
            with _reader(path) as lines:
                state.take(lines)
        except OSError as error:
            raise ThreadError(
                f"cannot read {path}: {error.strerror or error}",
                slug="thread-unreadable",
                hint="See to it that the file can be read.",
            ) from error
        meta, warnings = _meta(state, path, modified)
        return StoredThread(
            meta=meta,
            history=state.history,
            events=state.events,
            last_turn_context=state.turn_context,
            path=str(path),
            warnings=(*warnings, *state.warnings),
        )

    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        """The id of the thread that was written last, of those begun in ``cwd`` where that is given; archived ones do not count."""
        real = cache(os.path.realpath)
        for path in files.newest_first(Path(codex_home)):
            head = files.read_head(path)
            if head is None or not isinstance(head.get("id"), str) or not isinstance(head.get("source", ""), str):
                continue  # torn before it began, or the thread of a sub-agent
            begun_in = head.get("cwd")
            if cwd is None or begun_in == cwd or (isinstance(begun_in, str) and real(begun_in) == real(cwd)):
                return str(head["id"])
        return None


def _head(meta: ThreadMeta) -> bytes:
    from codex_plugin_rollout.git import git_facts

    git = meta.git if meta.git is not None else git_facts(Path(meta.cwd))
    return meta_line(meta, git, time.time())


def _located(thread_id: str, home: Path) -> Path:
    if "/" in thread_id or thread_id.endswith((".jsonl", ".jsonl.zst")):
        path = Path(thread_id).expanduser().absolute()
        if path.is_file():
            return path
        raise ThreadError(
            f"no rollout found at {path}",
            slug="thread-not-found",
            hint="Name a rollout file, a thread id or a thread name.",
        )
    path_of_id = files.file_of(home, thread_id) if thread_id else None
    if path_of_id is None and (named := files.id_named(home, thread_id)):
        path_of_id = files.file_of(home, named)
    if path_of_id is None:
        raise ThreadError(
            f"no rollout found for thread id {thread_id}",
            slug="thread-not-found",
            hint=f"Look for the thread in {home / 'sessions'}, or see whether CODEX_HOME names the folder it was recorded in.",
        )
    return path_of_id


def _reader(path: Path) -> BinaryIO:
    if path.suffix != ".zst":
        return path.open("rb")
    reader = files.decompressed(path)
    if reader is None:
        raise ThreadError(
            f"{path} is compressed, and compressed conversations are read only with the zstandard module",
            slug="thread-unreadable",
            hint=f"Run: pip install zstandard, or: zstd -d --rm {path}",
        )
    return reader


def _meta(state: Reconstruction, path: Path, modified: float) -> tuple[ThreadMeta, tuple[str, ...]]:
    if state.meta is not None:
        return meta_from_wire(state.meta, modified), ()
    thread_id = files.id_of_file(path)
    if thread_id is None:
        raise ThreadError(
            f"{path} is not a rollout file: no line of it says which thread it is",
            slug="thread-unreadable",
            hint="Name a file that begins with a session_meta line.",
        )
    settings = state.turn_context or {}
    cwd = settings.get("cwd")
    meta = meta_from_wire({"id": thread_id, "cwd": cwd if isinstance(cwd, str) else str(Path.cwd())}, modified)
    return meta, ("the head of the conversation's file is missing; its id was taken from the file's name",)
