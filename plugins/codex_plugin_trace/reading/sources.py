"""Finding of what to show: a file, or a session by id or name; and reading it as a timeline."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_trace.reading.lines import Lines, unreadable
from codex_plugin_trace.reading.plain import mapping, text
from codex_plugin_trace.reading.rollout import ROLLOUT_TYPES, timeline_of_session
from codex_plugin_trace.reading.timeline import Timeline
from codex_plugin_trace.reading.trace import timeline_of_trace

__all__ = ["latest_session", "read_timeline", "source_named"]

_FILE_NAME = re.compile(
    r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(?P<id>.+?)(_(?P<part>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}))?\.jsonl(\.zst)?"
)
_TRACE_TYPES = frozenset({"trace", "span", "moment", "event"})
_SEARCHED = 200
"""How many lines may come before the first that says what kind of file it is."""

_SHORTEST_ID = 4
_MOST_PARTS = 100
"""How many files a session may continue."""


def source_named(name: str, codex_home: Path) -> Path:
    """Return the file of this path, or else the file of the session with this id, beginning of an id, or name.

    Raises:
        CodexError: No session was found, or the beginning of the id is ambiguous.
    """
    if "\0" in name:
        raise CodexError("the name contains a NUL", slug="trace-unreadable", hint="Name a file or a session.")
    path = Path(name)
    if path.exists() or os.sep in name or name.endswith((".jsonl", ".zst")):
        return path
    found = _by_id(name, codex_home) or _by_id(_id_named(name, codex_home), codex_home)
    if not found:
        fact = f"there is no file {name!r}, and no session with this id or name in {codex_home}"
        raise CodexError(fact, slug="trace-unreadable", hint="Name a file or a session, or add --last.")
    if len(found) > 1:
        ids = ", ".join(sorted(found)[:5])
        raise CodexError(
            f"{len(found)} sessions have an id that begins with {name!r}: {ids}",
            slug="trace-unreadable",
            hint="Write more of the id.",
        )
    return next(iter(found.values()))


def latest_session(codex_home: Path) -> Path:
    """Return the file of the session that was written last.

    Raises:
        CodexError: No session exists.
    """
    newest, latest = -1, None
    for path in _session_files(codex_home):
        try:
            about = path.stat()
        except OSError:  # removed in the meantime
            continue
        if stat.S_ISREG(about.st_mode) and about.st_mtime_ns > newest:
            newest, latest = about.st_mtime_ns, path
    if latest is None:
        fact = f"there are no sessions in {codex_home}"
        raise CodexError(fact, slug="trace-unreadable", hint="Name a file.")
    return latest


def read_timeline(path: Path, codex_home: Path) -> Timeline:
    """Read a trace or a recorded session.

    Raises:
        CodexError: The file cannot be read, or is neither.
    """
    lines = Lines(path)
    records = lines.read()
    first: list[dict[str, Any]] = []
    kind = ""
    for record in itertools.islice(records, _SEARCHED):
        first.append(record)
        kind = _kind_of(record)
        if kind:
            break
    if not kind:
        reason = "it is neither a trace nor a recorded session" if path.stat().st_size else "it is empty"
        raise unreadable(path, reason)
    whole = itertools.chain(first, records)
    if kind == "trace":
        timeline = timeline_of_trace(whole)
        timeline.title = path.name
        timeline.name_by_first_message()
    else:
        problems: list[str] = []
        timeline = timeline_of_session(_with_older(whole, path, codex_home, problems))
        timeline.warnings += problems
    timeline.facts.append(("file", str(path)))
    timeline.warnings += lines.warnings
    return timeline


def _kind_of(record: Mapping[str, Any]) -> str:
    kind = text(record.get("type"))
    if kind in ROLLOUT_TYPES and "payload" in record:
        return "session"
    return "trace" if kind in _TRACE_TYPES and ("version" in record or "time" in record) else ""


def _with_older(
    records: Iterator[dict[str, Any]], path: Path, codex_home: Path, problems: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session, after the lines of the older files that it continues."""
    head = next(records, {})
    older: list[tuple[Path, int]] = []
    base = mapping(mapping(head.get("payload")).get("history_base"))
    known = {path.resolve()}
    while base and len(older) < _MOST_PARTS:
        name, end = text(base.get("thread_id")), base.get("end_ordinal_exclusive")
        file = _segment(name, codex_home, (older[-1][0] if older else path).parent)
        if file is None or file.resolve() in known or not isinstance(end, int):
            problems.append(
                f"The session continues {name or 'another one'}, whose file is missing. Its turns are not shown."
            )
            break
        known.add(file.resolve())
        older.append((file, end))
        base = mapping(mapping(next(Lines(file).read(), {}).get("payload")).get("history_base"))
    yield head
    for file, end in reversed(older):
        part = Lines(file)
        for place, record in enumerate(part.read()):
            ordinal = record.get("ordinal")
            if (ordinal if isinstance(ordinal, int) else place) >= end:
                break
            yield record
        problems += [f"{file.name}: {warning}" for warning in part.warnings]
    yield from records


def _segment(name: str, codex_home: Path, beside: Path) -> Path | None:
    if not name:
        return None
    for path in (*_session_files(codex_home), *_list_folder(beside)):
        match = _FILE_NAME.fullmatch(path.name)
        if match and (match["part"] or match["id"]) == name:
            return path
    return None


def _by_id(wanted: str | None, codex_home: Path) -> dict[str, Path]:
    """Return the newest file of each session whose id is, or else begins with, a text."""
    if not wanted:
        return {}
    found: dict[str, tuple[str, Path]] = {}
    for path in _session_files(codex_home):
        match = _FILE_NAME.fullmatch(path.name)
        if match and match["id"].startswith(wanted):
            key = match["part"] or ""
            if match["id"] not in found or key >= found[match["id"]][0]:
                found[match["id"]] = (key, path)
    files = {thread: path for thread, (_, path) in found.items()}
    if wanted in files:
        return {wanted: files[wanted]}
    return files if len(wanted) >= _SHORTEST_ID else {}


def _id_named(name: str, codex_home: Path) -> str | None:
    """Return the id of the session that got this name last."""
    found = None
    try:
        with open(codex_home / "session_index.jsonl", "rb", opener=open_regular) as lines:
            for line in lines:
                try:
                    entry = mapping(json.loads(line))
                except (ValueError, RecursionError):
                    continue
                if entry.get("thread_name") == name:
                    found = text(entry.get("id")) or found
    except OSError:
        return None
    return found


def _session_files(codex_home: Path) -> Iterator[Path]:
    """Yield the files with names of session files, archived ones first, then by day."""
    yield from filter(_is_named_so, _list_folder(codex_home / "archived_sessions"))
    days = [codex_home / "sessions"]
    for _ in range(3):
        days = [day for folder in days for day in _list_folder(folder) if day.name.isdigit()]
    for day in days:
        yield from filter(_is_named_so, _list_folder(day))


def _is_named_so(path: Path) -> bool:
    return _FILE_NAME.fullmatch(path.name) is not None


def _list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # missing, not a folder or unreadable
        return []
