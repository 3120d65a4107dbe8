"""The files of sessions: found by id, the beginning of an id, path, or as the newest."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.toolkit.regular_files import open_regular

__all__ = ["Files", "open_session_file"]

_NAME = re.compile(
    r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+?)(?:_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?\.jsonl(?:\.zst)?"
)

_LAST = "last"
_SHOWN = 5
"""How many sessions an error names."""

_DEEPEST = 4
"""Folders below ``sessions``: the year, the month and the day, and one more."""


class Files:
    """The sessions of ``$CODEX_HOME``."""

    def __init__(self, codex_home: Path) -> None:
        self._home = codex_home

    def find(self, named: str) -> Path:
        """Return the file of a session.

        Args:
            named: An id, its beginning, a path, or ``last``.

        Raises:
            ThreadError: There is no such session, or several ids begin like this.
        """
        if os.sep in named or named.endswith((".jsonl", ".jsonl.zst")):
            return _file(Path(home_expanded(named)))
        known = self._files_by_thread()
        if named == _LAST:
            return self._newest(known)
        if named in known:
            return known[named]
        begin = sorted(known_id for known_id in known if named and known_id.startswith(named))
        if len(begin) == 1:
            return known[begin[0]]
        if begin:
            raise ThreadError(
                f"{len(begin)} sessions begin with {named!r}: {_list_ids(begin)}",
                slug="thread-not-found",
                hint="Give more of the id.",
            )
        near = get_close_matches(named, known, n=_SHOWN, cutoff=0.5)
        newest = f"The nearest: {_list_ids(near)}." if near else "`last` is the newest session."
        hint = f"{newest} Look into {self._home / 'sessions'}, or check CODEX_HOME."
        raise ThreadError(f"there is no session {named!r}", slug="thread-not-found", hint=hint)

    def of_thread(self, thread_id: str) -> Path | None:
        """Return the file of a thread, or None."""
        return self._files_by_thread().get(thread_id)

    def of_segment(self, name: str, beside: Path) -> Path | None:
        """Return the file whose name ends with an id, in ``sessions`` or beside another file, or None."""
        places = [*self._files(), *sorted(beside.parent.glob("rollout-*"))]
        return next((path for path in places if name in (_ids(path)[1] or _ids(path)[0],)), None)

    def _newest(self, known: dict[str, Path]) -> Path:
        dated = []
        for path in set(known.values()):
            try:
                dated.append((path.stat().st_mtime_ns, str(path)))
            except OSError:  # removed in the meantime
                continue
        for _, name in sorted(dated, reverse=True):
            if isinstance(_source(Path(name)), str):  # not the session of a sub-agent
                return Path(name)
        raise ThreadError(
            f"there are no sessions in {self._home / 'sessions'}",
            slug="thread-not-found",
            hint="Run a turn first, or check that CODEX_HOME is the folder in which it was recorded.",
        )

    def _files_by_thread(self) -> dict[str, Path]:
        """Return the files by thread id. A thread in several files continues in the one with the last segment."""
        found: dict[str, tuple[str, Path]] = {}
        for path in self._files():
            thread_id, segment = _ids(path)
            if thread_id and (thread_id not in found or segment >= found[thread_id][0]):
                found[thread_id] = (segment, path)
        return {thread_id: path for thread_id, (_, path) in found.items()}

    def _files(self) -> Iterator[Path]:
        """Yield the files of sessions: archived ones first, compressed ones before others."""
        for folder in ("archived_sessions", "sessions"):
            paths = sorted(
                _files_below(self._home / folder, _DEEPEST),
                key=lambda path: (not path.name.endswith(".zst"), path.name),
            )
            yield from paths


def _files_below(folder: Path, levels: int) -> Iterator[Path]:
    """Yield the regular files of sessions in a folder. Unreadable folders are left out, and links to folders are not followed."""
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except OSError:
        return
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            if levels:
                yield from _files_below(Path(entry.path), levels - 1)
        elif _NAME.fullmatch(entry.name) and (entry.is_file(follow_symlinks=False) or os.path.isfile(entry.path)):  # noqa: PTH113
            yield Path(entry.path)


def _ids(path: Path) -> tuple[str, str]:
    match = _NAME.fullmatch(path.name)
    return (match.group(1), match.group(2) or "") if match else ("", "")


def _file(path: Path) -> Path:
    try:
        found = path.is_file()
    except OSError:  # a circle of links, or a name that is too long
        found = False
    if found:
        return path
    what = "a folder" if os.path.isdir(path) else "no file"  # noqa: PTH112  # which never raises
    raise ThreadError(
        f"{path} is {what}",
        slug="thread-not-found",
        hint="Name a file rollout-*.jsonl, the id of a session, or `last`.",
    )


def _list_ids(ids: list[str]) -> str:
    more = f", and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + more


def _source(path: Path) -> Any:
    """Return the source of a session: a word, or a table for a sub-agent. Without a readable head, a word."""
    try:
        with open_session_file(path) as lines:
            payload = json.loads(lines.readline(1_000_000))["payload"]
        source = payload.get("source", "")
        return source.get("custom", source) if isinstance(source, dict) else source
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, ThreadError):
        return ""


def open_session_file(path: Path) -> BinaryIO:
    """Open a file of a session, which may be compressed.

    Raises:
        ThreadError: It is compressed, and what decompresses it is not installed.
        OSError: It cannot be opened. Reading raises it if it is no zstd file, or much too long a one.
    """
    if path.suffix != ".zst":
        return open(path, "rb", opener=open_regular)
    from codex_framework.toolkit.compressed import ZstandardNeededError, decompressing

    try:
        return decompressing(open(path, "rb", opener=open_regular))  # the result closes it
    except ZstandardNeededError:
        raise ThreadError(
            f"{path} is compressed, and the package zstandard is not installed",
            slug="thread-unreadable",
            hint=f"Run: pip install zstandard, or: zstd -d --rm {path}",
        ) from None
