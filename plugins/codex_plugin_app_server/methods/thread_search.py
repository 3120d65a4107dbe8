"""The search for text in stored threads, and in one thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from codex_framework.contract.roles.stores import ThreadQuery, ThreadSummary
from codex_plugin_app_server.connection import Connection
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.methods.thread_list import page_by_time, source_condition
from codex_plugin_app_server.methods.thread_records import load_stored
from codex_plugin_app_server.pages import page_of
from codex_plugin_app_server.server import Call, checked_id
from codex_plugin_app_server.table import Json, MethodTable
from codex_plugin_app_server.thread_json import summary_json, turns_json

__all__ = ["table"]

table = MethodTable()

_BATCH = 20
"""The most threads that a search finds before it tells the client of them."""

_LONGEST_TERM = 65_536
_BEFORE, _AFTER = 49, 96
"""How many characters around an occurrence are shown, as in Codex."""

_reading = ThreadPoolExecutor(1, "thread-search")
"""Reads whole files, one after another, so that searches leave the threads of other methods free."""

_searches: WeakKeyDictionary[Connection, dict[tuple[str, Any], asyncio.Task[Json]]] = WeakKeyDictionary()
"""The running searches of each client, by method and request."""


@table.method("thread/search", "ThreadSearchParams", "ThreadSearchResponse", stability="experimental", concurrent=True)
async def search_threads(call: Call) -> Json:
    """List the threads in whose messages a text occurs. Case does not matter."""
    return await _run(call, "thread/search", lambda _: None)


@table.method(
    "thread/search/stream", "ThreadSearchParams", "ThreadSearchResponse", stability="experimental", concurrent=True
)
async def stream_search(call: Call) -> Json:
    """Search as `thread/search`, and send results meanwhile by `thread/search/partial`."""
    if len(call.params["searchTerm"].strip().encode()) > _LONGEST_TERM:
        raise RpcError(f"thread/search/stream searchTerm must be at most {_LONGEST_TERM} bytes")

    def tell(found: Sequence[ThreadSummary]) -> None:
        data = [_result(call, each) for each in found]
        call.connection.notify("thread/search/partial", {"requestId": call.request_id, "data": data})

    return await _run(call, "thread/search/stream", tell)


@table.method(
    "thread/search/cancel",
    "ThreadSearchCancelParams",
    "ThreadSearchCancelResponse",
    stability="experimental",
    concurrent=True,
)
async def cancel_search(call: Call) -> Json:
    """Cancel a `thread/search` of the same client, which then answers with an error."""
    return _cancel(call, "thread/search")


@table.method(
    "thread/search/stream/cancel",
    "ThreadSearchCancelParams",
    "ThreadSearchCancelResponse",
    stability="experimental",
    concurrent=True,
)
async def cancel_stream(call: Call) -> Json:
    """Cancel a `thread/search/stream` of the same client, which then answers with an error."""
    return _cancel(call, "thread/search/stream")


def _cancel(call: Call, method: str) -> Json:
    search = _searches.get(call.connection, {}).get((method, call.params["requestId"]))
    if search is not None:
        search.cancel()
    return {}


async def _run(call: Call, method: str, tell: Callable[[Sequence[ThreadSummary]], None]) -> Json:
    """Search, and return the response. Raises RpcError, also if the search is cancelled."""
    search = asyncio.ensure_future(_search(call, method, tell))
    own = _searches.setdefault(call.connection, {})
    own[method, call.request_id] = search
    try:
        await asyncio.wait((search,))
    finally:
        search.cancel()
        del own[method, call.request_id]
    if search.cancelled():
        raise RpcError(f"{method} was cancelled")
    return search.result()


async def _search(call: Call, method: str, tell: Callable[[Sequence[ThreadSummary]], None]) -> Json:
    params, server, store = call.params, call.server, call.server.kernel.thread_store
    term = _term(params, method)
    accepts = source_condition(params)
    found: list[ThreadSummary] = []
    query = ThreadQuery(limit=_BATCH, text=term, archived=bool(params.get("archived")), subagents=True)
    while True:
        page = await asyncio.get_running_loop().run_in_executor(_reading, store.find, query, server.home)
        batch = [each for each in page.threads if accepts(each)]
        found += batch
        if batch:
            tell(batch)
        if page.cursor is None:
            break
        query = query.evolve(cursor=page.cursor)
    shown, cursors = page_by_time(found, params)
    return {"data": [_result(call, each) for each in shown], **cursors}


def _result(call: Call, summary: ThreadSummary) -> Json:
    thread = summary_json(summary, call.server.threads.get(summary.id))
    return {"thread": thread, "snippet": summary.match or ""}


def _term(params: Json, method: str) -> str:
    term: str = params["searchTerm"].strip()
    if not term:
        raise RpcError(f"{method} requires a non-empty searchTerm")
    return term


@table.method(
    "thread/searchOccurrences",
    "ThreadSearchOccurrencesParams",
    "ThreadSearchOccurrencesResponse",
    stability="experimental",
)
async def search_occurrences(call: Call) -> Json:
    """List the places of a text in the messages of a thread, the oldest first. Case does not matter."""
    wanted = re.compile(re.escape(_term(call.params, "thread/searchOccurrences")), re.IGNORECASE)
    stored = await load_stored(call, checked_id(call.params["threadId"]))
    found = await asyncio.to_thread(lambda: [*_occurrences(turns_json(stored), wanted)])
    page, cursor = page_of(found, call.params)
    return {"data": page, "nextCursor": cursor}


def _occurrences(turns: Sequence[Json], wanted: re.Pattern[str]) -> Iterator[Json]:
    for place, turn in enumerate(turns):
        for item in turn["items"]:
            text = _text(item)
            for match in wanted.finditer(text):
                start, end = max(match.start() - _BEFORE, 0), match.end() + _AFTER
                prefix = "... " if start else ""
                snippet = f"{prefix}{text[start:end]}{' ...' if end < len(text) else ''}"
                first = len(prefix) + _utf16_length(text[start : match.start()])
                yield {
                    "turnId": turn["id"],
                    "itemId": item["id"],
                    "snippet": snippet,
                    "snippetMatchRange": {"start": first, "end": first + _utf16_length(match.group())},
                    "turnCursor": str(place),
                }


def _text(item: Json) -> str:
    """Return the text of a message. It is empty for other items."""
    if item["type"] == "userMessage":
        return "\n".join(part["text"] for part in item["content"] if part["type"] == "text")
    return str(item["text"]) if item["type"] == "agentMessage" else ""


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
