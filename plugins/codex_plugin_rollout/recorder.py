"""Writing a rollout file.

Entries are encoded when they are appended. A flush writes all pending entries with one ``write`` and ``O_APPEND``. Between
flushes no file is open and nothing runs, so a process can have thousands of recorders; opening the file again costs
about 5 microseconds. A new file gets its name when its first lines are in it. So a program that is killed, or finds the disk full,
leaves no file without a head, which would look like a record that has been emptied.

There is no ``fsync``. Written data survives the end of the process, however it ends. After a power failure the last line
may be incomplete, which the reader handles. Waiting for the disk would make a flush 20 times as expensive (measured: 7
microseconds without, 150 with ``fdatasync`` on an idle SSD, 3,000 on a busy one).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.roles.stores import MetaEntry, ThreadEntry
from codex_framework.toolkit.appending import append_whole
from codex_framework.toolkit.thread_records import begins_thread
from codex_plugin_rollout.head import Head
from codex_plugin_rollout.lines import entry_line, numbered_line

if TYPE_CHECKING:
    from codex_plugin_rollout.paginated import PaginatedEvents
    from codex_plugin_rollout.turn_previews import TurnPreviews
    from codex_plugin_rollout.writer_lock import WriterLock

__all__ = ["RolloutRecorder"]

_HINTS = {
    errno.ENOSPC: "Free some disk space. Unsaved entries are kept and written with the next flush.",
    errno.EDQUOT: "Free some of your disk quota. Unsaved entries are kept and written with the next flush.",
    errno.EROFS: "Set CODEX_HOME to a writable folder.",
    errno.EACCES: "Give yourself write permission there, or set CODEX_HOME to a writable folder.",
    errno.EPERM: "Give yourself write permission there, or set CODEX_HOME to a writable folder.",
    errno.ENOTDIR: "A folder is needed where a file is. Move that file away.",
}


class RolloutRecorder:
    """The recorder of one thread.

    Args:
        path: The file.
        head: The head of the file.
        begun: Whether the file already exists. A new file is created only after the first turn or user message.
        archive: The folder to which another program may move the file. If it does, recording continues there.
        paginated: The converter of events for a paginated file. None if the file is not paginated.
        lock: The lock of the thread's only writer, or what makes it when the file is created.
        previews: Takes the written lines of a thread that Codex's app server knows.

    Attributes:
        also_kept: Types of events that only a paginated file keeps.
    """

    def __init__(
        self,
        path: Path,
        head: Head,
        *,
        begun: bool,
        archive: Path,
        paginated: PaginatedEvents | None = None,
        lock: WriterLock | Callable[[], WriterLock] | None = None,
        previews: TurnPreviews | None = None,
    ) -> None:
        self.also_kept: frozenset[str] = frozenset() if paginated is None else paginated.turn_items
        self._path = path
        self._head = head
        self._exists = begun
        self._begun = begun
        self._archive = archive
        self._paginated = paginated
        self._ordinal = 0
        self._lock = lock
        self._previews = previews
        self._pending: list[bytes] = []
        self._end = -1  # the file's size after our last write; any other size means that another process wrote to it

    @property
    def path(self) -> str:
        """The path of the file, which may not exist yet."""
        return str(self._path)

    def append(self, entries: Sequence[ThreadEntry]) -> None:
        """Add entries. Entries of kinds that are not persisted are dropped."""
        now = time.time()
        for entry in entries:
            if isinstance(entry, MetaEntry):
                self._change(entry)
                continue
            line = entry_line(entry, now) if self._paginated is None else self._paginated.line(entry, now)
            if line is not None:
                self._pending.append(line)
                self._begun = self._begun or begins_thread(entry)

    def _change(self, entry: MetaEntry) -> None:
        self._head.change(entry.changes)
        if self._exists:
            self._pending.append(self._head.line())

    def flush(self) -> None:
        """Write the pending entries.

        Raises:
            ThreadError: The file cannot be written. All entries are still pending, and none of them is in the file.
        """
        if not self._begun or not self._pending:
            return
        try:
            self._write()
        except OSError as error:
            raise ThreadError(
                f"cannot write {self._path}: {error.strerror or error}",
                slug="thread-unsaved",
                hint=_HINTS.get(
                    error.errno or 0,
                    "Make the file writable. Unsaved entries are kept and written with the next flush.",
                ),
            ) from error
        self._pending.clear()

    def close(self) -> None:
        """Write the pending entries, and let other processes write the thread."""
        self.flush()
        lock, self._lock = self._lock, None
        if lock is not None and not callable(lock):
            lock.release()

    def _write(self) -> None:
        descriptor = self._open()
        try:
            _lock(descriptor)
            size = os.fstat(descriptor).st_size
            if size != self._end:
                size = _whole_lines(descriptor, size)
                if self._paginated is not None:
                    self._ordinal = _next_ordinal(descriptor, size) if size else self._paginated.first_ordinal
            lines = self._pending if size else [self._head.line(), *self._pending]
            if self._paginated is not None:
                lines = [numbered_line(line, number) for number, line in enumerate(lines, self._ordinal)]
            data = b"".join(lines)
            append_whole(descriptor, data, size)
            if not self._exists:
                self._name_new_file()
            self._end = size + len(data)
            self._ordinal += len(lines)
        finally:
            os.close(descriptor)
            if not self._exists:
                self._new_file.unlink(missing_ok=True)
        if self._previews is not None:
            self._previews.add(lines, size)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        for path in (self._path, self._archive / self._path.name):
            try:
                descriptor = os.open(path, flags)
            except FileNotFoundError:
                continue
            self._path, self._exists = path, True
            return descriptor
        self._exists = False
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if callable(self._lock):
            self._lock = self._lock()
        return os.open(self._new_file, flags | os.O_CREAT | os.O_TRUNC, 0o600)

    @property
    def _new_file(self) -> Path:
        """The file that has no head yet. Lists ignore it."""
        return self._path.with_name(f".{self._path.name}.part")

    def _name_new_file(self) -> None:
        try:
            os.link(self._new_file, self._path)  # a rename would replace the file of another program
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                raise
            self._new_file.rename(self._path)  # a file system without links
        else:
            self._new_file.unlink(missing_ok=True)
        self._exists = True


def _lock(descriptor: int) -> None:
    """Lock the file until the descriptor is closed.

    Without the lock, a line that another process is still writing would look incomplete.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # a file system without locks; normally only one process writes
        return


def _whole_lines(descriptor: int, size: int) -> int:
    """Remove an incomplete last line, so that the next entry starts on a new line, and return the file's new size.

    If the last line lacks only its newline, or is nested too deeply to tell, the newline is added instead.
    """
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    broken = _last_line(descriptor, size)
    try:
        json.loads(broken)
    except ValueError:
        os.ftruncate(descriptor, size - len(broken))
        return size - len(broken)
    except RecursionError:  # it may be whole, and nothing whole is removed
        pass
    append_whole(descriptor, b"\n", size)
    return size + 1


def _next_ordinal(descriptor: int, size: int) -> int:
    """Return the ordinal of the next line of a file that is not empty.

    This is the last line's ordinal plus one, or the number of lines if the last line has no ordinal.
    """
    try:
        return int(json.loads(_last_line(descriptor, size - 1))["ordinal"]) + 1
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return sum(os.pread(descriptor, 65_536, start).count(b"\n") for start in range(0, size, 65_536))


def _last_line(descriptor: int, end: int) -> bytes:
    """Return the bytes between the last newline before ``end`` and ``end``."""
    start, tail = end, b""
    while start > 0 and b"\n" not in tail:
        step = min(start, 65_536)
        start -= step
        tail = os.pread(descriptor, step, start) + tail
    return tail.rpartition(b"\n")[2]
