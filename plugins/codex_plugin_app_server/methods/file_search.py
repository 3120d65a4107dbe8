"""Fuzzy search for files by their paths."""

from __future__ import annotations

import asyncio
import os

from codex_lib_file_search.search import FileSearch, FoundFile
from codex_plugin_app_server.connection import Connection
from codex_plugin_app_server.errors import INTERNAL_ERROR, OVERLOADED, RpcError
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_STEP_S = 0.1
"""How long a search may occupy a thread, and how often a client gets results of a running search."""

_MOST_SESSIONS = 32
"""Sessions of one client."""


@table.method("fuzzyFileSearch", "FuzzyFileSearchParams", "FuzzyFileSearchResponse", concurrent=True)
async def search(call: Call) -> Json:
    """Return the 50 files and folders whose paths match a query best, or none if a later request has the same `cancellationToken`."""
    params = call.params
    searching = FileSearch(params["roots"], os.environ)
    searching.start(params["query"])
    token = params.get("cancellationToken")
    mark = object()
    if token is not None:
        _tokens[call.connection, token] = mark
    try:
        while not (
            call.connection.left.is_set() or (token is not None and _tokens.get((call.connection, token)) is not mark)
        ):
            if not params["query"] or await asyncio.to_thread(searching.step, _STEP_S):
                return {"files": [_file_json(found) for found in searching.best()]}
        return {"files": []}
    finally:
        if token is not None and _tokens.get((call.connection, token)) is mark:
            del _tokens[call.connection, token]


_tokens: dict[tuple[Connection, str], object] = {}
"""The newest search with each token of a client."""


@table.method(
    "fuzzyFileSearch/sessionStart",
    "FuzzyFileSearchSessionStartParams",
    "FuzzyFileSearchSessionStartResponse",
    stability="experimental",
)
async def start_session(call: Call) -> Json:
    """Begin to search folders for queries that follow. A session of the same name is replaced."""
    roots, session_id = call.params["roots"], call.params["sessionId"]
    if not session_id:
        raise RpcError("sessionId must not be empty")
    if not roots:
        fact = "failed to start fuzzy file search session: at least one search directory is required"
        raise RpcError(fact, INTERNAL_ERROR)
    key = (call.connection, session_id)
    if key in _sessions:
        _sessions[key].stop()
    elif sum(connection is call.connection for connection, _ in _sessions) >= _MOST_SESSIONS:
        raise RpcError(f"failed to start fuzzy file search session: {_MOST_SESSIONS} are open", OVERLOADED)
    session = _sessions[key] = _Session(call)
    call.then(session.start)
    return {}


@table.method(
    "fuzzyFileSearch/sessionUpdate",
    "FuzzyFileSearchSessionUpdateParams",
    "FuzzyFileSearchSessionUpdateResponse",
    stability="experimental",
)
async def update_session(call: Call) -> Json:
    """Search for another query."""
    session = _sessions.get((call.connection, call.params["sessionId"]))
    if session is None:
        raise RpcError(f"fuzzy file search session not found: {call.params['sessionId']}")
    query = call.params["query"]
    call.then(lambda: session.update(query))
    return {}


@table.method(
    "fuzzyFileSearch/sessionStop",
    "FuzzyFileSearchSessionStopParams",
    "FuzzyFileSearchSessionStopResponse",
    stability="experimental",
)
async def stop_session(call: Call) -> Json:
    """End a session."""
    session = _sessions.get((call.connection, call.params["sessionId"]))
    if session is not None:
        session.stop()
    return {}


class _Session:
    """A search whose query changes while the user types."""

    def __init__(self, call: Call) -> None:
        self._connection = call.connection
        self._id: str = call.params["sessionId"]
        self._search = FileSearch(call.params["roots"], os.environ)
        self._query = ""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to search."""
        self._task = self._connection.run_beside(self._run())
        self._task.add_done_callback(lambda _: self._forget())

    def update(self, query: str) -> None:
        """Search for another query, from the next step on."""
        self._query = query
        self._changed.set()

    def stop(self) -> None:
        """Send no further notifications."""
        if self._task is not None:
            self._task.cancel()
        self._forget()

    def _forget(self) -> None:
        if _sessions.get((self._connection, self._id)) is self:
            del _sessions[self._connection, self._id]

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            query = self._query
            self._search.start(query)
            await self._search_for(query)
            await self._changed.wait()

    async def _search_for(self, query: str) -> None:
        """Search, and show matches when they change and at the end, unless there is another query by then."""
        shown: tuple[FoundFile, ...] | None = None
        done = False
        while not (done or self._changed.is_set()):
            done = await asyncio.to_thread(self._search.step, _STEP_S)
            await self._connection.room()
            found = self._search.best()
            if found != shown and not self._changed.is_set() and (found or done):
                shown = found
                files = [_file_json(each) for each in found]
                update = {"sessionId": self._id, "query": query, "files": files}
                self._connection.notify("fuzzyFileSearch/sessionUpdated", update)
        if done and not self._changed.is_set():
            self._connection.notify("fuzzyFileSearch/sessionCompleted", {"sessionId": self._id})


_sessions: dict[tuple[Connection, str], _Session] = {}
"""The sessions of all clients, by the client's name for each."""


def _file_json(found: FoundFile) -> Json:
    return {
        "root": found.root,
        "path": found.path,
        "match_type": "directory" if found.is_folder else "file",
        "file_name": found.path.rpartition("/")[2],
        "score": found.score,
        "indices": list(found.indices),
    }
