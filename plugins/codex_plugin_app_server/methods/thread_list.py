"""The list of stored threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from codex_framework.contract.roles.stores import ThreadQuery, ThreadSummary
from codex_plugin_app_server.errors import INVALID_PARAMS, RpcError
from codex_plugin_app_server.server import Call, Server, checked_id
from codex_plugin_app_server.table import Json, MethodTable
from codex_plugin_app_server.thread_json import summary_json

__all__ = ["page_by_time", "source_condition", "stored_threads", "table"]

table = MethodTable()

_ALL = 1 << 31
_PAGE = 25
_MOST = 100
"""The most threads of a page, and the most ids that a client can name."""

_INTERACTIVE = frozenset({"cli", "vscode"})

Condition = Callable[[ThreadSummary], bool]


@table.method("thread/list", "ThreadListParams", "ThreadListResponse", concurrent=True)
async def list_threads(call: Call) -> Json:
    """List stored threads, newest first. By default, only threads of users and of the configured provider are listed."""
    conditions = [*_conditions(call.params)]
    providers = call.params.get("modelProviders")
    if providers != []:
        wanted = set(providers or (call.server.kernel.settings().provider.id,))
        conditions.append(lambda each: each.model_provider in wanted)
    threads = await stored_threads(call.server, archived=bool(call.params.get("archived")))
    conditions += _relations(call.params, threads)
    found = [each for each in threads if all(accepts(each) for accepts in conditions)]
    page, cursors = page_by_time(found, call.params)
    data = [summary_json(each, call.server.threads.get(each.id)) for each in page]
    return {"data": await asyncio.to_thread(call.server.notes.add_to, data), "readStates": None, **cursors}


async def stored_threads(server: Server, *, archived: bool | None) -> Sequence[ThreadSummary]:
    """Return all stored threads. Raises RpcError and ThreadError."""
    query = ThreadQuery(limit=_ALL, archived=archived, subagents=True)
    return (await server.with_store(lambda store: store.find(query, server.home))).threads


# Which threads


def _conditions(params: Json) -> Iterator[Condition]:
    """Yield the conditions that a thread must meet. Raises RpcError."""
    if params.get("sourceKinds") or (params.get("parentThreadId") or params.get("ancestorThreadId")) is None:
        yield source_condition(params)
    if params.get("cwd") is not None:
        named = [params["cwd"]] if isinstance(params["cwd"], str) else params["cwd"]
        folders = {os.path.realpath(folder) for folder in named}
        yield lambda each: os.path.realpath(each.cwd) in folders
    if term := params.get("searchTerm"):
        yield lambda each: term in (each.name or "") or term in (each.preview or "")
    if params.get("includedThreadIds") is not None:
        included = _ids(params["includedThreadIds"], "included")
        yield lambda each: each.id in included
    excluded = _ids(params.get("excludedThreadIds") or (), "excluded")
    yield lambda each: each.id not in excluded
    if params.get("originators"):
        raise RpcError("originator filtering is not supported by the local app-server", INVALID_PARAMS)
    if params.get("projectId") is not None:
        raise RpcError(f"project not found: {params['projectId']}", INVALID_PARAMS)
    if params.get("sectionId") is not None or params.get("attachedToThreadId") is not None:
        yield lambda _: False  # there are neither sections nor attached threads


def source_condition(params: Json) -> Condition:
    """Return the condition that ``sourceKinds`` sets. By default, it is fulfilled by threads of people."""
    kinds = frozenset(params.get("sourceKinds") or _INTERACTIVE)
    return lambda each: not kinds.isdisjoint(_kinds(each))


def _relations(params: Json, threads: Sequence[ThreadSummary]) -> Iterator[Condition]:
    """Yield which thread a thread must come from. Raises RpcError."""
    parent, ancestor = params.get("parentThreadId"), params.get("ancestorThreadId")
    if parent is not None and ancestor is not None:
        raise RpcError("parentThreadId and ancestorThreadId are mutually exclusive")
    if params.get("attachedToThreadId") is not None and (parent or ancestor) is not None:
        raise RpcError("attachedToThreadId cannot be combined with parentThreadId or ancestorThreadId")
    if parent is not None:
        parent_id = _id(parent, "parent thread id")
        yield lambda each: each.parent_id == parent_id
    if ancestor is not None:
        parents = {each.id: each.parent_id for each in threads}
        ancestor_id = _id(ancestor, "ancestor thread id")
        yield lambda each: ancestor_id in _ancestors(each.id, parents)


def _ancestors(thread_id: str, parents: dict[str, str | None]) -> set[str]:
    found: set[str] = set()
    while (parent := parents.get(thread_id)) and parent not in found:
        found.add(parent)
        thread_id = parent
    return found


def _ids(given: Sequence[str], which: str) -> frozenset[str]:
    if len(given) > _MOST:
        raise RpcError(f"{which}ThreadIds accepts at most {_MOST} entries", INVALID_PARAMS)
    return frozenset(_id(each, f"{which} thread id", INVALID_PARAMS) for each in given)


def _id(text: str, what: str, code: int | None = None) -> str:
    try:
        return checked_id(text)
    except RpcError as error:
        problem = error.message.removeprefix("invalid thread id: ")
        raise RpcError(f"invalid {what}: {problem}", error.code if code is None else code) from None


def _kinds(summary: ThreadSummary) -> set[str]:
    """Return the ``ThreadSourceKind`` of a thread. A sub-agent has a second one for its purpose."""
    if summary.parent_id is None:
        word = {"mcp": "appServer"}.get(summary.source, summary.source)
        return {word if word in ("cli", "vscode", "exec", "appServer") else "unknown"}
    match summary.meta and summary.meta.extra.get("source_detail"):
        case {"subagent": "review"}:
            return {"subAgent", "subAgentReview"}
        case {"subagent": "compact"}:
            return {"subAgent", "subAgentCompact"}
        case {"subagent": {"thread_spawn": _}}:
            return {"subAgent", "subAgentThreadSpawn"}
        case _:
            return {"subAgent", "subAgentOther"}


# Pages


def page_by_time(
    threads: Sequence[ThreadSummary], params: Json
) -> tuple[Sequence[ThreadSummary], dict[str, str | None]]:
    """Return a page, and the cursors of its neighbours. Raises RpcError.

    A cursor is a time, after which a page begins in its direction, with an id if other threads have the same time.
    """
    descending = params.get("sortDirection") != "asc"
    key = _update_time if params.get("sortKey") in ("updated_at", "recency_at") else _creation_time
    ordered = sorted(threads, key=lambda each: (key(each), each.id), reverse=descending)
    if (cursor := params.get("cursor")) is not None:
        time, thread_id = _read_cursor(cursor)
        last = (time, thread_id or ("" if descending else "~"))
        ordered = [
            each for each in ordered if ((key(each), each.id) < last if descending else (key(each), each.id) > last)
        ]
    limit = params.get("limit")
    page = ordered[: min(max(_PAGE if limit is None else limit, 1), _MOST)]
    following = f"{_timestamp(key(page[-1]))}|{page[-1].id}" if len(page) < len(ordered) else None
    back = _timestamp(key(page[0]) + (-1 if descending else 1)) if page else None
    return page, {"nextCursor": following, "backwardsCursor": back}


def _creation_time(summary: ThreadSummary) -> int:
    return int(summary.created_at * 1000)


def _update_time(summary: ThreadSummary) -> int:
    return int(summary.updated_at * 1000)


def _timestamp(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


def _read_cursor(cursor: str) -> tuple[int, str]:
    """Return the time of a cursor in milliseconds, and its id or an empty text. Raises RpcError."""
    text, _, thread_id = cursor.partition("|")
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        raise RpcError(f"invalid cursor: {cursor}") from None
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000, thread_id
