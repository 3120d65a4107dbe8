"""Stored threads: their names, the archive, and dropped turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from codex_framework import StoredThread, ThreadStore
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.pages import newest_cursors
from codex_plugin_app_server.server import Call, checked_id
from codex_plugin_app_server.table import Json, MethodTable
from codex_plugin_app_server.thread_json import loaded_thread_json, stored_thread_json, turns_json

table = MethodTable()


@table.method("thread/name/set", "ThreadSetNameParams", "ThreadSetNameResponse")
async def set_name(call: Call) -> Json:
    """Name a thread."""
    thread_id, name = checked_id(call.params["threadId"]), call.params["name"].strip()
    if not name:
        raise RpcError("thread name must not be empty")
    await _change(call, thread_id, lambda store, home: store.rename(thread_id, name, home))
    call.then(lambda: call.server.broadcast("thread/name/updated", {"threadId": thread_id, "threadName": name}))
    return {}


@table.method("thread/archive", "ThreadArchiveParams", "ThreadArchiveResponse")
async def archive_thread(call: Call) -> Json:
    """Move a thread to the archive. A loaded one is shut down first."""
    return await _remove(call, lambda store, thread_id, home: store.archive(thread_id, home), "thread/archived")


@table.method("thread/unarchive", "ThreadUnarchiveParams", "ThreadUnarchiveResponse")
async def unarchive_thread(call: Call) -> Json:
    """Move a thread back from the archive."""
    thread_id = checked_id(call.params["threadId"])
    await _change(call, thread_id, lambda store, home: store.unarchive(thread_id, home))
    stored = await load_stored(call, thread_id)
    call.then(lambda: call.server.broadcast("thread/unarchived", {"threadId": thread_id}))
    return {"thread": stored_thread_json(stored)}


@table.method("thread/delete", "ThreadDeleteParams", "ThreadDeleteResponse")
async def delete_thread(call: Call) -> Json:
    """Delete a thread for ever. A loaded one is shut down first."""
    removed = await _remove(call, lambda store, thread_id, home: store.delete(thread_id, home), "thread/deleted")
    await asyncio.to_thread(call.server.notes.forget, checked_id(call.params["threadId"]))
    return removed


@table.method("thread/revert", "ThreadRevertParams", "ThreadRevertResponse")
async def revert_thread(call: Call) -> Json:
    """Drop a turn and all later ones from the conversation. Files are not changed."""
    loaded = call.server.thread(call.params["threadId"])
    if loaded.thread.running:
        raise RpcError("cannot revert while a turn is in progress")
    stored = await load_stored(call, loaded.id)
    ids = [turn.id for turn in stored.turns]
    before = call.params["beforeTurnId"]
    if before not in ids:
        raise RpcError(f"turn not found: {before}")
    op = call.server.kernel.op("thread_rollback", num_turns=len(ids) - ids.index(before))
    await loaded.run_op(call, op)
    left = await load_stored(call, loaded.id)
    call.then(lambda: loaded.notify("thread/reverted", {"threadId": loaded.id}))
    thread = loaded_thread_json(loaded, preview=stored_thread_json(left)["preview"])
    return {"thread": thread, **newest_cursors(turns_json(left))}


async def load_stored(call: Call, thread_id: str) -> StoredThread:
    """Return the record of a thread. For a loaded thread it is written first. Raises RpcError and ThreadError."""
    loaded = call.server.threads.get(thread_id)
    if loaded is not None:
        if loaded.thread.rollout_path is None:
            raise RpcError(f"thread {thread_id} is ephemeral and has no record")
        loaded.thread.save()
    return await call.server.with_store(lambda store: store.load(thread_id, call.server.home))


async def _change(call: Call, thread_id: str, change: Callable[[ThreadStore, str], None]) -> None:
    loaded = call.server.threads.get(thread_id)
    if loaded is not None:
        loaded.thread.save()
    await call.server.with_store(lambda store: change(store, call.server.home))


async def _remove(call: Call, remove: Callable[[ThreadStore, str, str], None], announcement: str) -> Json:
    """Shut a thread down if it is loaded, remove its record from the list, and tell all clients."""
    thread_id = checked_id(call.params["threadId"])
    loaded = call.server.threads.get(thread_id)
    if loaded is not None:
        await call.server.unload(loaded)
    await call.server.with_store(lambda store: remove(store, thread_id, call.server.home))
    call.then(lambda: call.server.broadcast(announcement, {"threadId": thread_id}))
    return {}
