"""Naming, archiving and deleting threads."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from codex_framework.contract.errors import ThreadError
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_rollout.files import all_files, kept_damaged, next_damaged, parts_of, read_head, segment_of_file
from codex_plugin_rollout.lines import timestamp
from codex_plugin_rollout.writer_lock import lock_thread

__all__ = ["archive", "delete", "rename", "unarchive"]

_LONGEST_NAME = 200


def rename(thread_id: str, name: str, home: Path) -> None:
    """Append the thread's name to ``session_index.jsonl``, as Codex does. The last name counts; an empty name removes it.

    Raises:
        ThreadError: The name cannot be used, or the file cannot be written.
    """
    name = name.strip()
    if len(name) > _LONGEST_NAME or not name.isprintable() or "/" in name:
        raise ThreadError(
            f"{name[:60]!r} cannot be the name of a thread",
            slug="bad-request",
            hint=f"Use at most {_LONGEST_NAME} printable characters, and no slash.",
        )
    line = json.dumps({"id": thread_id, "thread_name": name, "updated_at": timestamp(time.time())}, ensure_ascii=False)
    path = home / "session_index.jsonl"
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (b"\n" if torn else b"") + line.encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unwritable(path, error) from error


def archive(thread_id: str, home: Path) -> None:
    """Move the files of a thread to ``archived_sessions``.

    Raises:
        ThreadError: It is archived already, is in use, or cannot be moved.
    """
    _move(thread_id, home, archived=True)


def unarchive(thread_id: str, home: Path) -> None:
    """Move the files of a thread back to the folder of the day on which it began.

    Raises:
        ThreadError: It is not archived, or cannot be moved.
    """
    _move(thread_id, home, archived=False)


def delete(thread_id: str, home: Path) -> None:
    """Delete the files of a thread, the damaged versions of them that repairs kept, and its name.

    Raises:
        ThreadError: It is in use, another thread continues it, or it cannot be deleted.
    """
    lock = lock_thread(thread_id, home)
    try:
        paths = _files(thread_id, home)
        continued = _continued_by(thread_id, paths, home)
        if continued:
            raise ThreadError(
                f"thread {thread_id} cannot be deleted: {', '.join(sorted(continued)[:3])} continues it",
                slug="session-continued",
                hint="Delete the threads that continue it first, or archive it.",
            )
        for path in sorted(paths, key=segment_of_file, reverse=True):  # a file before the one that it continues
            for each in (*kept_damaged(path), *parts_of(path), path):
                try:
                    each.unlink(missing_ok=True)
                except OSError as error:
                    raise _unwritable(each, error) from error
        rename(thread_id, "", home) if (home / "session_index.jsonl").exists() else None
    finally:
        lock.release()


def _move(thread_id: str, home: Path, *, archived: bool) -> None:
    lock = lock_thread(thread_id, home)
    try:
        paths = [
            Path(path) for path, thread, _, _, where in all_files(home) if thread == thread_id and where != archived
        ]
        if not paths:
            state = "is already archived" if archived else "is not archived"
            raise ThreadError(f"thread {thread_id} {state}", slug="session-archived", hint="There is nothing to do.")
        for path in sorted(paths, key=segment_of_file):
            folder = home / "archived_sessions" if archived else _day_folder(path, home)
            target = folder / path.name
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                if target.exists():
                    raise FileExistsError(17, "it is there already", str(target))
                damaged = kept_damaged(path)
                path.rename(target)
                for each in damaged:
                    each.rename(next_damaged(target))
            except OSError as error:
                raise _unwritable(target, error) from error
    finally:
        lock.release()


def _day_folder(path: Path, home: Path) -> Path:
    """Return the folder that a file's name says: ``rollout-2026-11-20T...`` belongs to ``sessions/2026/11/20``."""
    year, month, day = path.name[len("rollout-") :][:10].split("-")
    return home / "sessions" / year / month / day


def _files(thread_id: str, home: Path) -> list[Path]:
    return [Path(path) for path, thread, _, _, _ in all_files(home) if thread == thread_id]


def _continued_by(thread_id: str, paths: Iterable[Path], home: Path) -> set[str]:
    """Return the ids of other threads that continue one of these files."""
    names = {thread_id, *filter(None, map(segment_of_file, paths))}
    found = set()
    for path, other, _, _, _ in all_files(home):
        base = (read_head(Path(path)) or {}).get("history_base") if other != thread_id else None
        if isinstance(base, dict) and base.get("thread_id") in names:
            found.add(other)
    return found


def _unwritable(path: Path, error: OSError) -> ThreadError:
    return ThreadError(
        f"cannot write {path}: {error.strerror or error}",
        slug="thread-unsaved",
        hint="Free some disk space, or make the folder writable.",
    )
