"""Pages of sessions and damages, for people and as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from codex_framework.contract.roles.stores import ThreadFault, ThreadPage, ThreadSummary
from codex_framework.toolkit.tables import short_path, shortened, table_lines
from codex_framework.toolkit.terminal_text import printable

__all__ = ["fault_lines", "faults_json", "for_terminal", "page_json", "page_lines", "since"]

_LONGEST_FOLDER, _LONGEST_TEXT = 30, 60
"""The most that a terminal shows of a folder and of a message."""


def page_json(page: ThreadPage) -> dict[str, Any]:
    """Return a page as JSON data. Times are RFC 3339 in UTC."""
    return {"sessions": [_session_json(each) for each in page.threads], "next_cursor": page.cursor}


def page_lines(page: ThreadPage, *, searched: bool) -> Iterator[str]:
    """Return the lines of a page as a table."""
    if not page.threads:
        yield "No sessions found." if searched else "No sessions."
        return
    header = ("Session", "Changed", "Folder", "Found" if searched else "First message")
    yield from table_lines(header, [_row(each) for each in page.threads])
    if page.cursor is not None:
        yield f"\nMore: --cursor {printable(page.cursor)}"


def faults_json(found: Sequence[ThreadFault]) -> dict[str, Any]:
    """Return damages as JSON data."""
    return {
        "faults": [
            {"session": fault.thread_id, "path": fault.path, "fact": fault.fact, "repair": fault.repair}
            for fault in found
        ]
    }


def fault_lines(found: Sequence[ThreadFault], *, repaired: bool) -> Iterator[str]:
    """Return the lines that tell damages."""
    if not found:
        yield "No damage found."
    path = None
    for fault in found:
        if fault.path != path:
            path = fault.path
            yield printable(path or fault.thread_id or "?")
        if fault.repair is None:
            yield f"  {printable(fault.fact)}; this cannot be repaired"
        else:
            yield f"  {printable(fault.fact)}; {'repaired' if repaired else 'to repair'}: {printable(fault.repair)}"
    if not repaired and any(fault.repair is not None for fault in found):
        yield "\nRepair: codex-framework sessions repair SESSION, or --all. The damaged files are kept."


def for_terminal(line: bytes) -> bytes:
    """Return a line of an export with its control characters escaped as in JSON, so that JSON stays the same data."""
    text = line.decode("utf-8", "replace")
    shown = (char if char.isprintable() or char in "\n\t" else json.dumps(char)[1:-1] for char in text)
    return "".join(shown).replace("\x7f", "\\u007f").encode()


def since(seconds: float) -> str:
    """Return how long ago a time was, in words: ``3 min ago``."""
    ago = max(0.0, time.time() - seconds)
    for size, noun in ((86_400, "d"), (3600, "h"), (60, "min")):
        if ago >= size:
            return f"{int(ago // size)} {noun} ago"
    return "now"


def _row(summary: ThreadSummary) -> tuple[str, str, str, str]:
    said = summary.match or summary.preview or ""
    marks = [f"[{summary.name}]"] if summary.name else []
    marks += ["(archived)"] if summary.archived else []
    marks += ["(sub-agent)"] if summary.parent_id is not None else []
    folder = short_path(printable(summary.cwd), _LONGEST_FOLDER)
    shown = shortened(printable(" ".join([*marks, said])), _LONGEST_TEXT)
    return printable(summary.id), since(summary.updated_at), folder, shown


def _session_json(summary: ThreadSummary) -> dict[str, Any]:
    return {
        "id": summary.id,
        "name": summary.name,
        "preview": summary.preview,
        "match": summary.match,
        "cwd": summary.cwd,
        "created_at": _stamp(summary.created_at),
        "updated_at": _stamp(summary.updated_at),
        "source": summary.source,
        "model_provider": summary.model_provider,
        "archived": summary.archived,
        "forked_from_id": summary.forked_from_id,
        "parent_id": summary.parent_id,
        "path": summary.path,
    }


def _stamp(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""
