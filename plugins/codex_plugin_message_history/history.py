"""The file ``$CODEX_HOME/history.jsonl``: one line ``{"session_id", "ts", "text"}`` for each prompt.

Codex writes the same file. Both append with one write under an advisory lock, and keep the mode 0600.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.appending import append_whole
from codex_framework.toolkit.file_locks import try_lock
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_message_history.events import HistoryEntry

__all__ = ["History", "history_of"]

_ATTEMPTS, _PAUSE_S = 10, 0.1
"""How often the lock is tried, and the pause between two attempts (Codex's)."""

_KEPT = 0.8
"""The part of ``max_bytes`` that is kept when the file has become too long (Codex's), so that not every prompt shortens it."""


def history_of(codex_home: Path, config: Mapping[str, Any]) -> History:
    """Return the history with the settings ``[history] persistence`` and ``max_bytes``."""
    table = config.get("history")
    own = table if isinstance(table, Mapping) else {}
    limit = own.get("max_bytes")
    return History(
        codex_home / "history.jsonl",
        saves=own.get("persistence") != "none",
        max_bytes=limit if isinstance(limit, int) and limit > 0 else None,
    )


@attrs.frozen
class History:
    """The message history.

    Attributes:
        saves: Whether prompts are appended.
        max_bytes: The longest file. By default, there is no limit.
    """

    path: Path
    saves: bool = True
    max_bytes: int | None = None

    def append(self, session_id: str, text: str) -> None:
        """Append a prompt.

        Raises:
            CodexError: The file cannot be written, or another program keeps it locked.
        """
        if not self.saves:
            return
        entry = {"session_id": session_id, "ts": int(time.time()), "text": text}
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = open_regular(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                self._lock(descriptor)
                self._write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _file_error("write", self.path, error) from error

    def lookup(self, log_id: int, offset: int) -> HistoryEntry | None:
        """Return the entry at an offset, or None if the file is another one, or has no readable entry there.

        Raises:
            CodexError: The file cannot be read.
        """
        if offset < 0:
            return None
        for number, (own_id, line) in enumerate(self._lines()):
            if own_id != log_id:
                return None
            if number == offset:
                return _entry(line)
        return None

    def metadata(self) -> tuple[int, int]:
        """Return the identity of the file, which is 0 if it does not exist, and the number of its entries.

        Raises:
            CodexError: The file cannot be read.
        """
        log_id = count = 0
        for log_id, _ in self._lines():  # noqa: B007  # all are the same
            count += 1
        return (log_id or self._log_id()), count

    def entries(self) -> Iterator[tuple[int, HistoryEntry]]:
        """Yield the readable entries with their offsets, oldest first. Raises CodexError."""
        for offset, (_, line) in enumerate(self._lines()):
            entry = _entry(line)
            if entry is not None:
                yield offset, entry

    def _log_id(self) -> int:
        try:
            return self.path.stat().st_ino
        except OSError:
            return 0

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with open(self.path, "rb", opener=open_regular) as file:
                log_id = os.fstat(file.fileno()).st_ino
                for line in file:
                    yield log_id, line
        except FileNotFoundError:
            return
        except OSError as error:
            raise _file_error("read", self.path, error) from error

    def _lock(self, descriptor: int) -> None:
        for _ in range(_ATTEMPTS - 1):
            if try_lock(descriptor):
                return
            time.sleep(_PAUSE_S)
        if not try_lock(descriptor):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _write(self, descriptor: int, line: bytes) -> None:
        size = os.fstat(descriptor).st_size
        os.fchmod(descriptor, 0o600)
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = b"\n" + line if torn else line
        append_whole(descriptor, data, size)
        if self.max_bytes is not None and size + len(data) > self.max_bytes:
            self._shorten(descriptor, size + len(data), self.max_bytes, len(line))

    def _shorten(self, descriptor: int, size: int, most: int, newest: int) -> None:
        """Drop the oldest entries, but never the newest one. The file stays the same file, so that its id does."""
        data = os.pread(descriptor, size, 0)
        start = size - max(int(most * _KEPT), newest)
        start = data.find(b"\n", start - 1) + 1 if start > 0 else 0
        kept = data[start:]
        os.ftruncate(descriptor, 0)
        append_whole(descriptor, kept, 0)


def _entry(line: bytes) -> HistoryEntry | None:
    try:
        raw = json.loads(line)
        session, ts, text = raw.get("session_id", raw.get("conversation_id")), raw["ts"], raw["text"]
        if not isinstance(text, str) or not isinstance(ts, (int, float)):
            return None
        return HistoryEntry(str(session), int(ts), text)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):  # also a time without end
        return None


def _file_error(what: str, path: Path, error: OSError) -> CodexError:
    keep = "To keep no history, set history.persistence to none."
    if isinstance(error, BlockingIOError):
        fact, hint = f"cannot {what} {path}: another program keeps it locked", "Try again."
    elif what == "read" or error.errno in (errno.EINVAL, errno.EISDIR):
        fact, hint = f"cannot {what} {path}: {error.strerror or error}", f"Make it a file that you can read. {keep}"
    else:
        fact = f"cannot {what} {path}: {error.strerror or error}"
        hint = f"Free some disk space, or give yourself permission. {keep}"
    return CodexError(fact, slug="message-history", hint=hint)
