"""The events for clients: a hook has started, and a hook has ended with its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import EventMsg, Value

__all__ = [
    "HookCompletedEvent",
    "HookEntry",
    "HookProblem",
    "HookRun",
    "HookStartedEvent",
    "ListHooksResponseEvent",
    "Status",
]

Status = Literal["running", "completed", "failed", "blocked", "stopped"]


class HookEntry(Value):
    """A line about a run, for clients.

    Attributes:
        kind: ``warning`` (a message for the user), ``stop``, ``feedback``, ``context`` or ``error``.
    """

    kind: str
    text: str


class HookRun(Value, kw_only=True):
    """One run of a hook.

    Attributes:
        id: The same in both events.
        event_name: The event as ``pre_tool_use``.
        handler_type: Always ``command``.
        execution_mode: ``sync`` or ``async``.
        scope: ``thread`` for the start of a session or of a child, else ``turn``.
        source_path: The file that defines the hook.
        source: ``system``, ``user``, ``project`` or ``session_flags``.
        display_order: The position among all hooks.
        status_message: The definition's text to show while it runs.
        started_at: Unix time in seconds.
        completed_at: Unix time in seconds. None while it runs.
        duration_ms: None while it runs.
    """

    id: str
    event_name: str
    handler_type: str = "command"
    execution_mode: str = "sync"
    scope: str = "turn"
    source_path: str
    source: str
    display_order: int
    status: Status = "running"
    status_message: str | None = None
    started_at: int
    completed_at: int | None = None
    duration_ms: int | None = None
    entries: tuple[HookEntry, ...] = ()


class HookStartedEvent(EventMsg):
    """A hook has started."""

    type: ClassVar[Literal["hook_started"]] = "hook_started"
    turn_id: str | None
    run: HookRun


class HookCompletedEvent(EventMsg):
    """A hook has ended."""

    type: ClassVar[Literal["hook_completed"]] = "hook_completed"
    turn_id: str | None
    run: HookRun


class HookProblem(Value):
    """Why a hook, or a file with hooks, cannot be used."""

    path: str
    message: str


class ListHooksResponseEvent(EventMsg, kw_only=True):
    """The answer to the op ``list_hooks``.

    Attributes:
        hooks: Each hook in the words of Codex's app server, and what of its script is protected.
        warnings: Sentences for the user.
    """

    type: ClassVar[Literal["list_hooks_response"]] = "list_hooks_response"
    hooks: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[HookProblem, ...] = ()
