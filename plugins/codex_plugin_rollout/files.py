"""Lookup of rollout files by thread id, by name and by age."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["decompressed", "file_of", "id_named", "id_of_file", "newest_first", "read_head"]

_FILE_NAME = r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)\.jsonl(\.zst)?"


def id_of_file(path: Path) -> str | None:
    """Return the thread id in a file's name, or None if this is not the name of a rollout file."""
    return _id_in(path.name)


def file_of(codex_home: Path, thread_id: str) -> Path | None:
    """Return the newest file of a thread, or None if there is none.

    A file in ``sessions`` is preferred to an archived one, and a plain file to a compressed one.
    """
    ending = f"-{thread_id}.jsonl"
    for folder in (*_day_folders(codex_home), codex_home / "archived_sessions"):
        names = [entry.name for entry in _entries(folder) if ending in entry.name]
        matches = [folder / name for name in sorted(names) if _id_in(name) == thread_id]
        if matches:
            return next((path for path in reversed(matches) if path.suffix == ".jsonl"), matches[-1])
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


def _id_in(name: str) -> str | None:
    match = re.fullmatch(_FILE_NAME, name)
    return match.group(1) if match else None


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
    except OSError:  # missing, not a folder or unreadable: it contains no files for us
        return []
