"""The events that are worth a line of progress, or of the client's log."""

from __future__ import annotations

import shlex

from codex_framework import EventMsg
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    ApprovalRequest,
    BackgroundEvent,
    ErrorEvent,
    ExecCommandBeginEvent,
    PatchApplyBeginEvent,
    ToolCallBeginEvent,
    ToolCallProgressEvent,
    TurnStartedEvent,
    WarningEvent,
)

__all__ = ["log_of", "progress_of"]

_LONGEST = 200


def progress_of(msg: EventMsg) -> tuple[str, float | None] | None:
    """Return a line, and the completed fraction if it is known, or None if the event is not worth a line."""
    match msg:
        case ToolCallProgressEvent(text=text, done=done):
            return text, done
        case TurnStartedEvent():
            line = "The turn has started"
        case ExecCommandBeginEvent(command=command):
            line = f"Running {shlex.join(command)}"
        case PatchApplyBeginEvent(changes=changes):
            line = f"Changing {', '.join(sorted(changes))}"
        case ToolCallBeginEvent(tool=tool):
            line = f"Calling {tool}"
        case ApprovalRequest():
            line = f"Waiting for an approval of {msg.subject}"
        case AgentMessageEvent(message=message):
            line = message
        case _:
            return None
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…", None


def log_of(msg: EventMsg) -> tuple[str, str] | None:
    """Return the level and the text of an event for the log, or None if it is not for the log."""
    match msg:
        case BackgroundEvent(message=text):
            return "info", text
        case WarningEvent(message=text):
            return "warning", text
        case ErrorEvent(message=text):
            return "error", text
        case _:
            return None
