"""Work requested by a client: a turn, or a call of a tool. It may outlive the request that started it.

A client of a revision with a channel back is asked while its request is open. With a client of a later revision, a question
ends the request; the client calls again with the answers, and the work continues under the new request.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from codex_framework import Value
from codex_plugin_mcp_server.link import Link

__all__ = ["ANSWER_PATIENCE_S", "Questions", "Run", "Runs"]

ANSWER_PATIENCE_S = 600.0
"""How long work waits for the request that brings answers, in seconds. Then it is cancelled."""

_LEAST_STEP = 1e-6

_MISSED = 10_000
"""How many notifications are kept between two requests. The oldest are dropped."""

Result = Mapping[str, Any]


class Questions(Value):
    """The questions that the client must answer in its next request.

    Attributes:
        state: The text that names the work, to be sent back.
        params: The parameters of each elicitation, by an id.
    """

    state: str
    params: Mapping[str, Mapping[str, Any]]


class _Progress:
    """Numbers for reports of progress, which always increase, as the protocol demands.

    The first report decides whether they are fractions of 1, or count the reports.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._counts = False

    def next(self, done: float | None) -> tuple[float | None, float]:
        """Return the total, None if it is unknown, and the number of the next report."""
        if self._last is None:
            self._counts = done is None
        if self._counts:
            self._last = (self._last or 0) + 1
            return None, self._last
        least = 0.0 if self._last is None else self._last + _LEAST_STEP
        self._last = max(least, done or 0.0)
        return 1.0, self._last


class Run:
    """One piece of work.

    Args:
        tool: The name of the called tool.
        link: The request that starts it.
    """

    def __init__(self, tool: str, link: Link, on_end: Callable[[Run], None]) -> None:
        self.tool = tool
        self.state = secrets.token_urlsafe(32)
        self.first_id = link.request_id
        self.can_ask = link.can_ask
        self.can_open = link.can_open
        self._link: Link | None = link
        self._wake = asyncio.Event()
        self._asked: dict[str, tuple[Mapping[str, Any], asyncio.Future[Mapping[str, Any]]]] = {}
        self._missed: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=_MISSED)
        self._task: asyncio.Task[Result] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._on_end = on_end
        self._progress = _Progress()
        self.cancelled = False

    def begin(self, work: Coroutine[Any, Any, Result]) -> None:
        """Start the work."""
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Result]) -> None:
        if not task.cancelled():
            task.exception()  # whoever serves it raises it; if nobody does, it is not reported as lost
        self._forget_patience()
        self._on_end(self)
        self._wake.set()

    # For the work

    async def notify(self, method: str, params: Mapping[str, Any], thread_id: str) -> None:
        """Send a notification with the ids of the request and the thread, now or under the next request."""
        if self._link is None:
            self._missed.append((method, {**params, "_meta": {"threadId": thread_id}}))
            return
        await self._send(self._link, method, {**params, "_meta": {"threadId": thread_id}})

    async def _send(self, link: Link, method: str, params: Mapping[str, Any]) -> None:
        meta = {"requestId": link.request_id, **params["_meta"]}
        await link.notify(method, {**params, "_meta": meta})

    async def progress(self, text: str, done: float | None = None) -> None:
        """Report progress. Reports between two requests are dropped."""
        total, value = self._progress.next(done)
        if self._link is not None:
            await self._link.progress(value, total, text)

    async def log(self, level: str, text: str) -> None:
        """Send a message for the client's log. Messages between two requests are dropped."""
        if self._link is not None:
            await self._link.log(level, text)

    async def ask(self, question_id: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the client.

        Raises:
            NotAskedError: It could not be asked, or answered with an error.
        """
        if self._link is not None and self._link.has_channel:
            return await self._link.elicit(params)
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[question_id] = (params, answer)
        self._wake.set()
        try:
            return await answer
        finally:
            self._asked.pop(question_id, None)

    # For the server

    async def serve(self, link: Link, answers: Mapping[str, Mapping[str, Any]]) -> Result | Questions:
        """Let the work run under a request, to its end or to its next question. If the request is cancelled, so is the work."""
        assert self._task is not None
        self._forget_patience()
        try:
            await self._attach(link)
            self._answer(answers)
            while not self._task.done():
                if self._asked and not link.has_channel:
                    return self._questions()
                self._wake.clear()
                await self._wake.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return await self._task

    async def _attach(self, link: Link) -> None:
        while self._missed:
            await self._send(link, *self._missed.popleft())
        self._link = link

    def _answer(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        for question_id, answer in answers.items():
            _, waiting = self._asked.pop(question_id, (None, None))
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def _questions(self) -> Questions:
        self._link = None
        self._patience = asyncio.get_running_loop().call_later(ANSWER_PATIENCE_S, self.cancel)
        return Questions(self.state, {question_id: params for question_id, (params, _) in self._asked.items()})

    def _forget_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def cancel(self) -> None:
        """Cancel the work."""
        self.cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait for the end of the work."""
        if self._task is not None:
            await asyncio.wait({self._task})


class Runs:
    """All running work."""

    def __init__(self) -> None:
        self._running: dict[str, Run] = {}

    def begin(self, tool: str, link: Link, work: Callable[[Run], Coroutine[Any, Any, Result]]) -> Run:
        """Start work."""
        run = Run(tool, link, self._forget)
        self._running[run.state] = run
        run.begin(work(run))
        return run

    def _forget(self, run: Run) -> None:
        self._running.pop(run.state, None)

    def find(self, state: str, tool: str) -> Run | None:
        """Return the work that a client's next request names, or None if this tool has no such work."""
        run = self._running.get(state)
        return run if run is not None and run.tool == tool else None

    async def aclose(self) -> None:
        """Cancel everything and wait for it."""
        running = list(self._running.values())
        for run in running:
            run.cancel()
        for run in running:
            await run.ended()
