"""The status of an agent (wire: ``AgentStatus``), derived from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from codex_framework import EventMsg
from codex_framework.contract.protocol.events import (
    ShutdownCompleteEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
)

__all__ = [
    "INTERRUPTED",
    "NOT_FOUND",
    "PENDING",
    "RUNNING",
    "SHUTDOWN",
    "Status",
    "is_final",
    "is_trouble",
    "status_after",
]

Status: TypeAlias = str | Mapping[str, Any]
"""``pending_init``, ``running``, ``interrupted``, ``shutdown``, ``not_found``, ``{"completed": text?}`` or ``{"errored": text}``."""

PENDING = "pending_init"
RUNNING = "running"
INTERRUPTED = "interrupted"
SHUTDOWN = "shutdown"
NOT_FOUND = "not_found"


def is_final(status: Status) -> bool:
    """Return whether an agent does nothing more without input.

    An interrupted agent still waits for its next input, as in Codex.
    """
    return status not in (PENDING, RUNNING, INTERRUPTED)


def is_trouble(status: Status) -> bool:
    """Return whether a call about an agent in this state counts as failed in the items for clients."""
    return status == NOT_FOUND or (isinstance(status, Mapping) and "errored" in status)


def status_after(msg: EventMsg) -> Status | None:
    """Return the status of an agent after an event, or None if the event does not change it."""
    match msg:
        case TurnStartedEvent():
            return RUNNING
        case TurnCompleteEvent(error=None, last_agent_message=text):
            return {"completed": text}
        case TurnCompleteEvent(error=error):
            message = error.get("message") if isinstance(error, Mapping) else None
            return {"errored": message if isinstance(message, str) else "the turn failed"}
        case TurnAbortedEvent(reason="budget_limited"):
            return {"errored": "a limit of the thread was reached"}
        case TurnAbortedEvent():
            return INTERRUPTED
        case ShutdownCompleteEvent():
            return SHUTDOWN
        case _:
            return None
