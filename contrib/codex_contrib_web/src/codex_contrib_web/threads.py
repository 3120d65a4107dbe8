"""The threads that run in this process: started, resumed on demand, and unloaded when they are no longer used."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from codex_contrib_web.errors import WebError
from codex_framework import (
    Agent,
    Closed,
    CodexError,
    Event,
    Kernel,
    Request,
    RequestResolvedEvent,
    StoredThread,
    Thread,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.stores import ThreadPage, ThreadQuery
from codex_framework.toolkit.answers import read_answer
from codex_framework.toolkit.event_log import EventLog

__all__ = ["LiveThread", "LiveThreads"]

_MOST_CLOSED = 1_000
"""The number of closed requests of a thread that are remembered, so that a late answer gets the right error."""

_MOST_LEFT = 100_000
"""Unloaded threads of which it is remembered how far their events went."""

_PAGES = 5
"""The maximum number of pages of stored threads that are searched for one user's threads in one request."""


class LiveThread:
    """A loaded thread and its events.

    Attributes:
        readers: Streams of its events.
        quiet_since: The time of its last use or activity, by the monotonic clock.
    """

    def __init__(self, thread: Thread, log_bytes: int) -> None:
        self.thread = thread
        self.readers = 0
        self.quiet_since = time.monotonic()
        self.log = EventLog(thread.events(), on_event=self._observe, most_bytes=log_bytes)
        self._closed: dict[str, str] = {}

    def touch(self) -> None:
        """Record that the thread is in use."""
        self.quiet_since = time.monotonic()

    def describe(self) -> dict[str, Any]:
        """Return what clients see of the thread."""
        requests = [{"request_id": each.request_id, "msg": to_wire(each)} for each in self.thread.open_requests]
        return {"id": self.thread.id, "status": self.thread.status, "cursor": self.log.newest, "requests": requests}

    def answer(self, request_id: str, raw: object) -> None:
        """Answer a request from JSON.

        Raises:
            ThreadError: The answer does not fit.
            WebError: No such request is open.
        """
        request = next((each for each in self.thread.open_requests if each.request_id == request_id), None)
        if request is not None and self.thread.answer(request_id, read_answer(request, raw)):
            self._close(request_id, Closed.ANSWERED)  # before the event about it comes
            return
        if request_id in self._closed:
            fact = f"the request {request_id!r} is closed already: {self._closed[request_id]}"
            raise WebError(fact, slug="already-answered", hint="The first answer counts. Follow `request_resolved`.")
        hint = "The open requests are the `requests` of the thread."
        raise WebError(f"no request {request_id!r} is open", slug="request-not-found", hint=hint)

    def decline_requests(self) -> None:
        """Give the open requests their unattended answers."""
        for request in self.thread.open_requests:
            self.thread.warn(f"no client came to answer {request.subject}. So the answer is no.", slug="nobody-answers")
            self.thread.decline(request.request_id)

    def _observe(self, event: Event) -> None:
        self.touch()
        match event.msg:
            case Request(request_id=request_id):
                self._closed.pop(request_id, None)
            case RequestResolvedEvent(request_id=request_id, how=how):
                self._close(request_id, how)
            case _:
                pass

    def _close(self, request_id: str, how: Closed) -> None:
        self._closed[request_id] = how.value
        if len(self._closed) > _MOST_CLOSED:
            del self._closed[next(iter(self._closed))]


class LiveThreads:
    """All loaded threads, by id. A thread belongs to the user who started it, and other users cannot see it.

    Args:
        options: Returns keyword arguments of ``Kernel.start_thread`` and ``Kernel.resume_thread`` for a user.
        idle_s: How long an idle thread without followers stays loaded.
        absence_s: How long a request waits while its thread has no followers.
        most: The maximum number of loaded threads.
        log_bytes: The bound of the log of a thread.
    """

    def __init__(
        self,
        kernel: Kernel,
        agent: Agent[Any] | None,
        options: Callable[[str], Mapping[str, Any]],
        *,
        idle_s: float,
        absence_s: float,
        most: int,
        log_bytes: int,
    ) -> None:
        self._kernel = kernel
        self._agent = agent
        self._options = options
        self._idle_s = idle_s
        self._absence_s = absence_s
        self._most = most
        self._log_bytes = log_bytes
        self._live: dict[str, LiveThread] = {}
        self._changing: dict[str, asyncio.Task[Any]] = {}  # threads that are being loaded or unloaded
        self._left: dict[str, str] = {}  # the newest cursors of unloaded threads

    async def start(self, owner: str) -> LiveThread:
        """Start a thread."""
        self._check_room()
        thread = await self._kernel.start_thread(
            agent=self._agent, **{**self._options(owner), "source": _source(owner)}
        )
        return self._add(thread)

    async def get(self, thread_id: str, owner: str) -> LiveThread:
        """Return a user's thread, which is resumed if it is not loaded.

        Raises:
            WebError: The user has no such thread.
            CodexError: It cannot be resumed.
        """
        thread_id = _checked_id(thread_id)
        while (change := self._changing.get(thread_id)) is not None:
            await asyncio.wait((change,))
        live = self._live.get(thread_id)
        if live is None or live.thread.status == "closed":
            live = await self._change(thread_id, self._resume(thread_id, owner))
        if live.thread.meta.source != _source(owner):
            raise _unknown(thread_id)
        live.touch()
        return live

    async def history(self, thread_id: str, owner: str) -> list[Any]:
        """Return the events of the record of a user's thread, without loading it. Raises the same errors as :meth:`get`."""
        thread_id = _checked_id(thread_id)
        live = self._live.get(thread_id)
        if live is not None and live.thread.meta.source == _source(owner):
            if live.thread.rollout_path is None:
                raise WebError(f"thread {thread_id} is not stored", slug="not-stored", hint="Follow its events.")
            if not live.thread.history.items:
                return []
            live.thread.save()
        stored = await self._load(thread_id, owner)
        return await asyncio.to_thread(lambda: [to_wire(msg) for msg in stored.events])

    async def find(self, owner: str, cursor: str | None, limit: int) -> dict[str, Any]:
        """Return a page of a user's stored threads, most recently changed first."""
        store, home = self._kernel.thread_store, str(self._kernel.config.codex_home)
        found: list[dict[str, Any]] = []
        for _ in range(_PAGES):
            query = ThreadQuery(limit=limit, cursor=cursor)
            page: ThreadPage = await asyncio.to_thread(store.find, query, home)
            found += [
                {
                    "id": each.id,
                    "name": each.name,
                    "preview": each.preview,
                    "created_at": each.created_at,
                    "updated_at": each.updated_at,
                    "status": self._live[each.id].thread.status if each.id in self._live else "not_loaded",
                }
                for each in page.threads
                if each.source == _source(owner)
            ]
            cursor = page.cursor
            if cursor is None or found:
                break
        return {"threads": found, "next": cursor}

    @contextlib.contextmanager
    def reader(self, live: LiveThread) -> Iterator[None]:
        """Count a reader of a thread's events while it reads."""
        live.readers += 1
        try:
            yield
        finally:
            live.readers -= 1
            live.touch()

    def was_newest(self, thread_id: str, cursor: str) -> bool:
        """Return whether a reader with this cursor had seen everything when the thread was unloaded."""
        return bool(cursor) and self._left.get(thread_id) == cursor

    async def keep_tidy(self) -> None:
        """Unload idle threads, and close unanswered requests, until cancelled."""
        pause = max(0.01, min(self._idle_s, self._absence_s, 40.0) / 4)
        while True:
            await asyncio.sleep(pause)
            parents = self._working_parents()
            for live in list(self._live.values()):
                self._tidy(live, works=live.thread.id in parents)

    def _working_parents(self) -> set[str]:
        """Return the threads of which a child works."""
        threads = self._kernel.threads
        found: set[str] = set()
        for thread in threads.values():
            above: Thread | None = thread if thread.running else None
            while above is not None and (parent := above.meta.extra.get("parent_thread_id")) and parent not in found:
                found.add(parent)
                above = threads.get(parent)
        return found

    def _tidy(self, live: LiveThread, *, works: bool) -> None:
        if live.thread.status == "closed":
            self._live.pop(live.thread.id, None)
            return
        quiet_s = 0.0 if live.readers else time.monotonic() - live.quiet_since
        if live.thread.open_requests:
            if quiet_s > self._absence_s:
                live.decline_requests()
        elif live.thread.status == "idle" and not works and quiet_s > self._idle_s:
            self._unload(live)

    def _unload(self, live: LiveThread) -> None:
        thread_id = live.thread.id
        self._left.pop(thread_id, None)
        self._left[thread_id] = live.log.newest
        if len(self._left) > _MOST_LEFT:
            del self._left[next(iter(self._left))]
        del self._live[thread_id]
        self._begin(thread_id, live.thread.shutdown())

    async def aclose(self) -> None:
        """Shut down all threads. Their readers get the last events."""
        await asyncio.gather(*(live.thread.shutdown() for live in list(self._live.values())), return_exceptions=True)
        await asyncio.gather(*self._changing.values(), return_exceptions=True)
        self._live.clear()

    async def _resume(self, thread_id: str, owner: str) -> LiveThread:
        await self._load(thread_id, owner)
        self._check_room()
        thread = await self._kernel.resume_thread(thread_id, agent=self._agent, **self._options(owner))
        return self._add(thread)

    async def _load(self, thread_id: str, owner: str) -> StoredThread:
        """Read a user's thread from the store. Raises WebError if the user has no such thread."""
        home = str(self._kernel.config.codex_home)
        try:
            stored = await asyncio.to_thread(self._kernel.thread_store.load, thread_id, home)
        except CodexError as error:
            raise (_unknown(thread_id) if error.slug == "thread-not-found" else error) from None
        if stored.meta.id != thread_id or stored.meta.source != _source(owner):
            raise _unknown(thread_id)
        return stored

    def _add(self, thread: Thread) -> LiveThread:
        live = self._live[thread.id] = LiveThread(thread, self._log_bytes)
        return live

    async def _change(self, thread_id: str, work: Any) -> Any:
        """Load a thread exclusively. Loading continues if the request that needs it ends."""
        return await asyncio.shield(self._begin(thread_id, work))

    def _begin(self, thread_id: str, work: Any) -> asyncio.Task[Any]:
        task = self._changing[thread_id] = asyncio.ensure_future(work)
        task.add_done_callback(lambda task: self._end_change(thread_id, task))
        return task

    def _end_change(self, thread_id: str, task: asyncio.Task[Any]) -> None:
        if self._changing.get(thread_id) is task:  # another change may have begun when this one ended
            del self._changing[thread_id]
        if not task.cancelled():
            task.exception()  # whoever asked may have left

    def _check_room(self) -> None:
        if len(self._live) < self._most:
            return
        idle = [each for each in self._live.values() if each.thread.status == "idle" and not each.readers]
        if not idle:
            fact = f"{self._most} threads are loaded, and all of them are in use"
            raise WebError(fact, slug="overloaded", hint="Try again later.")
        self._unload(min(idle, key=lambda each: each.quiet_since))


def _source(owner: str) -> str:
    """Return the source of the threads of a user, by which their records are told apart."""
    return f"web:{owner}" if owner else "web"


def _checked_id(thread_id: str) -> str:
    try:
        if str(UUID(thread_id)) == thread_id:
            return thread_id
    except ValueError:
        pass
    raise _unknown(thread_id)


def _unknown(thread_id: str) -> WebError:
    hint = "GET /threads lists your threads."
    return WebError(f"there is no thread {thread_id[:100]!r}", slug="thread-not-found", hint=hint)
