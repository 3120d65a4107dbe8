"""Forks: new threads that begin as another one.

The fork of a paginated file refers to the lines that it continues (``history_base``), as in Codex. The fork of an older file gets
copies of them, as in older versions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.roles.stores import ThreadMeta
from codex_framework.toolkit.thread_records import forked_meta, place_after
from codex_plugin_rollout.lines import meta_from_wire, meta_line, numbered_line
from codex_plugin_rollout.reading import Read, last_id_of, reader_of
from codex_plugin_rollout.reconstruction import Place

__all__ = ["exported", "fork", "write_new"]


_PLACE_IN_PARENT = frozenset({"history_base", "forked_from_ordinal_exclusive"})
"""The fields of a head that say which lines of its parent it continues."""


def fork(read: Read, target: Path, new_id: str, at: int | str | None) -> None:
    """Write the file of a fork.

    Args:
        read: The thread to fork.
        target: The new file.
        new_id: The new thread.
        at: The last turn to keep: its number or its id. None keeps all.

    Raises:
        ThreadError: There is no such turn, or the file cannot be written.
    """
    end = place_after(read.meta.id, read.state, at, read.end)
    payload = read.head if read.head is not None else {"id": read.meta.id, "cwd": read.meta.cwd}
    meta = _forked_meta({**payload, "id": read.meta.id}, new_id)
    git, now = meta.git, meta.created_at
    if payload.get("history_mode") == "paginated":
        base = {
            "thread_id": last_id_of(read.parts[end.part].path),
            "end_ordinal_exclusive": end.ordinal,
            "end_byte_offset": end.offset,
        }
        meta = meta.evolve(extra={**meta.extra, "forked_from_ordinal_exclusive": end.ordinal, "history_base": base})
        lines: Iterable[bytes] = [numbered_line(meta_line(meta, git, now), end.ordinal)]
    else:
        lines = [meta_line(meta, git, now), *_lines(read, end)]
    write_new(target, lines)


def exported(read: Read) -> Iterator[bytes]:
    """Return the lines of a file that contains a whole thread and continues no other file."""
    payload = dict(read.head) if read.head is not None else {"id": read.meta.id, "cwd": read.meta.cwd}
    payload.pop("history_base", None)
    payload["id"] = read.meta.id
    paginated = payload.get("history_mode") == "paginated"
    meta = meta_from_wire(payload, read.meta.created_at)
    head = meta_line(meta, meta.git, meta.created_at)
    yield numbered_line(head, 0) if paginated else head
    for number, line in enumerate(_lines(read, read.end, heads=False), 1):
        yield _renumber_line(line, number) if paginated else line


def write_new(target: Path, lines: Iterable[bytes]) -> None:
    """Write a file that does not exist yet, such that it is either whole or not there.

    Raises:
        ThreadError: It cannot be written.
    """
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            part.rename(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ThreadError(
            f"cannot write {target}: {error.strerror or error}",
            slug="thread-unsaved",
            hint="Free some disk space, or make the folder writable.",
        ) from error


def _forked_meta(payload: Mapping[str, Any], new_id: str) -> ThreadMeta:
    meta = forked_meta(meta_from_wire(payload, 0.0), new_id)
    extra = {key: value for key, value in meta.extra.items() if key not in _PLACE_IN_PARENT}
    return meta.evolve(extra=extra)


def _lines(read: Read, end: Place, *, heads: bool = True) -> Iterator[bytes]:
    """Return the readable lines before a place, oldest first.

    Args:
        heads: Whether to return the heads of files, too.
    """
    for index, part in enumerate(read.parts[: end.part + 1]):
        last = index == end.part
        limit, number = part.end, -1
        offset = 0
        with reader_of(part.path) as lines:
            for line in lines:
                offset += len(line)
                raw = _object(line)
                number = raw["ordinal"] if raw and isinstance(raw.get("ordinal"), int) else number + 1
                if (last and offset > end.offset) or (limit is not None and number >= limit):
                    break
                if raw is not None and (heads or raw.get("type") != "session_meta"):
                    yield line if line.endswith(b"\n") else line + b"\n"


def _renumber_line(line: bytes, number: int) -> bytes:
    raw = _object(line) or {}
    timestamp = raw.pop("timestamp", "")
    raw.pop("ordinal", None)
    text = json.dumps({"timestamp": timestamp, "ordinal": number, **raw}, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) and "type" in raw and "payload" in raw else None
