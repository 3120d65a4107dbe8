"""Finds the session files of a ``$CODEX_HOME``, oldest first, without opening them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import attrs

from codex_plugin_usage.problems import Problems

__all__ = ["SessionFile", "file_at", "session_files"]

_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(rf"rollout-(\d{{4}})-(\d\d)-(\d\d)T\d\d-\d\d-\d\d-(.+?)(?:_{_ID})?(\.jsonl(?:\.zst)?)")


@attrs.frozen
class SessionFile:
    """A session file.

    Attributes:
        thread_id: The thread's id, from the file's name. A thread whose turns were rolled back has several files.
        day: The day on which the file was begun, from its name. None if the name does not say it.
        modified: The time of its last change, in unix seconds.
        archived: Whether it is in ``archived_sessions``.
    """

    path: str
    thread_id: str
    day: date | None
    modified: float
    archived: bool = False

    @property
    def compressed(self) -> bool:
        """Whether it is compressed with zstd."""
        return self.path.endswith(".zst")


def session_files(codex_home: Path, problems: Problems, *, until: date | None = None) -> Iterator[SessionFile]:
    """Return the session files: files of ``sessions`` by day, then archived ones.

    A file that exists twice (archived and not, compressed and not) is returned once.

    Args:
        problems: Gets the folders that cannot be read.
        until: The last day. Later folders are not opened.
    """
    seen: set[str] = set()
    for folder in _day_folders(codex_home / "sessions", problems, until):
        yield from _files(folder, problems, seen, archived=False)
    yield from _files(str(codex_home / "archived_sessions"), problems, seen, archived=True)


def file_at(path: Path) -> SessionFile | None:
    """Return the file at a path, or None if there is no regular file.

    Raises:
        OSError: The path cannot be examined.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    match = _NAME.fullmatch(path.name)
    archived = path.parent.name == "archived_sessions"
    return SessionFile(str(path), match[4] if match else "", _day(match), found.st_mtime, archived)


def _day_folders(root: str | Path, problems: Problems, until: date | None) -> Iterator[str]:
    """Return the folders ``YYYY/MM/DD``, oldest first, that are not after ``until``."""
    last = (9999, 12, 31) if until is None else (until.year, until.month, until.day)
    level: list[tuple[str, tuple[int, ...]]] = [(str(root), ())]
    for depth in range(3):
        level = [
            (f"{folder}/{name}", (*numbers, int(name)))
            for folder, numbers in level
            for name in sorted(_names(folder, problems))
            if name.isascii() and name.isdigit() and (*numbers, int(name)) <= last[: depth + 1]
        ]
    return (folder for folder, _ in level)


def _names(folder: str, problems: Problems) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  # pathlib costs more than the rest
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.folder(folder, error)
        return []


def _files(folder: str, problems: Problems, seen: set[str], *, archived: bool) -> Iterator[SessionFile]:
    # A plain file sorts before its compressed copy.
    for name in sorted(_names(folder, problems)):
        match = _NAME.fullmatch(name)
        if match is None or name[: match.start(5)] in seen:
            continue
        path = f"{folder}/{name}"
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError as error:
            problems.file(path, error.strerror or str(error))
            continue
        if not stat.S_ISREG(found.st_mode):  # to open a pipe would wait for ever
            problems.file(path, "it is not a regular file")
            continue
        seen.add(name[: match.start(5)])
        yield SessionFile(path, match[4], _day(match), found.st_mtime, archived)


def _day(match: re.Match[str] | None) -> date | None:
    try:
        return None if match is None else date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None
