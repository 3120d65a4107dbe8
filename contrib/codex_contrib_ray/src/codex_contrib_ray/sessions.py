"""A worker: a Ray actor that runs sessions on one kernel. Whatever it is sent and returns is JSON text."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import CodexError, described
from codex_framework.contract.protocol.events import Event, Request, RequestResolvedEvent
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.launchers import Job, JobResult, LaunchError, Workplace
from codex_lib_launch.encoding import decode, digest_of, encode, event_to_json, failure_of, versions
from codex_lib_launch.worker import Session, Worker, create_kernel, worker_name

if TYPE_CHECKING:
    from codex_framework import Kernel

__all__ = ["Sessions"]

_MOST_UNREAD = 10_000
"""Events that wait for a listener. If it is further behind, it loses the oldest ones."""

_WATCH_S = 1.0

_STOP_S = 3.0
"""How long a program that leaves waits for the end of its sessions' turns."""


class Sessions:
    """Runs sessions. It belongs to no program: when the program ends, the sessions go on, and another program finds them.

    Args:
        workplace: The :class:`Workplace` as JSON.
        idle_s: The worker ends after this many seconds without a session and without a call.
    """

    def __init__(self, workplace: str, idle_s: float) -> None:
        self._workplace = workplace
        self._kernel: asyncio.Task[Kernel] | None = None
        self._runs: dict[str, _Run] = {}
        self._listeners: dict[str, _Listener] = {}
        self._used = time.monotonic()
        threading.Thread(target=self._end_when_idle, args=[idle_s], daemon=True).start()

    async def describe(self) -> str:
        """Return the worker's name, its version and the keys of its sessions."""
        self._used = time.monotonic()
        return json.dumps(
            {
                "name": worker_name(),
                "versions": versions(),
                "keys": [*self._runs],
            }
        )

    async def open(self) -> str:
        """Create the kernel. Return the failure, if there is one."""
        try:
            await self._open_kernel()
        except CodexError as error:
            return _failure_text(error)
        return "{}"

    async def run(self, job: str, listener: str) -> str:
        """Run a job, or wait for its end if it runs already. Return its result.

        Args:
            listener: The id of a listener that hears the session from its start. Empty if nobody listens.
        """
        wanted = decode(Job, job)
        run = self._runs.get(wanted.key)
        if run is None:
            run = self._runs[wanted.key] = _Run(wanted)
            self._listen(run, listener)
            run.task = asyncio.create_task(self._run(run))
        elif digest_of(run.session.job) != digest_of(wanted):
            fact = f"the key {wanted.key!r} was used for another job"
            reused = LaunchError(fact, slug="key-reused", hint="Give the job another key.")
            return _failure_text(reused)
        else:
            self._listen(run, listener)
        return await run.result()

    async def running_job(self, key: str) -> str:
        """Return the job of a session that runs here, if it does."""
        run = self._runs.get(key)
        return "{}" if run is None else json.dumps({"job": encode(run.session.job)})

    async def recorded_job(self, key: str) -> str:
        """Return the job of a session that was started before, or the failure."""
        try:
            return json.dumps({"job": encode(await (await self._open_kernel()).recorded_job(key))})
        except CodexError as error:
            return _failure_text(error)

    async def join(self, key: str) -> None:
        """Wait for the end of a session."""
        if (run := self._runs.get(key)) is not None:
            await run.result()

    async def listen(self, key: str, listener: str) -> str:
        """Return events of a session as soon as there are some, or ``null`` after its end."""
        if listener not in self._listeners:
            if (run := self._runs.get(key)) is None:
                return "null"
            self._listen(run, listener)
        events = await self._listeners[listener].events()
        if not events:
            self.unlisten(listener)
            return "null"
        return json.dumps(events)

    def unlisten(self, listener: str) -> None:
        """Forget a listener."""
        if (known := self._listeners.pop(listener, None)) is not None:
            known.run.listeners.discard(known)

    async def answer(self, key: str, request_id: str, answer: str) -> str:
        """Answer a request of a session. Return whether it was open, or the failure."""
        run = self._runs.get(key)
        try:
            was_open = run is not None and run.session.answer_json(request_id, json.loads(answer))
        except CodexError as error:
            return _failure_text(error)
        return json.dumps({"was_open": was_open})

    async def interrupt(self, key: str) -> None:
        """End the turn of a session."""
        if (run := self._runs.get(key)) is not None:
            await run.session.interrupt()

    async def leave(self, keys: str) -> bool:
        """Stop sessions so that they can be continued. Return whether no others are left; the kernel is then closed."""
        own = json.loads(keys)
        stopped = [run.task for key in own if (run := self._runs.get(key)) is not None and run.task]
        for task in stopped:
            task.cancel()
        if stopped:
            await asyncio.wait(stopped, timeout=_STOP_S)
        if self._runs.keys() - own:
            return False
        if self._kernel is not None and self._kernel.done() and self._kernel.exception() is None:
            await self._kernel.result().aclose()
        return True

    async def lives(self) -> None:
        """Wait for ever. Ray tells the caller when this worker ends."""
        await asyncio.Event().wait()

    async def _open_kernel(self) -> Worker:
        if self._kernel is None:
            self._kernel = asyncio.create_task(create_kernel(decode(Workplace, self._workplace)))
        return Worker(await asyncio.shield(self._kernel))

    async def _run(self, run: _Run) -> JobResult:
        try:
            worker = await self._open_kernel()
            return await worker.run(run.session)
        finally:
            del self._runs[run.session.job.key]
            self._used = time.monotonic()
            run.end()

    def _listen(self, run: _Run, listener: str) -> None:
        if listener:
            self._listeners[listener] = _Listener(run)

    def _end_when_idle(self, idle_s: float) -> None:
        import ray

        while self._runs or time.monotonic() - self._used < idle_s:
            time.sleep(min(idle_s, _WATCH_S))
        ray.kill(ray.get_runtime_context().current_actor)


def _failure_text(error: CodexError) -> str:
    return json.dumps({"failure": to_wire(failure_of(error))})


class _Run:
    """A session that runs."""

    def __init__(self, job: Job) -> None:
        self.session = Session(job)
        self.listeners: set[_Listener] = set()
        self.task: asyncio.Task[JobResult] | None = None
        self._requests: dict[str, Event] = {}

    def hear(self, event: Event) -> None:
        """Take an event of the session."""
        if isinstance(event.msg, Request):
            self._requests[event.msg.request_id] = event
        elif isinstance(event.msg, RequestResolvedEvent):
            self._requests.pop(event.msg.request_id, None)
        for listener in self.listeners:
            listener.unread.append(event)
            listener.news.set()

    def end(self) -> None:
        """Tell the listeners that there are no more events."""
        for listener in self.listeners:
            listener.has_ended = True
            listener.news.set()

    def open_requests(self) -> list[Event]:
        """Return the requests that wait for an answer."""
        return [*self._requests.values()]

    async def result(self) -> str:
        """Wait for the result, the failure, or the end by a program that left."""
        assert self.task is not None
        await asyncio.wait([self.task])
        if self.task.cancelled():
            return json.dumps({"stopped": True})
        if (error := self.task.exception()) is not None:
            fault = error if isinstance(error, CodexError) else LaunchError(described(error))
            return _failure_text(fault)
        return json.dumps({"result": encode(self.task.result())})


class _Listener:
    """Somebody who follows the events of a session."""

    def __init__(self, run: _Run) -> None:
        self.run = run
        self.unread: deque[Event] = deque(maxlen=_MOST_UNREAD)
        self.news = asyncio.Event()
        self.has_ended = False
        self.unread.extend(run.open_requests())
        run.listeners.add(self)
        run.session.listen(run.hear)

    async def events(self) -> list[Mapping[str, Any]]:
        """Return the events that were not returned yet, as soon as there are some. After the session's end, the list is empty."""
        while not self.unread and not self.has_ended:
            self.news.clear()
            await self.news.wait()
        events = [event_to_json(event) for event in self.unread]
        self.unread.clear()
        return events
