"""Writing a rollout file.

Entries become bytes when they are appended and reach the file when they are flushed: one ``write`` with ``O_APPEND`` for all that
has gathered. Between flushes nothing is open and nothing runs, so a process can have thousands of recorders; opening
again costs some 5 microseconds. There is no ``fsync``: what was written survives the end of the process in any
way, and after a power failure the reader copes with a torn tail. Waiting for the disk would make a flush 20 times dearer
(measured: 7 microseconds without, 150 with ``fdatasync`` on an idle SSD, 3,000 on a busy one).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from codex_framework.errors import ThreadError
from codex_framework.protocol.events import UserMessageEvent
from codex_framework.protocol.items import Message
from codex_framework.roles.stores import EventEntry, ItemEntry, ThreadEntry
from codex_plugin_rollout.lines import entry_line, numbered_line
from codex_plugin_rollout.turns import is_persons_message

__all__ = ["RolloutRecorder"]

_HINTS = {
    errno.ENOSPC: "Free some disk space; what is unsaved is kept and tried again.",
    errno.EDQUOT: "Free some of your disk quota; what is unsaved is kept and tried again.",
    errno.EROFS: "Let CODEX_HOME name a folder that can be written.",
    errno.EACCES: "Give yourself write permission there, or let CODEX_HOME name a folder that can be written.",
    errno.EPERM: "Give yourself write permission there, or let CODEX_HOME name a folder that can be written.",
    errno.ENOTDIR: "Move the file away that stands where a folder is needed.",
}


class RolloutRecorder:
    """Writes one thread.

    Args:
        path: The file.
        head: Gives the file's first line, with its newline; asked once, when the file is made.
        begun: Whether the file exists already. A new one is made only after a person has said something.
        numbered: Whether each line carries its ``ordinal``; Codex refuses files it has begun in that form and that go on without.
        archive: The folder to which somebody may move the file meanwhile; it is then written there.
    """

    def __init__(
        self, path: Path, head: Callable[[], bytes], *, begun: bool, archive: Path, numbered: bool = False
    ) -> None:
        self._path = path
        self._head = head
        self._head_line = b""
        self._exists = begun
        self._begun = begun
        self._archive = archive
        self._numbered = numbered
        self._ordinal = 0
        self._held: list[bytes] = []
        self._end = -1  # the file's size after our last write; another size means that somebody else was there

    @property
    def path(self) -> str:
        """The file, or where it will be."""
        return str(self._path)

    def append(self, entries: Sequence[ThreadEntry]) -> None:
        """Take entries; those of kinds that are not kept are dropped."""
        now = time.time()
        for entry in entries:
            line = entry_line(entry, now)
            if line is not None:
                self._held.append(line)
                self._begun = self._begun or _begins_thread(entry)

    def flush(self) -> None:
        """Write what is held.

        Raises:
            ThreadError: It could not be written. All of it is still held, and no part of it is in the file.
        """
        if not self._begun or not self._held:
            return
        try:
            self._write()
        except OSError as error:
            raise ThreadError(
                f"cannot write {self._path}: {error.strerror or error}",
                slug="thread-unsaved",
                hint=_HINTS.get(
                    error.errno or 0, "See to it that the file can be written; what is unsaved is kept and tried again."
                ),
            ) from error
        self._held.clear()

    def close(self) -> None:
        """Flush. Nothing else is open."""
        self.flush()

    def _write(self) -> None:
        descriptor = self._open()
        try:
            _lock(descriptor)
            size = os.fstat(descriptor).st_size
            if size != self._end:
                size = _whole_lines(descriptor, size)
                self._ordinal = _next_ordinal(descriptor, size) if self._numbered else 0
            lines = self._held if size else [self._first_line(), *self._held]
            if self._numbered:
                lines = [numbered_line(line, number) for number, line in enumerate(lines, self._ordinal)]
            data = b"".join(lines)
            _write_all(descriptor, data, size)
            self._end = size + len(data)
            self._ordinal += len(lines)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        if self._exists:
            try:
                return os.open(self._path, flags)
            except FileNotFoundError:
                moved = self._archive / self._path.name
                if moved.exists():
                    self._path = moved
                    return os.open(moved, flags)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, flags | os.O_CREAT, 0o600)
        self._exists = True
        return descriptor

    def _first_line(self) -> bytes:
        self._head_line = self._head_line or self._head()
        return self._head_line


def _lock(descriptor: int) -> None:
    """Keep out other processes that write the same thread until the descriptor is closed: what they are writing looks torn."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # a file system without locks; one writer is the rule anyway
        return


def _begins_thread(entry: ThreadEntry) -> bool:
    if isinstance(entry, EventEntry):
        return isinstance(entry.msg, UserMessageEvent)
    return isinstance(entry, ItemEntry) and isinstance(entry.item, Message) and is_persons_message(entry.item)


def _write_all(descriptor: int, data: bytes, size: int) -> None:
    """Write everything behind ``size``, or leave the file as it was."""
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
    except OSError:
        if written and os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
        raise


def _whole_lines(descriptor: int, size: int) -> int:
    """Cut off a last line that somebody did not finish, so that the next one starts fresh; returns the size then.

    A last line that lacks only its newline is finished instead.
    """
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    broken = _last_line(descriptor, size)
    try:
        json.loads(broken)
    except ValueError:
        os.ftruncate(descriptor, size - len(broken))
        return size - len(broken)
    _write_all(descriptor, b"\n", size)
    return size + 1


def _next_ordinal(descriptor: int, size: int) -> int:
    """The number of the next line: one more than that of the last, or than there are lines where that has none."""
    try:
        return int(json.loads(_last_line(descriptor, size - 1))["ordinal"]) + 1
    except (ValueError, TypeError, KeyError):
        return sum(os.pread(descriptor, 65_536, start).count(b"\n") for start in range(0, size, 65_536))


def _last_line(descriptor: int, end: int) -> bytes:
    """The bytes between the last newline before ``end`` and ``end``."""
    start, tail = end, b""
    while start > 0 and b"\n" not in tail:
        step = min(start, 65_536)
        start -= step
        tail = os.pread(descriptor, step, start) + tail
    return tail.rpartition(b"\n")[2]
