"""A session as text to read, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from codex_framework import StoredThread
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    ContextCompactedEvent,
    ErrorEvent,
    EventMsg,
    ExecCommandEndEvent,
    PatchApplyEndEvent,
    ToolCallEndEvent,
    TurnAbortedEvent,
    UserMessageEvent,
)
from codex_framework.toolkit.terminal_text import printable

__all__ = ["markdown", "session_json", "session_lines"]


@attrs.frozen
class _Turn:
    """A turn with its number and its events. The number is None for what happened before the first turn."""

    number: int | None
    id: str | None
    events: Sequence[EventMsg]


def session_lines(stored: StoredThread) -> Iterator[str]:
    """Return the lines of a session, for a terminal."""
    yield f"Session {printable(stored.meta.id)}"
    for name, value in _facts(stored):
        yield f"{name}: {printable(value)}"
    for turn in _turns(stored):
        if turn.number is not None:
            yield f"\nTurn {turn.number}" + (f" ({printable(turn.id)})" if turn.id else "")
        for who, text in _messages(turn.events):
            first, *rest = text.splitlines() or [""]
            yield f"  {who}: {printable(first)}"
            yield from (f"  {' ' * len(who)}  {printable(line)}" for line in rest)


def markdown(stored: StoredThread) -> Iterator[str]:
    """Return the lines of a session as Markdown."""
    yield f"# Session {stored.meta.id}\n"
    for name, value in _facts(stored):
        yield f"- {name}: {value}"
    for turn in _turns(stored):
        if turn.number is not None:
            yield f"\n## Turn {turn.number}"
        for who, text in _messages(turn.events):
            quoted = "\n".join(f"> {line}" for line in text.splitlines()) if who == "user" else text
            yield f"\n**{who}**\n\n{quoted}"


def session_json(stored: StoredThread) -> dict[str, Any]:
    """Return a session as JSON data: its head, its turns with their events, and the history of the next prompt."""
    from codex_framework.contract.protocol.wire import to_wire

    meta = stored.meta
    return {
        "id": meta.id,
        "forked_from_id": meta.forked_from_id,
        "cwd": meta.cwd,
        "source": meta.source,
        "originator": meta.originator,
        "cli_version": meta.cli_version,
        "model_provider": meta.model_provider,
        "memory_mode": _memory_mode(stored),
        "path": stored.path,
        "settings": _plain(stored.last_turn_context),
        "turns": [
            {"number": turn.number, "id": turn.id, "events": [to_wire(event) for event in turn.events]}
            for turn in _turns(stored)
        ],
        "history": [to_wire(item) for item in stored.history],
        "warnings": list(stored.warnings),
    }


def _memory_mode(stored: StoredThread) -> str:
    """Return whether later sessions may learn from the session: ``enabled``, ``disabled`` or ``polluted``."""
    return str(stored.meta.extra.get("memory_mode") or "enabled")


def _plain(context: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if context is None else dict(context)


def _facts(stored: StoredThread) -> Iterator[tuple[str, str]]:
    meta, context = stored.meta, stored.last_turn_context or {}
    yield "folder", meta.cwd
    yield "started by", f"{meta.source} ({meta.originator} {meta.cli_version})"
    if context.get("model"):
        yield "model", f"{context['model']} of {meta.model_provider}"
    if meta.forked_from_id:
        yield "forked from", meta.forked_from_id
    if (mode := _memory_mode(stored)) != "enabled":
        yield "memory mode", mode
    if stored.path:
        yield "file", stored.path
    yield "items in the next prompt", str(len(stored.history))


def _turns(stored: StoredThread) -> Iterator[_Turn]:
    starts = [turn.first_event for turn in stored.turns]
    before = stored.events[: starts[0]] if starts else stored.events
    if before:
        yield _Turn(None, None, before)
    for number, (turn, end) in enumerate(zip(stored.turns, [*starts[1:], len(stored.events)], strict=False), 1):
        yield _Turn(number, turn.id, stored.events[turn.first_event : end])


def _messages(events: Sequence[EventMsg]) -> Iterator[tuple[str, str]]:
    for event in events:
        match event:
            case UserMessageEvent(message=text):
                yield "user", text
            case AgentMessageEvent(message=text):
                yield "agent", text
            case ExecCommandEndEvent(command=command, exit_code=status):
                yield "ran", f"{' '.join(command)} (exit status {status})"
            case PatchApplyEndEvent(changes=changes, success=success):
                yield "patched" if success else "failed to patch", ", ".join(changes)
            case ToolCallEndEvent(tool=tool, success=success):
                yield "called" if success else "failed to call", tool
            case ContextCompactedEvent():
                yield "compacted", "the conversation so far"
            case ErrorEvent(message=text):
                yield "error", text
            case TurnAbortedEvent(reason=reason):
                yield "ended", str(reason).replace("_", " ")
            case _:
                pass
