"""A worker of a pool: runs sessions on a kernel of its own, and tells the pool about them."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events import Event
from codex_framework.contract.protocol.wire import read, to_wire
from codex_framework.contract.roles.launchers import Job, JobFailure, JobResult, Workplace
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import event_to_json, failure_of, versions
from codex_lib_launch.worker import Session, Worker, create_kernel, worker_name
from codex_plugin_launchers.channel import LONGEST, Channel

__all__ = ["shortened", "work"]


def work(connected: socket.socket, workplace: Workplace) -> None:
    """Run sessions until the pool is gone or SIGTERM arrives. Sessions that run then can be resumed."""
    asyncio.run(_work(connected, workplace))


async def _work(connected: socket.socket, workplace: Workplace) -> None:
    channel = await Channel.open(connected)
    try:
        kernel = await create_kernel(workplace)
    except CodexError as error:
        channel.send({"broken": to_wire(failure_of(error))})
        await channel.drain()
        channel.close()
        return
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, channel.close)  # as if the pool were gone
    async with kernel:
        channel.send({"ready": worker_name(), "versions": versions()})
        sessions = _Sessions(channel, Worker(kernel))
        try:
            while (message := await channel.receive()) is not None:
                sessions.obey(message)
        finally:
            await sessions.aclose()
    channel.close()


class _Sessions:
    """The sessions that run here, by the numbers that the pool gives them."""

    def __init__(self, channel: Channel, worker: Worker) -> None:
        self._channel = channel
        self._worker = worker
        self._sessions: dict[int, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def obey(self, message: Mapping[str, Any]) -> None:
        """Do what the pool asks for."""
        match message:
            case {"run": int(number), "job": job}:
                session = Session(read(Job, job), on_progress=lambda done: self._progress(number, done))
                self._sessions[number] = session
                self._begin(self._run(number, session))
            case {"listen": int(number)} if number in self._sessions:
                self._sessions[number].listen(lambda event: self._tell(number, event))
            case {"interrupt": int(number)} if number in self._sessions:
                self._begin(self._sessions[number].interrupt())
            case {"answer": int(call), "session": int(number), "request": str(request_id), "value": value}:
                self._channel.send({"answered": call, **self._answer(number, request_id, value)})
            case {"find": int(call), "key": str(key)}:
                self._begin(self._find(call, key))
            case {"ping": moment}:
                self._channel.send({"pong": moment})
            case _:
                pass  # about a session that has just ended

    async def aclose(self) -> None:
        """End all sessions. They can be resumed."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks])

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, number: int, session: Session) -> None:
        try:
            result = await self._worker.run(session)
        finally:
            del self._sessions[number]
        if not self._channel.send({"answered": number, "value": to_wire(result)}):
            self._channel.send({"answered": number, "value": to_wire(shortened(result))})
        await self._channel.drain()

    def _progress(self, number: int, done: int) -> None:
        self._channel.send({"progress": number, "done": done})

    async def _tell(self, number: int, event: Event) -> None:
        self._channel.send({"event": number, "value": event_to_json(event)})
        await self._channel.drain()

    def _answer(self, number: int, request_id: str, value: Any) -> Mapping[str, Any]:
        session = self._sessions.get(number)
        if session is None:
            return {"value": False}
        try:
            return {"value": session.answer_json(request_id, value)}
        except CodexError as error:
            return {"error": to_wire(failure_of(error))}

    async def _find(self, call: int, key: str) -> None:
        try:
            found = {"value": to_wire(await self._worker.recorded_job(key))}
        except CodexError as error:
            found = {"error": to_wire(failure_of(error))}
        self._channel.send({"answered": call, **found})


def shortened(result: JobResult) -> JobResult:
    """Return the result of a session whose message is longer than what can be sent."""
    fact = f"the output of the session is longer than {LONGEST:,} bytes"
    failure = JobFailure(fact=fact, slug="result-too-large", hint="Have the agent write it into a file.")
    return result.evolve(status=Status.FAILED, message=None, output=None, failure=failure)
