"""Lookup of rollout files by thread id, by name and by age."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["decompressed", "file_of", "file_of_segment", "id_named", "id_of_file", "newest_first", "read_head"]

_FILE_NAME = r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+?)(?:_(%s))?\.jsonl(?:\.zst)?"
_SEGMENT = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""The suffix that Codex adds to the name of the file in which a thread continues after a rollback. Later suffixes sort higher."""


def id_of_file(path: Path) -> str | None:
    """Return the thread id in a file's name, or None if this is not the name of a rollout file."""
    return _parts_of(path.name)[0]


def file_of(codex_home: Path, thread_id: str) -> Path | None:
    """Return the file in which a thread continues, or None if there is none.

    If turns of the thread were rolled back, there are several files, and the newest is returned. A file in ``sessions`` is
    preferred to an archived one, and a plain file to a compressed one.
    """
    return _newest(codex_home, thread_id, lambda thread, _segment: thread == thread_id)


def file_of_segment(codex_home: Path, name: str, beside: Path) -> Path | None:
    """Return the file that a ``history_base`` names, or None if there is none.

    Args:
        name: The last id in the file's name: the segment, or the thread's id if the file has no segment.
        beside: Another folder to search: that of the file with the ``history_base``.
    """
    return _newest(codex_home, name, lambda thread, segment: name == (segment or thread), beside)


def _newest(codex_home: Path, name: str, fits: Callable[[str | None, str], bool], *further: Path) -> Path | None:
    for folder in (*_day_folders(codex_home), codex_home / "archived_sessions", *further):
        matches = []
        for entry in _entries(folder):
            if name in entry.name:
                thread, segment = _parts_of(entry.name)
                if fits(thread, segment):
                    matches.append((segment, entry.name.endswith(".jsonl"), entry.name))
        if matches:
            return folder / max(matches)[2]
    return None


def newest_first(codex_home: Path) -> Iterator[Path]:
    """Return the uncompressed files in ``sessions``, most recently written first.

    This costs one ``stat`` per file: about 40 ms for 10,000 files.
    """
    dated: list[tuple[int, str]] = []
    for folder in _day_folders(codex_home):
        for entry in _entries(folder):
            if entry.name.endswith(".jsonl") and entry.name.startswith("rollout-"):
                try:
                    dated.append((entry.stat().st_mtime_ns, entry.path))
                except OSError:  # removed in the meantime
                    continue
    return (Path(path) for _, path in sorted(dated, reverse=True))


def id_named(codex_home: Path, name: str) -> str | None:
    """Return the id of the thread to which ``session_index.jsonl`` gave this name last, or None if there is none."""
    names: dict[str, str] = {}
    try:
        with (codex_home / "session_index.jsonl").open("rb") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                    thread_id, thread_name = entry["id"], entry["thread_name"]
                except (ValueError, TypeError, KeyError):
                    continue  # an incomplete line names no thread
                if isinstance(thread_id, str):
                    names.pop(thread_id, None)  # keeps the entries in the order of their last naming
                    names[thread_id] = str(thread_name)
    except OSError:
        return None
    return next((thread_id for thread_id, known in reversed(names.items()) if known == name), None)


def read_head(path: Path) -> dict[str, Any] | None:
    """Return the ``session_meta`` payload in a file's first line, or None if there is none."""
    try:
        with path.open("rb") as file:
            raw = json.loads(file.readline())
            payload = raw["payload"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return payload if isinstance(payload, dict) and raw.get("type") == "session_meta" else None


def decompressed(path: Path) -> BinaryIO | None:
    """Return the content of a ``.zst`` file, or None if the ``zstandard`` package is not installed.

    Raises:
        OSError: The file cannot be read or is not a zstd file.
    """
    try:
        import zstandard  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    try:
        with zstandard.open(path, "rb") as reader:
            return io.BytesIO(reader.readall())
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error


def _parts_of(name: str) -> tuple[str | None, str]:
    """Return the thread id in a file's name, and its segment or ``""``. The id is None if this is no rollout file's name."""
    match = re.fullmatch(_FILE_NAME % _SEGMENT, name)
    return (match.group(1), match.group(2) or "") if match else (None, "")


def _day_folders(codex_home: Path) -> Iterator[Path]:
    """Return the folders ``sessions/YYYY/MM/DD``, newest first."""
    folders = [codex_home / "sessions"]
    for _ in range(3):
        folders = [
            folder / name
            for folder in folders
            for name in sorted((entry.name for entry in _entries(folder) if entry.name.isdigit()), reverse=True)
        ]
    return iter(folders)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # missing, not a folder or unreadable: treated as empty
        return []
