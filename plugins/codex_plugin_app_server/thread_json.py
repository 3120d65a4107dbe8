"""Threads and their turns as the protocol shows them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework import EventMsg, StoredThread, ThreadMeta
from codex_framework.contract.protocol.event_items import Ended, WholeEvent, item_of
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    AgentReasoningEvent,
    AgentReasoningRawContentEvent,
    ContextCompactedEvent,
    ErrorEvent,
    ItemCompletedEvent,
    ToolCallEndEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
)
from codex_framework.contract.protocol.turn_items import tool_call_item
from codex_framework.contract.roles.stores import ThreadSummary
from codex_plugin_app_server.items import thread_item
from codex_plugin_app_server.notifications import error_json, turn_json
from codex_plugin_app_server.schema import MismatchError, protocol
from codex_plugin_app_server.settings_json import environments_json
from codex_plugin_app_server.threads import LoadedThread

__all__ = ["loaded_thread_json", "stored_thread_json", "summary_json", "turns_json"]


def loaded_thread_json(
    loaded: LoadedThread, *, name: str | None = None, preview: str = "", turns: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return a ``Thread`` that is loaded."""
    thread = loaded.thread
    settings = thread.settings
    return _thread_json(
        thread.meta,
        environments=environments_json(settings),
        cwd=str(settings.cwd),
        ephemeral=settings.ephemeral,
        model=settings.model,
        model_provider=settings.provider.id,
        effort=settings.reasoning_effort,
        status=loaded.status,
        path=thread.rollout_path,
        can_accept_input=True,
        name=name,
        preview=preview,
        turns=turns,
    )


def stored_thread_json(
    stored: StoredThread,
    *,
    status: Mapping[str, Any] | None = None,
    name: str | None = None,
    updated_at: float | None = None,
    turns: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return a ``Thread`` of its record."""
    context = stored.last_turn_context or {}
    preview = next((msg.message for msg in stored.events if msg.type == "user_message"), "")  # type: ignore[attr-defined]
    return _thread_json(
        stored.meta,
        model=context.get("model"),
        effort=context.get("effort"),
        cwd=str(context.get("cwd") or stored.meta.cwd),
        path=stored.path,
        updated_at=updated_at,
        status=status,
        name=name,
        preview=preview,
        turns=turns,
    )


def summary_json(summary: ThreadSummary, loaded: LoadedThread | None) -> dict[str, Any]:
    """Return a ``Thread`` of a list."""
    meta = summary.meta or ThreadMeta(
        id=summary.id,
        cwd=summary.cwd,
        created_at=summary.created_at,
        originator="",
        source=summary.source,
        cli_version="",
        model_provider=summary.model_provider,
        forked_from_id=summary.forked_from_id,
        extra={} if summary.parent_id is None else {"parent_thread_id": summary.parent_id},
    )
    shown = _thread_json(
        meta,
        path=summary.path,
        updated_at=summary.updated_at,
        status=None,
        name=summary.name,
        preview=summary.preview or "",
    )
    return shown if loaded is None else {**shown, **_live(loaded)}


def _live(loaded: LoadedThread) -> dict[str, Any]:
    """Return the fields of a ``Thread`` that only a loaded one has."""
    settings = loaded.thread.settings
    return {
        "environments": environments_json(settings),
        "cwd": str(settings.cwd),
        "model": settings.model,
        "reasoningEffort": settings.reasoning_effort,
        "status": loaded.status,
    }


def _thread_json(
    meta: ThreadMeta,
    *,
    status: Mapping[str, Any] | None,
    name: str | None,
    preview: str,
    path: str | None,
    environments: Sequence[Mapping[str, Any]] | None = None,
    cwd: str | None = None,
    ephemeral: bool = False,
    model: str | None = None,
    model_provider: str | None = None,
    effort: str | None = None,
    updated_at: float | None = None,
    can_accept_input: bool | None = None,
    turns: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    git = meta.git or {}
    changed = int(updated_at or meta.created_at)
    return {
        "id": meta.id,
        "environments": environments,
        "extra": None,
        "sessionId": str(meta.extra.get("session_id") or meta.id),
        "forkedFromId": meta.forked_from_id,
        "attachedToThreadId": None,
        "parentThreadId": meta.extra.get("parent_thread_id"),
        "preview": preview,
        "ephemeral": ephemeral,
        "section": None,
        "sectionEnteredAt": None,
        "projectId": None,
        "historyMode": "paginated" if meta.extra.get("history_mode") == "paginated" else "legacy",
        "modelProvider": model_provider or meta.model_provider,
        "model": model,
        "reasoningEffort": effort,
        "createdAt": int(meta.created_at),
        "updatedAt": changed,
        "recencyAt": changed,
        "status": status or {"type": "notLoaded"},
        "path": path,
        "cwd": cwd or meta.cwd,
        "cliVersion": meta.cli_version,
        "originator": meta.originator or None,
        "source": _source_json(meta),
        "canAcceptDirectInput": can_accept_input,
        "threadSource": meta.extra.get("thread_source"),
        "agentNickname": meta.extra.get("agent_nickname"),
        "agentRole": meta.extra.get("agent_role"),
        "gitInfo": {
            "sha": git.get("commit_hash"),
            "branch": git.get("branch"),
            "originUrl": git.get("repository_url"),
        }
        if git
        else None,
        "name": name,
        "daybreakEnabled": None,
        "turns": list(turns),
    }


def _source_json(meta: ThreadMeta) -> object:
    """Return a ``SessionSource``."""
    match meta.source, meta.extra.get("source_detail"):
        case ("cli" | "vscode" | "exec") as word, _:
            return word
        case "mcp", _:
            return "appServer"
        case _, {"subagent": detail}:
            source = {"subAgent": detail}
            try:
                protocol().check(source, "SessionSource")
            except MismatchError:
                return {"subAgent": {"other": "unknown"}}
            return source
        case "subagent", _:
            return {"subAgent": {"other": str(meta.extra.get("agent") or "agent")}}
        case word, _:
            return {"custom": word or "unknown"}


def turns_json(stored: StoredThread, running: str | None = None) -> list[dict[str, Any]]:
    """Return the turns of a record with their items, oldest first. ``running`` is the id of the turn that runs now, if any."""
    entries = list(zip(stored.events, stored.turn_items or itertools.repeat(None), strict=False))
    starts = [place for place, (msg, _) in enumerate(entries) if isinstance(msg, TurnStartedEvent)]
    starts = starts or [turn.first_event for turn in stored.turns]  # older versions recorded no starts of turns
    numbers = itertools.count(1)
    ends = [*starts[1:], len(entries)]
    return [
        _turn(f"turn-{number}", entries[start:end], numbers, running)
        for number, (start, end) in enumerate(zip(starts, ends, strict=False), 1)
    ]


_Entry = tuple[EventMsg, ItemCompletedEvent | None]


def _turn(turn_id: str, entries: Sequence[_Entry], numbers: Iterator[int], running: str | None) -> dict[str, Any]:
    """Return a turn. ``turn_id`` is its id if the record does not name it."""
    error: dict[str, Any] | None = None
    status, began, ended, duration = "interrupted", None, None, None
    for msg, _ in entries:
        match msg:
            case TurnStartedEvent():
                turn_id, began = msg.turn_id, msg.started_at
                status = "inProgress" if turn_id == running else status
            case ErrorEvent():
                error = error_json(msg.message, msg.codex_error_info)
            case TurnCompleteEvent() | TurnAbortedEvent():
                ended, duration = msg.completed_at, msg.duration_ms
                status = "interrupted" if isinstance(msg, TurnAbortedEvent) else "completed"
                if isinstance(msg, TurnCompleteEvent) and msg.error is not None:
                    error = error or error_json(str(msg.error.get("message", "")), msg.error.get("codex_error_info"))
            case _:
                pass
    if error is not None and status == "completed":
        status = "failed"
    return turn_json(
        turn_id,
        status,
        items=tuple(_items(entries, numbers)),
        view="full",
        error=error,
        started_at=began,
        completed_at=ended,
        duration_ms=duration,
    )


def _items(entries: Sequence[_Entry], numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
    """Yield the items of a turn, with the ids and times that clients have seen if the record has them."""
    last = None
    for msg, completed in entries:
        if completed is None:
            shown = [thread_item(item, None, None) for item in _older_items(msg, numbers)]
        elif completed is not last:  # several events can tell of one item
            started_at = completed.completed_at_ms if completed.started_at_ms is None else completed.started_at_ms
            shown = [thread_item(completed.item, started_at, completed.completed_at_ms)]
        else:
            shown = []
        last = completed
        yield from filter(None, shown)


def _older_items(msg: EventMsg, numbers: Iterator[int]) -> Iterator[Mapping[str, Any]]:
    """Yield the turn items for an event of a record without turn items."""
    match msg:
        case AgentMessageEvent():
            content = [{"type": "Text", "text": msg.message}]
            yield {"type": "AgentMessage", "id": f"item-{next(numbers)}", "content": content, "phase": msg.phase}
        case AgentReasoningEvent():
            yield {"type": "Reasoning", "id": f"item-{next(numbers)}", "summary_text": [msg.text]}
        case AgentReasoningRawContentEvent():
            yield {"type": "Reasoning", "id": f"item-{next(numbers)}", "raw_content": [msg.text]}
        case ContextCompactedEvent():
            yield {"type": "ContextCompaction", "id": f"item-{next(numbers)}"}
        case ToolCallEndEvent():
            yield tool_call_item(msg)
        case _ if isinstance(msg, Ended | WholeEvent):
            yield item_of(msg, getattr(msg, "call_id", None) or f"item-{next(numbers)}")
        case _:
            pass
