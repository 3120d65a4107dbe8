"""Damage in rollout files, and its repair.

A repair keeps every readable line, even after the beginning of a broken line, and saves the original file beside the repaired
one. Other programs find only the repaired one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.roles.stores import ThreadFault
from codex_plugin_rollout.files import all_files, id_of_file, next_damaged
from codex_plugin_rollout.lineage import lineage_of
from codex_plugin_rollout.lines import meta_from_wire, meta_line
from codex_plugin_rollout.reading import reader_of
from codex_plugin_rollout.writer_lock import lock_thread

__all__ = ["all_paths", "check", "repair"]

_START = b'{"timestamp":'
_BLANK = b" \t\r\n\0"


@attrs.define
class _Scan:
    """The parts of a file."""

    lines: list[bytes]
    broken: list[int] = attrs.Factory(list)
    saved: int = 0
    blank: list[int] = attrs.Factory(list)
    torn: bool = False
    unended: bool = False
    head: bool = False
    id: str | None = None
    size: int = 0


def check(path: Path, home: Path) -> Iterator[ThreadFault]:
    """Yield the damages in a file, and in its relation to the files that it continues."""
    thread_id = id_of_file(path)
    try:
        scan = _scan_file(path)
    except ThreadError as error:
        yield ThreadFault(thread_id=thread_id, fact=error.fact, path=str(path))
        return
    except OSError as error:
        fact = f"it cannot be read: {error.strerror or error}"
        yield ThreadFault(thread_id=thread_id, fact=fact, path=str(path))
        return
    for fact, cure in _damages(scan):
        yield ThreadFault(thread_id=thread_id, fact=fact, repair=cure, path=str(path))
    if None not in (thread_id, scan.id) and scan.id != thread_id:
        fact = f"its name has the id {thread_id}, and its first line the id {(scan.id or '')[:80]!r}; rename the file"
        yield ThreadFault(thread_id=thread_id, fact=fact, path=str(path))
    try:
        lineage_of(path, home, reader_of)
    except ThreadError as error:
        yield ThreadFault(thread_id=thread_id, fact=error.fact, path=str(path))
    except OSError as error:
        fact = f"a file that it continues cannot be read: {error.strerror or error}"
        yield ThreadFault(thread_id=thread_id, fact=fact, path=str(path))


def repair(path: Path, home: Path) -> list[ThreadFault]:
    """Repair a file, if it is damaged, and return the damages that it had.

    Raises:
        ThreadError: The thread is in use, or the file cannot be written.
    """
    thread_id = id_of_file(path)
    lock = lock_thread(thread_id or "", home)
    try:
        found = list(check(path, home))
        if any(fault.repair is not None for fault in found):
            if path.suffix == ".zst":
                raise ThreadError(
                    f"{path} is compressed and cannot be repaired",
                    slug="thread-unreadable",
                    hint=f"Decompress it first: zstd -d --rm {path}",
                )
            _rewrite(path, _scan_file(path), thread_id)
    finally:
        lock.release()
    return found


def all_paths(home: Path) -> list[Path]:
    """Return all rollout files, oldest first."""
    return sorted((Path(entry[0]) for entry in all_files(home)), key=lambda path: path.name)


def _damages(scan: _Scan) -> Iterator[tuple[str, str | None]]:
    if not scan.size:
        yield "the file is empty", None
        return
    if not scan.lines:
        yield "no line of the file can be read: it is no rollout file", None
        return
    if scan.broken:
        saved = f", and {scan.saved} line(s) inside them are kept" if scan.saved else ""
        yield f"{_lines(scan.broken)} cannot be read", f"the unreadable parts are left out{saved}"
    if scan.blank:
        yield f"{_lines(scan.blank)} consist of NUL bytes, as after a power failure", "they are left out"
    if scan.torn:
        yield "the last line is incomplete", "it is left out"
    if scan.unended:
        yield "the last line has no newline", "the newline is added"
    if not scan.head:
        yield "the first line is not the head of a thread", "a head is written, with the id from the file's name"


def _lines(numbers: list[int]) -> str:
    places = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"{len(numbers)} line(s) (line {places})"


def _scan_file(path: Path) -> _Scan:
    scan = _Scan([])
    with reader_of(path) as file:
        for number, line in enumerate(file, 1):
            scan.size += len(line)
            _take(scan, line, number)
    scan.id = _head_id(scan.lines[0]) if scan.lines else None
    scan.head = scan.id is not None
    return scan


def _take(scan: _Scan, line: bytes, number: int) -> None:
    ended = line.endswith(b"\n")
    if not line.strip(_BLANK):
        if b"\0" in line:
            scan.blank.append(number)
        return
    if _is_readable(line):
        scan.lines.append(line if ended else line + b"\n")
        scan.unended = not ended
        return
    inside = _inside(line)
    scan.saved += len(inside)
    scan.lines += inside
    if ended or inside:
        scan.broken.append(number)
    else:
        scan.torn = True


def _inside(line: bytes) -> list[bytes]:
    """Return the readable lines in a broken one: a truncated line and the next line that was appended to it, in any order."""
    found: list[bytes] = []
    starts = []
    place = line.find(_START)
    while place >= 0:
        starts.append(place)
        place = line.find(_START, place + 1)
    for start, end in zip(starts, [*starts[1:], len(line)], strict=False):
        part = line[start:end].strip(_BLANK)
        if _is_readable(part):
            found.append(part + b"\n")
    return found


def _is_readable(line: bytes) -> bool:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(raw, dict) and "type" in raw and "payload" in raw


def _head_id(line: bytes) -> str | None:
    """Return the thread id in the head of a thread, or None if the line is not a head."""
    raw = json.loads(line)
    payload = raw["payload"] if raw["type"] == "session_meta" else None
    found = payload.get("id") if isinstance(payload, dict) else None
    return found if isinstance(found, str) else None


def _rewrite(path: Path, scan: _Scan, thread_id: str | None) -> None:
    """Put the readable lines in place of a file, and keep the original beside it."""
    found = path.stat()
    new = path.with_name(f".{path.name}.repaired")
    lines = scan.lines if scan.head else [_head(scan, path, thread_id), *scan.lines]
    try:
        new.unlink(missing_ok=True)  # the rest of a repair that was cut off, or a link to somewhere else
        with os.fdopen(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            file.writelines(lines)
            file.flush()
            os.utime(file.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))  # the list of threads keeps its order
            os.fsync(file.fileno())
        os.link(path, next_damaged(path))
        new.rename(path)
    except OSError as error:
        raise ThreadError(
            f"cannot repair {path}: {error.strerror or error}",
            slug="thread-unsaved",
            hint="Free some disk space, or make the folder writable.",
        ) from error
    finally:
        new.unlink(missing_ok=True)


def _head(scan: _Scan, path: Path, thread_id: str | None) -> bytes:
    """Return a head from the file's name and the first settings of a turn."""
    if thread_id is None:
        raise ThreadError(
            f"{path} has no head, and its name contains no id",
            slug="thread-unreadable",
            hint="Name it rollout-YYYY-MM-DDThh-mm-ss-ID.jsonl, with the thread's id, and repair it again.",
        )
    cwd = ""
    for line in scan.lines:
        raw = json.loads(line)
        if raw["type"] == "turn_context" and isinstance(raw["payload"], dict):
            cwd = str(raw["payload"].get("cwd") or "")
            break
    began = path.stat().st_mtime
    return meta_line(meta_from_wire({"id": thread_id, "cwd": cwd, "source": "unknown"}, began), None, began)
