"""The list of stored threads: a page of them, newest first, by the files' names, times and first lines.

A page costs one ``stat`` per file, and the beginnings of those files on the page that have changed since they were read. A search
reads whole files.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.roles.stores import ThreadPage, ThreadQuery, ThreadSummary
from codex_framework.toolkit.thread_records import excerpt, preview, summary_of
from codex_plugin_rollout.files import all_files, is_folder_of, names_of, read_head
from codex_plugin_rollout.lineage import lineage_of
from codex_plugin_rollout.lines import meta_from_wire
from codex_plugin_rollout.reading import reader_of

__all__ = ["find"]

_FIRST_LINES = 200
"""How many lines are searched for the first message."""

_SUMMARIES = 16_384
"""Summaries that are kept in memory, of about 1.5 KB each."""


@attrs.frozen
class _File:
    """The newest file of a thread, with the time of the last change of any of its files."""

    path: str
    thread_id: str
    segment: str
    modified_ns: int
    archived: bool


def find(query: ThreadQuery, home: Path) -> ThreadPage:
    """List threads.

    Raises:
        ThreadError: The cursor is not one of this store, ``limit`` is not positive, or the folder cannot be read.
    """
    if query.limit < 1:
        raise ThreadError(f"the limit is {query.limit}", slug="bad-request", hint="Ask for at least one thread.")
    after = None if query.cursor is None else _cursor(query.cursor)
    _check_readable(home / "sessions")
    names = names_of(home)
    found: list[ThreadSummary] = []
    last: _File | None = None
    for file in _newest_first(home, archived=query.archived):
        if after is not None and (file.modified_ns, file.thread_id) >= after:
            continue
        summary = _fitting(file, query, names.get(file.thread_id), home)
        if summary is None:
            continue
        if len(found) == query.limit:
            assert last is not None
            return ThreadPage(threads=tuple(found), cursor=f"{last.modified_ns}:{last.thread_id}")
        found.append(summary)
        last = file
    return ThreadPage(threads=tuple(found))


def _check_readable(folder: Path) -> None:
    """Check that sessions can be listed. Otherwise an empty list would look like a fact."""
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ThreadError(
            f"cannot read {folder}: {error.strerror or error}",
            slug="thread-unreadable",
            hint="Make the folder readable, or check that CODEX_HOME is the folder with your sessions.",
        ) from error


def _cursor(text: str) -> tuple[int, str]:
    modified, colon, thread_id = text.partition(":")
    if not colon or not modified.isascii() or not modified.isdigit():
        raise ThreadError(
            f"{text!r} is not a cursor of the list of threads",
            slug="bad-request",
            hint="Pass the cursor of the previous page, or none for the first one.",
        )
    return int(modified), thread_id


def _newest_first(home: Path, *, archived: bool | None) -> list[_File]:
    """Return the newest file of every thread, most recently changed threads first."""
    newest: dict[str, _File] = {}
    for path, thread_id, segment, modified_ns, is_archived in all_files(home):
        if archived is not None and is_archived is not archived:
            continue
        known = newest.get(thread_id)
        if known is None:
            newest[thread_id] = _File(path, thread_id, segment, modified_ns, is_archived)
            continue
        later = max(known.modified_ns, modified_ns)
        if (not is_archived, segment, path.endswith(".jsonl")) > (
            not known.archived,
            known.segment,
            known.path.endswith(".jsonl"),
        ):
            newest[thread_id] = _File(path, thread_id, segment, later, is_archived)
        elif later > known.modified_ns:
            newest[thread_id] = attrs.evolve(known, modified_ns=later)
    return sorted(newest.values(), key=lambda file: (file.modified_ns, file.thread_id), reverse=True)


def _fitting(file: _File, query: ThreadQuery, name: str | None, home: Path) -> ThreadSummary | None:
    summary = _summary(file, home)
    if not query.subagents and summary.parent_id is not None:
        return None
    if query.cwd is not None and not is_folder_of({"cwd": summary.cwd or None}, query.cwd):
        return None
    match = None
    if query.text:
        named = name is not None and query.text.casefold() in name.casefold()
        match = name if named else _match(file, query.text, home)
        if match is None:
            return None
    return summary if name is None and match is None else summary.evolve(name=name, match=match)


@functools.lru_cache(maxsize=_SUMMARIES)
def _summary(file: _File, home: Path) -> ThreadSummary:
    """Return a thread without its name."""
    head = read_head(Path(file.path)) or {}
    modified = file.modified_ns / 1e9
    meta = meta_from_wire({**head, "id": file.thread_id}, modified)
    summary = summary_of(
        meta, updated_at=modified, preview=_preview(Path(file.path), head, home), archived=file.archived
    )
    return summary.evolve(parent_id=_parent(head), path=file.path)


def _parent(head: Mapping[str, Any]) -> str | None:
    """Return the thread that started a sub-agent's thread, or None if it is no sub-agent's."""
    parent = head.get("parent_thread_id")
    if isinstance(parent, str) and parent:
        return parent
    match head.get("source"):
        case {"subagent": {"thread_spawn": {"parent_thread_id": str(spawner)}}}:
            return spawner
        case {"subagent": _}:
            return ""
    return None


def _preview(path: Path, head: Mapping[str, Any], home: Path) -> str | None:
    """Return the first message of the user, which may be in a file that this one continues."""
    try:
        first = lineage_of(path, home, reader_of).parts[0].path if head.get("history_base") is not None else path
        with reader_of(first) as lines:
            for _, line in zip(range(_FIRST_LINES), lines, strict=False):
                if b'"user' in line.lower():  # user_message and UserMessage
                    said = next(_message_texts(line, users_only=True), None)
                    if said:
                        return preview(said)
    except (OSError, ThreadError):
        pass
    return None


def _match(file: _File, text: str, home: Path) -> str | None:
    """Return the place of a text in a thread's messages, in its context, or None if it is not there."""
    path = Path(file.path)
    wanted = text.casefold()
    ascii_part = _longest_ascii(json.dumps(text, ensure_ascii=False)[1:-1].lower())
    try:
        parts = lineage_of(path, home, reader_of).parts
        for part in reversed(parts):
            with reader_of(part.path) as lines:
                data = lines.read()
            if ascii_part and ascii_part not in data.lower():
                continue
            for line in data.split(b"\n"):
                if ascii_part in line.lower():
                    for said in _message_texts(line):
                        if wanted in said.casefold():
                            return excerpt(said, wanted)
    except (OSError, ThreadError):
        pass
    return None


def _longest_ascii(text: str) -> bytes:
    """Return the longest part of a text that lower case finds in bytes, too."""
    runs = "".join(char if char.isascii() else "\0" for char in text).split("\0")
    return max(runs, key=len).encode()


def _message_texts(line: bytes, *, users_only: bool = False) -> Iterator[str]:
    """Yield the messages of the user, and of the model unless ``users_only``, in a line."""
    try:
        raw = json.loads(line)
        kind, payload = raw["type"], raw["payload"]
        tag = payload.get("type")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return
    if kind != "event_msg":
        return
    if tag in ("user_message", *(() if users_only else ("agent_message",))):
        said = payload.get("message")
        if isinstance(said, str):
            yield said
    item = payload.get("item") if tag == "item_completed" else None
    kinds = ("UserMessage",) if users_only else ("UserMessage", "AgentMessage")
    if isinstance(item, dict) and item.get("type") in kinds and isinstance(item.get("content"), list):
        for part in item["content"]:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str):
                yield text
