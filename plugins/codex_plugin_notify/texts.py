"""The texts of notifications: a line for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

from codex_framework import Notification

__all__ = ["body", "line", "payload", "payload_json", "title"]

_TITLES = {
    "agent-turn-complete": "Agent turn complete",
    "approval-requested": "Approval requested",
    "turn-failed": "Turn failed",
    "budget-reached": "Budget reached",
}

_LONGEST = 200
"""Longest text of a line, in characters."""

_CUT = "\N{HORIZONTAL ELLIPSIS}"


def title(notification: Notification) -> str:
    """Return the kind of a notification in words."""
    return _TITLES.get(notification.type, one_line(notification.type))


def body(notification: Notification) -> str:
    """Return the model's message, the question or the error, in one line, or an empty string."""
    said = notification.last_assistant_message if notification.type == "agent-turn-complete" else notification.text
    return one_line(said or "")


def line(notification: Notification) -> str:
    """Return one line for a place without a title (Codex's form): the model's message, or the kind and the subject."""
    said = body(notification)
    if notification.type == "agent-turn-complete":
        return said or title(notification)
    return f"{title(notification)}: {said}" if said else title(notification)


def one_line(text: str) -> str:
    """Return a text without control characters, line breaks and format characters, which could rule a terminal, and not too long."""
    shown = "".join(char if char.isprintable() else " " for char in text[: 20 * _LONGEST])
    words = " ".join(shown.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1].rstrip() + _CUT


def payload(notification: Notification, *, content: bool = True) -> dict[str, Any]:
    """Return a notification in Codex's form. Fields that Codex lacks follow at the end, for kinds that Codex lacks.

    Args:
        content: Whether prompts, messages, questions and errors are included.
    """
    fields: dict[str, Any] = {
        "type": notification.type,
        "thread-id": notification.thread_id,
        "turn-id": notification.turn_id,
        "cwd": notification.cwd,
    }
    if notification.client:
        fields["client"] = notification.client
    if content:
        fields["input-messages"] = list(notification.input_messages)
        fields["last-assistant-message"] = notification.last_assistant_message
        if notification.type != "agent-turn-complete":
            fields["message"] = notification.text
    return fields


def payload_json(notification: Notification, limit: int) -> bytes:
    """Return the payload as compact JSON of at most ``limit`` bytes. Longer texts are cut, the longest first."""
    fields = payload(notification)
    encoded = _encode_fields(fields)
    room = limit
    while len(encoded) > limit and room > 1:
        room //= 2
        fields = {name: _shorten_value(value, room) for name, value in payload(notification).items()}
        encoded = _encode_fields(fields)
    return encoded


def _encode_fields(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _shorten_value(value: Any, room: int) -> Any:
    if isinstance(value, list):
        each = max(room // max(len(value), 1), 1)
        return [_shorten_value(part, each) for part in value[:room]]
    if isinstance(value, str) and len(value) > room:
        return value[: room - 1] + _CUT
    return value
