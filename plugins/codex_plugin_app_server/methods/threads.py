"""Threads: start, resume, read, list."""

from __future__ import annotations

from typing import Any

from codex_framework import StoredThread, ThreadError
from codex_framework.contract.roles.stores import ThreadPage, ThreadQuery, ThreadStore
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.server import Call, checked_id
from codex_plugin_app_server.settings import thread_config, thread_overrides
from codex_plugin_app_server.table import Json, MethodTable
from codex_plugin_app_server.thread_json import (
    loaded_thread_json,
    settings_json,
    stored_thread_json,
    summary_json,
    turns_json,
)
from codex_plugin_app_server.threads import LoadedThread

table = MethodTable()

_SOURCE = "vscode"
"""The source of all threads of an app server, as in Codex."""

_PAGE = 25
_TURNS_NOTICE = {
    "summary": "Full turn histories in thread responses are deprecated.",
    "details": "Page through a thread with thread/turns/list and thread/items/list.",
}


@table.method("thread/start", "ThreadStartParams", "ThreadStartResponse")
async def start_thread(call: Call) -> Json:
    """Start a thread, and follow it."""
    params = call.params
    extra = {"thread_source": params["threadSource"]} if params.get("threadSource") else {}
    if params.get("dynamicTools"):
        extra["dynamic_tools"] = params["dynamicTools"]
    thread = await call.server.kernel.start_thread(
        config=thread_config(params),
        source=_SOURCE,
        originator=call.client.name,
        base_instructions=params.get("baseInstructions"),
        extra=extra,
        **thread_overrides(params),
    )
    loaded = call.server.load(thread)
    loaded.subscribe(call)
    shown = loaded_thread_json(loaded)
    call.then(lambda: call.server.broadcast("thread/started", {"thread": shown}))
    return {"thread": shown, **settings_json(thread.settings)}


@table.method("thread/resume", "ThreadResumeParams", "ThreadResumeResponse")
async def resume_thread(call: Call) -> Json:
    """Load a stored thread, or join a loaded one, and follow it."""
    params = call.params
    thread_id = checked_id(params["threadId"])
    loaded = call.server.threads.get(thread_id)
    if loaded is None:
        loaded = await _load(call, thread_id)
    loaded.subscribe(call)
    turns: list[dict[str, Any]] = []
    stored = await _stored(call, thread_id, loaded)
    if not params.get("excludeTurns") and stored is not None:
        call.connection.notify("deprecationNotice", _TURNS_NOTICE)
        turns = turns_json(stored)
    preview = "" if stored is None else stored_thread_json(stored)["preview"]
    shown = loaded_thread_json(loaded, preview=preview, turns=turns)
    return {"thread": shown, **settings_json(loaded.thread.settings)}


async def _load(call: Call, thread_id: str) -> LoadedThread:
    try:
        thread = await call.server.kernel.resume_thread(
            thread_id,
            config=thread_config(call.params),
            originator=call.client.name,
            **thread_overrides(call.params),
        )
    except ThreadError as error:
        if error.slug == "no-thread":
            raise RpcError(f"no rollout found for thread id {thread_id}") from None
        raise
    return call.server.load(thread)


@table.method("thread/read", "ThreadReadParams", "ThreadReadResponse")
async def read_thread(call: Call) -> Json:
    """Show a thread without loading it."""
    thread_id = checked_id(call.params["threadId"])
    loaded = call.server.threads.get(thread_id)
    with_turns = bool(call.params.get("includeTurns", False))
    stored = await _stored(call, thread_id, loaded)
    if stored is None:
        if loaded is None:
            raise RpcError(f"thread not loaded: {thread_id}")
        if with_turns:
            raise RpcError(
                "ephemeral threads do not support includeTurns"
                if loaded.thread.rollout_path is None
                else f"thread {thread_id} is not materialized yet; includeTurns is unavailable before first user message"
            )
        return {"thread": loaded_thread_json(loaded)}
    if with_turns:
        call.connection.notify("deprecationNotice", _TURNS_NOTICE)
    summary = await _summary(call, thread_id)
    status = None if loaded is None else loaded.status
    name = None if summary is None else summary.get("name")
    return {"thread": stored_thread_json(stored, status=status, name=name, with_turns=with_turns)}


async def _stored(call: Call, thread_id: str, loaded: LoadedThread | None) -> StoredThread | None:
    """Return the record of a thread, or None if it has none. For a loaded thread it is written first."""
    if loaded is not None:
        if loaded.thread.rollout_path is None:
            return None
        loaded.thread.save()
    try:
        return await call.server.with_store(lambda store: store.load(thread_id, call.server.home))
    except ThreadError:
        return None


async def _summary(call: Call, thread_id: str) -> dict[str, Any] | None:
    """Return a thread as lists show it, which includes its name."""

    def find(store: ThreadStore) -> dict[str, Any] | None:
        cursor: str | None = None
        while True:
            page = store.find(ThreadQuery(limit=100, cursor=cursor, archived=None, subagents=True), call.server.home)
            for each in page.threads:
                if each.id == thread_id:
                    return {"name": each.name, "archived": each.archived}
            if page.cursor is None:
                return None
            cursor = page.cursor

    return await call.server.with_store(find)


@table.method("thread/list", "ThreadListParams", "ThreadListResponse")
async def list_threads(call: Call) -> Json:
    """List stored threads, most recently changed first."""
    params = call.params
    providers, sources = params.get("modelProviders"), params.get("sourceKinds")
    cwd = params.get("cwd")
    folders = None if cwd is None else {cwd} if isinstance(cwd, str) else set(cwd)
    query = ThreadQuery(
        limit=min(int(params.get("limit") or _PAGE), 100),
        cursor=params.get("cursor"),
        cwd=cwd if isinstance(cwd, str) else None,
        text=params.get("searchTerm"),
        archived=bool(params.get("archived") or False),
        subagents=bool(sources) and any(str(kind).startswith("subAgent") for kind in sources or ()),
    )
    page: ThreadPage = await call.server.with_store(lambda store: store.find(query, call.server.home))
    data = []
    for summary in page.threads:
        if providers and summary.model_provider not in providers:
            continue
        if folders is not None and summary.cwd not in folders:
            continue
        loaded = call.server.threads.get(summary.id)
        data.append(summary_json(summary, None if loaded is None else loaded.status))
    return {"data": data, "readStates": {}, "nextCursor": page.cursor, "backwardsCursor": None}
