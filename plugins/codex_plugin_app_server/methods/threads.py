"""Threads: start, resume, fork, read, and what clients note about them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codex_framework import Kernel, StoredThread, ThreadError
from codex_framework.contract.protocol.events import TokenCountEvent
from codex_framework.contract.roles.stores import ThreadSummary
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.methods.thread_items import turns_page
from codex_plugin_app_server.methods.thread_list import stored_threads
from codex_plugin_app_server.methods.thread_records import load_stored
from codex_plugin_app_server.notifications import token_usage_json
from codex_plugin_app_server.pages import newest_cursors
from codex_plugin_app_server.server import Call, checked_id
from codex_plugin_app_server.settings import thread_config, thread_overrides
from codex_plugin_app_server.settings_json import settings_json, thread_settings_json
from codex_plugin_app_server.table import Json, MethodTable
from codex_plugin_app_server.thread_json import loaded_thread_json, stored_thread_json, turns_json
from codex_plugin_app_server.threads import LoadedThread

table = MethodTable()

_SOURCE = "vscode"
"""The source of all threads of an app server, as in Codex."""

_TURNS_NOTICE = {
    "summary": "Full-history hydration is deprecated; leave the turns out, then page with `thread/turns/list` and "
    "`thread/items/list`.",
    "details": None,
}


@table.method("thread/start", "ThreadStartParams", "ThreadStartResponse")
async def start_thread(call: Call) -> Json:
    """Start a thread, and follow it."""
    params = call.params
    extra = {"history_mode": params.get("historyMode") or "paginated"}
    if params.get("threadSource"):
        extra["thread_source"] = params["threadSource"]
    if params.get("dynamicTools"):
        extra["dynamic_tools"] = params["dynamicTools"]
    overrides = thread_overrides(params)
    async with call.server.kernels.at(overrides.get("cwd")) as kernel:
        thread = await kernel.start_thread(
            config=thread_config(params) or None,
            source=_SOURCE,
            originator=call.client.name,
            base_instructions=params.get("baseInstructions"),
            extra=extra,
            **overrides,
        )
        loaded = call.server.load(thread, _unload_delay(call, kernel))
        loaded.subscribe(call)
    shown = loaded_thread_json(loaded)
    call.then(lambda: call.server.broadcast("thread/started", {"thread": shown}))
    return {"thread": shown, **settings_json(thread.settings)}


@table.method("thread/resume", "ThreadResumeParams", "ThreadResumeResponse")
async def resume_thread(call: Call) -> Json:
    """Load a stored thread, or join a loaded one, and follow it."""
    params = call.params
    thread_id = checked_id(params["threadId"])
    async with call.server.lock(thread_id):
        loaded = call.server.threads.get(thread_id)
        if loaded is None:
            before = await load_stored(call, thread_id)
            folder = _folder_of(call, before)
            async with call.server.kernels.at(folder) as kernel:
                loaded = await _load(call, kernel, thread_id, cwd=folder, **_last_model(call, kernel, before))
            loaded.show_status()
        loaded.subscribe(call)
    stored = await _find_record(call, thread_id, loaded)
    turns = [] if stored is None else await asyncio.to_thread(turns_json, stored, loaded.thread.turn_id)
    page = call.params.get("initialTurnsPage")
    if stored is not None:
        call.then(lambda: _show_usage(call, stored))
    shows = not params.get("excludeTurns") and stored is not None
    if shows:
        call.connection.notify("deprecationNotice", _TURNS_NOTICE)
    preview = "" if stored is None else stored_thread_json(stored)["preview"]
    shown = loaded_thread_json(loaded, name=await _name(call, thread_id), preview=preview, turns=turns if shows else ())
    settings = loaded.thread.settings
    mode = thread_settings_json(settings)["collaborationMode"]
    return {
        "thread": await _with_notes(call, shown),
        **settings_json(settings),
        "collaborationMode": mode,
        "initialTurnsPage": None if page is None else turns_page(turns, page),
        **newest_cursors(turns),
    }


def _show_usage(call: Call, stored: StoredThread) -> None:
    """Tell a client that has resumed a thread how many tokens the thread has used."""
    for msg in reversed(stored.events):
        if isinstance(msg, TokenCountEvent) and msg.info is not None and stored.turns:
            usage = {"turnId": stored.turns[-1].id or "", "tokenUsage": token_usage_json(msg.info)}
            call.connection.notify("thread/tokenUsage/updated", {"threadId": stored.meta.id, **usage})
            return


def _folder_of(call: Call, stored: StoredThread) -> Path:
    """Return the folder of a thread that is loaded: the folder that the client names, else the folder of the last turn.

    Raises RpcError.
    """
    named: Path | None = thread_overrides(call.params).get("cwd")
    return named or Path((stored.last_turn_context or {}).get("cwd") or stored.meta.cwd)


async def _load(call: Call, kernel: Kernel, thread_id: str, **overrides: Any) -> LoadedThread:
    thread = await kernel.resume_thread(
        thread_id,
        config=thread_config(call.params) or None,
        originator=call.client.name,
        **{**overrides, **thread_overrides(call.params)},
    )
    return call.server.load(thread, _unload_delay(call, kernel))


def _unload_delay(call: Call, kernel: Kernel) -> float | None:
    key = "thread_unload_delay_secs"
    delay: float | None = thread_config(call.params).get(key, kernel.config.get(key))
    return delay


def _last_model(call: Call, kernel: Kernel, stored: StoredThread) -> dict[str, Any]:
    """Return the model and effort of a thread's last turn, unless the client names others or the provider is another."""
    before = stored.last_turn_context or {}
    named = _MODEL_KEYS & thread_config(call.params).keys()
    if named or not before.get("model") or kernel.settings().provider.id != stored.meta.model_provider:
        return {}
    return {"model": before["model"], "reasoning_effort": before.get("effort")}


_MODEL_KEYS = {"model", "model_provider", "model_reasoning_effort"}


@table.method("thread/fork", "ThreadForkParams", "ThreadForkResponse")
async def fork_thread(call: Call) -> Json:
    """Start a thread that begins as another one, and follow it."""
    params = call.params
    source_id = checked_id(params["threadId"])
    source = await load_stored(call, source_id)
    folder = _folder_of(call, source)
    async with call.server.kernels.at(folder) as kernel:
        new_id = await asyncio.to_thread(kernel.fork_thread, source_id, at=_last_turn(source, params))
        loaded = await _load(call, kernel, new_id, cwd=folder)
    loaded.subscribe(call)
    stored = await load_stored(call, new_id)
    turns: list[dict[str, Any]] = []
    if not params.get("excludeTurns"):
        call.connection.notify("deprecationNotice", _TURNS_NOTICE)
        turns = turns_json(stored)
    preview = stored_thread_json(stored)["preview"]
    shown = loaded_thread_json(loaded, preview=preview, turns=turns)
    call.then(lambda: call.server.broadcast("thread/started", {"thread": {**shown, "turns": []}}))
    return {"thread": shown, **settings_json(loaded.thread.settings)}


def _last_turn(source: StoredThread, params: Json) -> int | str | None:
    """Return the last turn that a fork keeps. None keeps all of them. Raises RpcError."""
    if params.get("lastTurnId") is not None:
        return str(params["lastTurnId"])
    before = params.get("beforeTurnId")
    if before is None:
        return None
    ids = [turn.id for turn in source.turns]
    if before not in ids[1:]:
        raise RpcError(f"turn not found, or nothing comes before it: {before}")
    return ids.index(before)


@table.method("thread/loaded/list", "ThreadLoadedListParams", "ThreadLoadedListResponse")
async def list_loaded_threads(call: Call) -> Json:
    """List the ids of the threads that are loaded."""
    ids, limit = sorted(call.server.threads), call.params.get("limit")
    if call.params.get("cursor") is not None:
        after = _cursor_id(call.params["cursor"])
        ids = [thread_id for thread_id in ids if thread_id > after]
    page = ids if limit is None else ids[: max(limit, 1)]
    return {"data": page, "nextCursor": page[-1] if len(page) < len(ids) else None}


def _cursor_id(cursor: str) -> str:
    try:
        return checked_id(cursor)
    except RpcError:
        raise RpcError(f"invalid cursor: {cursor}") from None


@table.method("thread/unsubscribe", "ThreadUnsubscribeParams", "ThreadUnsubscribeResponse")
async def unsubscribe_from_thread(call: Call) -> Json:
    """Stop following a thread. It is unloaded after a time without followers."""
    loaded = call.server.threads.get(checked_id(call.params["threadId"]))
    if loaded is None:
        return {"status": "notLoaded"}
    return {"status": "unsubscribed" if loaded.leave(call.connection) else "notSubscribed"}


@table.method("thread/read", "ThreadReadParams", "ThreadReadResponse")
async def read_thread(call: Call) -> Json:
    """Show a thread without loading it."""
    return {"thread": await _named_thread(call, with_turns=bool(call.params.get("includeTurns", False)))}


async def _named_thread(call: Call, *, with_turns: bool = False) -> Json:
    """Return the thread that a client names. Raises RpcError."""
    thread_id = checked_id(call.params["threadId"])
    loaded = call.server.threads.get(thread_id)
    stored = await _find_record(call, thread_id, loaded)
    if stored is None:
        if loaded is None:
            raise RpcError(f"thread not loaded: {thread_id}")
        if with_turns:
            raise RpcError(
                "ephemeral threads do not support includeTurns"
                if loaded.thread.rollout_path is None
                else f"thread {thread_id} is not materialized yet; includeTurns is unavailable before first user message"
            )
        return await _with_notes(call, loaded_thread_json(loaded))
    turns: Sequence[Json] = ()
    if with_turns:
        call.connection.notify("deprecationNotice", _TURNS_NOTICE)
        turns = await asyncio.to_thread(turns_json, stored, call.server.running_turn(thread_id))
    summary = await _summary(call, thread_id)
    status = None if loaded is None else loaded.status
    name, updated = (None, None) if summary is None else (summary.name, summary.updated_at)
    return await _with_notes(
        call, stored_thread_json(stored, status=status, name=name, updated_at=updated, turns=turns)
    )


async def _with_notes(call: Call, thread: Json) -> Json:
    """Return a thread with what clients have noted about it."""
    (noted,) = await asyncio.to_thread(call.server.notes.add_to, [thread])
    return noted


@table.method("thread/metadata/update", "ThreadMetadataUpdateParams", "ThreadMetadataUpdateResponse")
async def update_metadata(call: Call) -> Json:
    """Note git information about a thread. The record does not change."""
    params = call.params
    git, daybreak, project = (params.get(name) for name in ("gitInfo", "daybreakEnabled", "projectId"))
    if git is daybreak is project is None:
        raise RpcError("thread metadata update must include at least one field")
    if project:
        raise RpcError(f"project not found: {project}")
    changes = _git_changes(git)
    thread_id = checked_id(params["threadId"])
    loaded = call.server.threads.get(thread_id)
    if loaded is None:
        await load_stored(call, thread_id)
    elif loaded.thread.rollout_path is None:
        raise RpcError(f"ephemeral thread does not support metadata updates: {thread_id}")

    def change(note: Json) -> Json:
        kept = note.get("daybreakEnabled") if daybreak is None else daybreak
        return {"gitInfo": {**note.get("gitInfo", {}), **changes}, "daybreakEnabled": kept}

    await asyncio.to_thread(call.server.notes.change, thread_id, change)
    return {"thread": await _named_thread(call)}


def _git_changes(given: Json | None) -> dict[str, str | None]:
    """Return the changed fields of git information. None removes a field. Raises RpcError."""
    if given is None:
        return {}
    changes = {name: given[name] and given[name].strip() for name in ("sha", "branch", "originUrl") if name in given}
    if not changes:
        raise RpcError("gitInfo must include at least one field")
    for name, value in changes.items():
        if value == "":
            raise RpcError(f"gitInfo.{name} must not be empty")
    return changes


async def _find_record(call: Call, thread_id: str, loaded: LoadedThread | None) -> StoredThread | None:
    """Return the record of a thread, if any."""
    if loaded is not None and loaded.thread.rollout_path is None:
        return None
    try:
        return await load_stored(call, thread_id)
    except ThreadError:
        return None


async def _name(call: Call, thread_id: str) -> str | None:
    summary = await _summary(call, thread_id)
    return None if summary is None else summary.name


async def _summary(call: Call, thread_id: str) -> ThreadSummary | None:
    """Return a thread as lists show it, which includes its name."""
    summaries = await stored_threads(call.server, archived=None)
    return next((each for each in summaries if each.id == thread_id), None)
