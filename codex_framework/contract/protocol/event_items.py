"""The turn items of events that came before there were turn items: input of the user, commands, patches and images.

:mod:`~codex_framework.contract.protocol.turn_items` has the other direction, for items that the model makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from codex_framework.contract.protocol.events.command import (
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    ViewImageToolCallEvent,
)
from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.wire import to_wire

__all__ = ["INTERACTION", "Began", "Ended", "WholeEvent", "item_of", "wire_duration"]

INTERACTION = "unified_exec_interaction"
"""The source of events about input to a running command. They have no item, because the command itself is the item."""

Began = ExecCommandBeginEvent | PatchApplyBeginEvent
"""Events with which an item begins."""

Ended = ExecCommandEndEvent | PatchApplyEndEvent
"""Events with which an item ends."""

WholeEvent = UserMessageEvent | ViewImageToolCallEvent
"""Events that are an item's begin and end."""


def item_of(msg: Began | Ended | WholeEvent, item_id: str) -> dict[str, Any]:
    """Return the turn item of an event in its current state."""
    match msg:
        case UserMessageEvent():
            client = {} if msg.client_id is None else {"client_id": msg.client_id}
            return {"type": "UserMessage", "id": item_id, **client, "content": _content(msg)}
        case ViewImageToolCallEvent(path=path):
            return {"type": "ImageView", "id": item_id, "path": _url(path)}
        case PatchApplyBeginEvent():
            return {**_patch(msg, item_id), "auto_approved": msg.auto_approved}
        case PatchApplyEndEvent():
            return {**_patch(msg, item_id), "status": msg.status, "stdout": msg.stdout, "stderr": msg.stderr}
        case ExecCommandBeginEvent():
            return {**_command(msg, item_id), "status": "in_progress"}
        case ExecCommandEndEvent():
            return {
                **_command(msg, item_id),
                "status": msg.status,
                "aggregated_output": msg.aggregated_output,
                "exit_code": msg.exit_code,
                "duration": wire_duration(msg.duration_s),
            }


def wire_duration(seconds: float) -> dict[str, int]:
    """Return a duration in the form of the wire."""
    whole = int(seconds)
    return {"secs": whole, "nanos": int((seconds - whole) * 1_000_000_000)}


def _command(msg: ExecCommandBeginEvent | ExecCommandEndEvent, item_id: str) -> dict[str, Any]:
    process = {} if msg.process_id is None else {"process_id": msg.process_id}
    return {
        "type": "CommandExecution",
        "id": item_id,
        **process,
        "command": list(msg.command),
        "cwd": _url(msg.cwd),
        "parsed_cmd": [dict(part) for part in msg.parsed_cmd],
        "source": msg.source,
    }


def _patch(msg: PatchApplyBeginEvent | PatchApplyEndEvent, item_id: str) -> dict[str, Any]:
    changes = {path: to_wire(change) for path, change in msg.changes.items()}
    return {"type": "FileChange", "id": item_id, "changes": changes}


def _content(msg: UserMessageEvent) -> list[Mapping[str, Any]]:
    elements = [to_wire(element) for element in msg.text_elements or ()]
    texts = [{"type": "text", "text": msg.message, "text_elements": elements}] if msg.message else []
    images = [
        {"type": "image", "image_url": url, **_detail(msg.image_details, place)}
        for place, url in enumerate(msg.images or ())
    ]
    files = [
        {"type": "local_image", "path": path, **_detail(msg.local_image_details, place)}
        for place, path in enumerate(msg.local_images)
    ]
    return [*texts, *images, *files]


def _detail(details: tuple[str | None, ...] | None, place: int) -> dict[str, str]:
    detail = details[place] if details and place < len(details) else None
    return {} if detail is None else {"detail": detail}


@lru_cache(maxsize=64)
def _url(path: str) -> str:
    return Path(path).as_uri() if path.startswith("/") else path
