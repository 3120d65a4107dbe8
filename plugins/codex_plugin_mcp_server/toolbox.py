"""The tools of plugins, called over the protocol in a separate thread.

A call is handled as usual: interceptors, approvals, sandbox, truncation. For that the thread needs a turn, so a task runs as
one while any call runs. No model takes part.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import (
    CodexError,
    Component,
    Event,
    Kernel,
    Task,
    TaskContext,
    Thread,
    ThreadComponent,
    ThreadContext,
    ToolError,
    ToolOutput,
    ToolSpec,
)
from codex_framework.contract.protocol.events import Request, RequestResolvedEvent, ToolCallBeginEvent, TurnStartedEvent
from codex_plugin_mcp_server.conversations import Asking
from codex_plugin_mcp_server.progress import log_of, progress_of
from codex_plugin_mcp_server.runs import Run

__all__ = ["SOURCE", "Contexts", "Toolbox"]

SOURCE = "mcp_tools"
"""The source of threads for tools."""

_BEGINNINGS = (ToolCallBeginEvent, TurnStartedEvent)
"""Events that only report the beginning of a call, which its client knows."""

_DIRECTLY = {"features.code_mode": False, "features.code_mode_only": False}
"""No model writes scripts here that would call the tools."""

_SERIAL = itertools.count(1)


class Contexts(Component):
    """Keeps the contexts of the threads for tools, with which tasks can be started in them."""

    name = "mcp_server"

    def __init__(self) -> None:
        self._of: dict[str, ThreadContext] = {}

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Keep the context. There is no thread component."""
        if thread.meta.source == SOURCE:
            self._of[thread.id] = thread
        return None

    def take(self, thread_id: str) -> ThreadContext:
        """Return the context of a thread, once."""
        return self._of.pop(thread_id)


class _Job:
    """A call that waits or runs.

    Attributes:
        parallel: Whether other such calls may run meanwhile.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any] | str, run: Run, *, parallel: bool) -> None:
        self.name = name
        self.arguments = arguments
        self.parallel = parallel
        self.call_id = f"mcp_{next(_SERIAL)}"
        self.run = run
        self.done: asyncio.Future[ToolOutput] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None

    async def call(self, turn: TaskContext) -> None:
        """Call the tool."""
        try:
            output = await turn.call_tool(self.name, self.arguments, call_id=self.call_id)
        except Exception as error:  # whoever waits for the call is told
            self._fail(error)
        else:
            if not self.done.done():
                self.done.set_result(output)
        finally:
            self._fail(ToolError(f"the call of {self.name} was stopped"))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def stop(self) -> None:
        """Stop the call, whether it runs or waits."""
        if self.task is not None:
            self.task.cancel()
        else:
            self._fail(ToolError(f"the call of {self.name} was stopped"))


class _Serving(Task):
    """The task that fills the turn."""

    kind = "mcp_tools"

    async def run(self, turn: TaskContext, input: Any) -> str | None:  # noqa: A002  # the word of the contract
        """Run calls until there are none left."""
        await input(turn)
        return None


class Toolbox:
    """The tools of one client.

    Args:
        thread: A thread whose source is :data:`SOURCE`.
        parallel: The names of the tools whose calls may overlap.
    """

    def __init__(self, thread: Thread, context: ThreadContext, parallel: frozenset[str]) -> None:
        self._thread = thread
        self._context = context
        self._parallel = parallel
        self._waiting: deque[_Job] = deque()
        self._running: dict[asyncio.Task[None], _Job] = {}
        self._asking: dict[Run, Asking] = {}
        self._more = asyncio.Event()
        self._starting = asyncio.Lock()
        self._serving = False
        self._specs: Sequence[ToolSpec] | None = None
        self._following = asyncio.ensure_future(self._follow())

    @classmethod
    async def open(cls, kernel: Kernel, contexts: Contexts, config: Mapping[str, Any]) -> Toolbox:
        """Start the thread, which is not stored.

        Raises:
            CodexError: The configuration is invalid.
        """
        config = {**config, **_DIRECTLY}
        thread = await kernel.start_thread(config=config, source=SOURCE, originator="codex_mcp_server", ephemeral=True)
        parallel = frozenset(name for name, tool in kernel.registry.tools.items() if tool.parallel)
        return cls(thread, contexts.take(thread.id), parallel)

    @property
    def busy(self) -> bool:
        """Whether calls wait or run."""
        return bool(self._waiting or self._running)

    async def specs(self) -> Sequence[ToolSpec]:
        """Return the specs of the tools that a model would be offered in this thread."""
        async with self._starting:
            await self._idle()
            found: asyncio.Future[Sequence[ToolSpec]] = asyncio.get_running_loop().create_future()

            async def read(turn: TaskContext) -> None:
                found.set_result(turn.draft([]).tools)

            self._context.start_task(_Serving(), read)
            return await found

    async def call(self, name: str, arguments: Mapping[str, Any] | str, run: Run) -> ToolOutput:
        """Call a tool and return its output.

        Raises:
            CodexError: The call failed, or was stopped.
        """
        job = _Job(name, arguments, run, parallel=name in self._parallel)
        self._asking[run] = Asking(self._thread, run, abort=False)
        self._waiting.append(job)
        self._more.set()
        try:
            await self._start()
            return await job.done
        finally:
            job.stop()
            if job in self._waiting:
                self._waiting.remove(job)
            self._asking.pop(run).close()

    async def _start(self) -> None:
        async with self._starting:
            if not self._serving:
                await self._idle()
                self._context.start_task(_Serving(), self._serve)
                self._serving = True

    async def _idle(self) -> None:
        while self._thread.running:
            await self._thread.settled()

    async def _serve(self, turn: TaskContext) -> None:
        try:
            while self._waiting or self._running:
                self._more.clear()
                self._begin(turn)
                more = asyncio.ensure_future(self._more.wait())
                await asyncio.wait({more, *self._running}, return_when=asyncio.FIRST_COMPLETED)
                more.cancel()
        finally:
            self._serving = False
            for job in (*self._running.values(), *self._waiting):
                job.stop()
            if self._running:
                await asyncio.wait(self._running)

    def _begin(self, turn: TaskContext) -> None:
        """Start the calls that may run now, in the order in which they came."""
        while self._waiting:
            job = self._waiting[0]
            if self._running and not (job.parallel and all(other.parallel for other in self._running.values())):
                return
            self._waiting.popleft()
            job.task = asyncio.ensure_future(job.call(turn))
            self._running[job.task] = job
            job.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._more.set()

    # Events

    async def _follow(self) -> None:
        async for event in self._thread.events():
            run = self._run_of(event)
            if run is None:
                self._refuse(event)
                continue
            is_end = isinstance(event.msg, RequestResolvedEvent)  # it names no call, so everybody hears of it
            for asking in list(self._asking.values()) if is_end else [self._asking[run]]:
                asking.see(event)
            step = None if isinstance(event.msg, _BEGINNINGS) else progress_of(event.msg)
            if step is not None:
                await run.progress(*step)
            if (line := log_of(event.msg)) is not None:
                await run.log(*line)

    def _run_of(self, event: Event) -> Run | None:
        """Return the work that an event belongs to: by the call that it names, or else the oldest."""
        call_id = getattr(event.msg, "call_id", None)
        jobs = list(self._running.values())
        named = [job.run for job in jobs if job.call_id == call_id]
        return next((run for run in (*named, *(job.run for job in jobs)) if run in self._asking), None)

    def _refuse(self, event: Event) -> None:
        """Give a request that belongs to no call its unattended answer. If the request defines none, its turn ends it."""
        if isinstance(event.msg, Request):
            with contextlib.suppress(CodexError, NotImplementedError):
                self._thread.answer(event.msg.request_id, event.msg.unattended())

    async def aclose(self) -> None:
        """Stop all calls, and the thread."""
        await self._thread.shutdown()
        await self._following
