"""Facts about threads from the first lines of session files and the index of names."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from codex_framework.toolkit.compressed import ZstandardNeededError
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_usage.folders import SessionFile
from codex_plugin_usage.lines import Skipped, relevant_lines

__all__ = ["parent_of", "thread_names", "with_children"]


def parent_of(head: Mapping[str, Any]) -> str | None:
    """Return the id of the thread that started a sub-agent's thread, or None if it is no sub-agent's."""
    found = head.get("parent_thread_id")
    if isinstance(found, str) and found:
        return found
    match head.get("source"):
        case {"subagent": {"thread_spawn": {"parent_thread_id": str(parent)}}}:
            return parent
    return None


def thread_names(codex_home: Path) -> dict[str, str]:
    """Return the names of threads by id, from ``session_index.jsonl``. The last name of a thread counts."""
    names: dict[str, str] = {}
    try:
        with open(codex_home / "session_index.jsonl", "rb", opener=open_regular) as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                    thread_id, name = entry["id"], entry["thread_name"]
                except (ValueError, TypeError, KeyError, RecursionError):
                    continue  # an incomplete line names no thread
                if isinstance(thread_id, str) and isinstance(name, str):
                    names[thread_id] = name
    except OSError:
        return {}
    return names


def with_children(files: Iterable[SessionFile], wanted: Collection[SessionFile | str]) -> list[SessionFile]:
    """Return the files of some threads and of their sub-agents at any depth.

    Args:
        wanted: Ids of threads, and files that need not be among ``files``.
    """
    own = [file for file in wanted if isinstance(file, SessionFile)]
    ids = {thread for thread in wanted if isinstance(thread, str)} | {_id_of(file) for file in own}
    taken = {file.path for file in own}
    children: dict[str, list[SessionFile]] = {}
    found = list(own)
    for file in files:
        if file.thread_id in ids:
            found += [] if file.path in taken else [file]
        elif (parent := parent_of(_head(file))) is not None:
            children.setdefault(parent, []).append(file)
    new = sorted(ids)
    while new:
        started = [child for parent in new for child in children.pop(parent, ())]
        found += started
        new = [child.thread_id for child in started]
    return found


def _id_of(file: SessionFile) -> str:
    return file.thread_id or str(_head(file).get("id", ""))


def _head(file: SessionFile) -> Mapping[str, Any]:
    """Return the payload of a file's first line, or an empty one."""
    try:
        first = next(relevant_lines(file.path, Skipped()), None)
    except (OSError, ZstandardNeededError):
        return {}
    return first["payload"] if first is not None and first["type"] == "session_meta" else {}
