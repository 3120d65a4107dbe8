"""Shows the turns that are added to a thread of Codex in Codex's app server, before it reads the file itself.

Codex answers ``thread/read`` from a database, ``thread_history_1.sqlite``, which it brings up to date when it continues a thread. Rows
of new turns are therefore added there, without moving the mark of what Codex has read: when it reads the lines, it replaces the rows.
"""

from __future__ import annotations

import json
import posixpath
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["TurnPreviews", "shown_item"]

Item = Mapping[str, Any]

_DATABASE = "thread_history_1.sqlite"
_PATIENCE_S = 0.2
"""How long to wait for another program that writes to the database. A preview is not worth more."""

_ENDS = {"task_complete": "completed", "turn_aborted": "interrupted"}

_INSERT_TURN = """
INSERT OR IGNORE INTO thread_turns (
    thread_id, turn_id, rollout_ordinal, status, error_json, started_at, completed_at, duration_ms,
    first_user_item_id, final_agent_item_id, rollout_byte_offset, rollout_end_ordinal, rollout_end_byte_offset
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_INSERT_ITEM = """
INSERT OR IGNORE INTO thread_items (
    thread_id, turn_id, item_id, rollout_ordinal, created_at_ms, item_json, item_type, updated_at_ordinal,
    started_at_ms, completed_at_ms
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class TurnPreviews:
    """Adds the turns of one thread to Codex's database, each when it ends. A database that cannot be written is left alone.

    Args:
        codex_home: The folder with the database.
    """

    def __init__(self, codex_home: Path, thread_id: str) -> None:
        self._path = codex_home / _DATABASE
        self._thread_id = thread_id
        self._started: tuple[int, int, Item] | None = None  # where the turn starts: byte and ordinal, and its event
        self._items: list[tuple[int, Item]] = []

    def add(self, lines: Iterable[bytes], offset: int) -> None:
        """Take lines that were written at an offset of the file. Never raises, because the record does not depend on it."""
        for line in lines:
            start, offset = offset, offset + len(line)
            if b'"event_msg"' in line[:120]:
                try:
                    self._take(json.loads(line), start, offset)
                except Exception:  # whatever it is: a caller that fails would write the same lines again
                    self._started = None  # a line or database of another version: Codex reads the file sooner or later

    def _take(self, record: Item, start: int, end: int) -> None:
        ordinal, event = record["ordinal"], record["payload"]
        match event["type"]:
            case "task_started":
                self._started, self._items = (start, ordinal, event), []
            case "item_completed":
                self._items.append((ordinal, event))
            case "task_complete" | "turn_aborted" if self._started is not None:
                self._save(self._started, event, end, ordinal)
                self._started = None

    def _save(self, started: tuple[int, int, Item], ended: Item, end: int, end_ordinal: int) -> None:
        start, ordinal, begun = started
        turn_id = begun.get("turn_id")
        shown = [(number, event, item) for number, event in self._items if (item := shown_item(event["item"]))]
        error = ended.get("error")
        turn = (
            *(self._thread_id, turn_id, ordinal, "failed" if error else _ENDS[ended["type"]], _shown_error(error)),
            *(begun.get("started_at"), ended.get("completed_at"), ended.get("duration_ms")),
            next((item["id"] for _, _, item in shown if item["type"] == "userMessage"), None),
            next((item["id"] for _, _, item in reversed(shown) if _is_answer(item)), None),
            *(start, end_ordinal, end),
        )
        rows = [self._item_row(turn_id, number, event, item) for number, event, item in shown]
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=rw", uri=True, timeout=_PATIENCE_S)) as database:
            database.execute("PRAGMA synchronous = NORMAL")
            if self._is_ahead(database, start):
                with database:
                    database.execute(_INSERT_TURN, turn)
                    database.executemany(_INSERT_ITEM, rows)

    def _is_ahead(self, database: sqlite3.Connection, start: int) -> bool:
        """Return whether the turn is in a thread that Codex knows, after everything that it has read."""
        found = database.execute(
            "SELECT next_rollout_byte_offset FROM thread_history_projection_state WHERE thread_id = ?",
            (self._thread_id,),
        ).fetchone()
        return found is not None and int(found[0]) <= start

    def _item_row(self, turn_id: object, ordinal: int, event: Item, item: Item) -> tuple[object, ...]:
        started, completed = event.get("started_at_ms"), event.get("completed_at_ms")
        encoded = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
        created = completed if started is None else started
        return (
            *(self._thread_id, turn_id, item["id"], ordinal, created, encoded, item["type"], ordinal),
            *(started, completed),
        )


def shown_item(item: Item) -> dict[str, Any] | None:
    """Return a turn item as the app server shows it. None for a kind that waits for Codex to read it."""
    show = _KINDS.get(str(item.get("type")))
    return None if show is None else show(item)


def _is_answer(item: Item) -> bool:
    return bool(item["type"] == "agentMessage" and item["phase"] != "commentary")


def _shown_error(error: Item | None) -> str | None:
    if not error:
        return None
    info = error.get("codex_error_info")
    info = _camel(info) if isinstance(info, str) else "other"
    return json.dumps({"message": str(error.get("message")), "codexErrorInfo": info, "additionalDetails": None})


def _user_message(item: Item) -> dict[str, Any]:
    content = [_user_content(part) for part in item["content"]]
    return {"type": "userMessage", "id": item["id"], "clientId": item.get("client_id"), "content": content}


def _user_content(part: Item) -> dict[str, Any]:
    match part["type"]:
        case "text":
            elements = [
                {"byteRange": element["byte_range"], "placeholder": element.get("placeholder")}
                for element in part.get("text_elements") or ()
            ]
            return {"type": "text", "text": part["text"], "text_elements": elements}
        case "image":
            return {"type": "image", "detail": part.get("detail"), "url": part["image_url"]}
        case "local_image":
            return {"type": "localImage", "detail": part.get("detail"), "path": part["path"]}
        case kind:
            return {"type": kind, "name": part["name"], "path": part["path"]}


def _agent_message(item: Item) -> dict[str, Any]:
    text = "".join(part.get("text", "") for part in item["content"])
    return {"type": "agentMessage", "id": item["id"], "text": text, "phase": item.get("phase")}


def _reasoning(item: Item) -> dict[str, Any]:
    return {"type": "reasoning", "id": item["id"], "summary": item["summary_text"], "content": item["raw_content"]}


def _command(item: Item) -> dict[str, Any]:
    cwd, took = _path(item["cwd"]), item["duration"]
    return {
        "type": "commandExecution",
        "id": item["id"],
        "command": shlex.join(item["command"]),
        "cwd": cwd,
        "processId": item.get("process_id"),
        "source": _camel(item["source"]),
        "status": _camel(item["status"]),
        "commandActions": [_action(action, cwd) for action in item["parsed_cmd"]],
        "aggregatedOutput": item["aggregated_output"] or None,
        "exitCode": item["exit_code"],
        "durationMs": took["secs"] * 1000 + took["nanos"] // 1_000_000,
    }


def _action(action: Item, cwd: str) -> dict[str, Any]:
    shown = {"type": _camel(action["type"]), "command": action["cmd"]}
    shown |= {name: action.get(name) for name in ("name", "query", "path") if name in action}
    if action["type"] == "read":
        shown["path"] = posixpath.normpath(posixpath.join(cwd, action["path"]))
    return shown


def _patch(item: Item) -> dict[str, Any]:
    changes = [_change(path, change) for path, change in sorted(item["changes"].items())]
    return {"type": "fileChange", "id": item["id"], "changes": changes, "status": _camel(item["status"])}


def _change(path: str, change: Item) -> dict[str, Any]:
    if change["type"] != "update":
        return {"path": path, "kind": {"type": change["type"]}, "diff": change["content"]}
    moved = change.get("move_path")
    diff = change["unified_diff"] + (f"\n\nMoved to: {moved}" if moved else "")
    return {"path": path, "kind": {"type": "update", "move_path": moved}, "diff": diff}


def _image(item: Item) -> dict[str, Any]:
    return {"type": "imageView", "id": item["id"], "path": _path(item["path"])}


def _web_search(item: Item) -> dict[str, Any]:
    action = {**item["action"], "type": _camel(item["action"]["type"])}
    return {"type": "webSearch", "id": item["id"], "query": item["query"], "action": action}


def _compaction(item: Item) -> dict[str, Any]:
    return {"type": "contextCompaction", "id": item["id"]}


_KINDS: Mapping[str, Callable[[Item], dict[str, Any]]] = {
    "UserMessage": _user_message,
    "AgentMessage": _agent_message,
    "Reasoning": _reasoning,
    "CommandExecution": _command,
    "FileChange": _patch,
    "ImageView": _image,
    "WebSearch": _web_search,
    "ContextCompaction": _compaction,
}


def _path(url: str) -> str:
    return unquote(urlsplit(url).path) if url.startswith("file:") else url


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
