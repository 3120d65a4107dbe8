"""The text of a message, in Slack's notation."""

from __future__ import annotations

import os

from codex_framework import Notification

__all__ = ["escaped", "message"]

_TITLES = {
    "agent-turn-complete": ":white_check_mark: Turn complete",
    "approval-requested": ":raised_hand: Approval requested",
    "turn-failed": ":x: Turn failed",
    "budget-reached": ":hourglass: Budget reached",
}
_LONGEST = 1500
"""Longest quotation, in characters."""


def message(notification: Notification, *, mention: str, content: bool) -> str:
    """Return the text for a notification: kind and folder in the first line, then a quotation."""
    done = notification.type == "agent-turn-complete"
    title = _TITLES.get(notification.type, escaped(notification.type))
    folder = os.path.basename(notification.cwd.rstrip("/")) or "/"
    head = f"*{title}* in {escaped(folder)}"
    said = (notification.last_assistant_message if done else notification.text) or ""
    words = [mention, head] if mention and not done else [head]
    quoted = [f"> {line}" for line in escaped(_shorten(said.strip())).splitlines()] if content else []
    return "\n".join([" ".join(words), *quoted])


def escaped(text: str) -> str:
    """Return a text in which nothing is a mention or a link, and without control characters."""
    plain = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"
