"""The files that make up a thread: its own file, and the beginnings of the files that it continues.

A fork continues another thread. After a rollback, a thread continues one of its own older files. In both cases the head of the
file has a ``history_base``, with the last id in the other file's name and the ordinal of the first line that does not belong to
the thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from codex_framework.contract.errors import ThreadError
from codex_plugin_rollout.files import file_of_segment

__all__ = ["Lineage", "Part", "lineage_of"]


@attrs.frozen
class Part:
    """The lines of a file that belong to a thread: those with an ordinal below ``end``, or all lines if ``end`` is None."""

    path: Path
    end: int | None


@attrs.frozen
class Lineage:
    """All parts of a thread, oldest first.

    ``head`` is the head of the last part, the thread's own file, or None without such a file.
    """

    head: Mapping[str, Any] | None
    parts: tuple[Part, ...]


def lineage_of(path: Path, codex_home: Path, reader: Callable[[Path], BinaryIO]) -> Lineage:
    """Return the parts of the thread whose own file is ``path``.

    Raises:
        ThreadError: A file that the thread continues is missing, or its name is invalid.
        OSError: A file cannot be read.
    """
    own = head = _head(path, reader)
    parts = [Part(path, None)]
    while head is not None and (base := head.get("history_base")) is not None:
        newer = parts[-1].path
        name, end = _base(base, newer)
        older = file_of_segment(codex_home, name, newer.parent)
        if older is None or older in {part.path for part in parts}:
            raise ThreadError(
                f"{newer} continues the conversation {name}, whose file is missing",
                slug="thread-unreadable",
                hint=f"Put rollout-...-{name}.jsonl back into {codex_home / 'sessions'}, or beside the file.",
            )
        parts.append(Part(older, end))
        head = _head(older, reader)
    return Lineage(own, tuple(reversed(parts)))


def _head(path: Path, reader: Callable[[Path], BinaryIO]) -> Mapping[str, Any] | None:
    """Return the first line's payload, or None if the line is not the head of a file."""
    with reader(path) as lines:
        try:
            raw = json.loads(lines.readline())
            payload = raw["payload"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
    named = isinstance(payload, dict) and raw.get("type") == "session_meta" and isinstance(payload.get("id"), str)
    return payload if named else None


def _base(base: object, path: Path) -> tuple[str, int]:
    match base:
        case {"thread_id": str(name), "end_ordinal_exclusive": int(end)} if name:
            return name, end
    raise ThreadError(
        f"{path} continues another conversation, but its first line does not say which: history_base is not understood",
        slug="thread-unreadable",
        hint="A newer version of Codex may have written it. Use that version.",
    )
