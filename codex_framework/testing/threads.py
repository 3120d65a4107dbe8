"""Threads for tests: a real kernel, a scripted model, answers to requests, and a check for leftovers at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from codex_framework.contract.errors import described
from codex_framework.contract.hookspecs import GROUP
from codex_framework.contract.protocol.events import Event, EventMsg, Request, SessionConfiguredEvent, WarningEvent
from codex_framework.contract.protocol.items import ContentItem, CustomToolCallOutput, FunctionCallOutput, ResponseItem
from codex_framework.contract.roles.agents import Agent, RunResult
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.roles.threads import ThreadContext
from codex_framework.contract.roles.tools import Tool
from codex_framework.testing.kernels import KernelFactory, ScriptedKernel
from codex_framework.testing.leftovers import LeftBehind, Leftovers
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.scripted import ReplySource
from codex_framework.threads.thread import Thread

if TYPE_CHECKING:
    from codex_framework.loader.discovery import EntryPointLike

__all__ = ["Answer", "ScriptedThread", "ThreadFactory", "answer"]

E = TypeVar("E", bound=EventMsg)
A = TypeVar("A")


class Answer(Generic[A]):
    """Answers every request of one class. Created by :func:`answer`."""

    def __init__(self, kind: type[Request[A]], value: A | Callable[[Any], A | Awaitable[A]]) -> None:
        self.kind = kind
        self._value = value

    async def to(self, request: Request[A]) -> object:
        """Return the answer to a request."""
        if not callable(self._value):
            return self._value
        given = self._value(request)
        return await given if isinstance(given, Awaitable) else given


def answer(kind: type[Request[A]], value: A | Callable[[Any], A | Awaitable[A]]) -> Answer[A]:
    """Answer every request of a class in the threads of ``make_thread``.

    Args:
        kind: The class of the request, or one of its bases.
        value: The answer, or a function, plain or async, from the request to its answer.
    """
    return Answer(kind, value)


class ScriptedThread:
    """A thread with a scripted model.

    Attributes:
        client: The thread's client.
        kernel: Its kernel.
        events: The events that its clients have received so far.
        seen: The requests among these events.
    """

    def __init__(
        self,
        kernel: ScriptedKernel,
        client: Thread,
        answers: Sequence[Answer[Any]],
        restart: _Restart,
        *,
        attended: bool,
    ) -> None:
        self.kernel = kernel
        self.client = client
        self.events: list[EventMsg] = []
        self.seen: list[Request[Any]] = []
        self._answers = answers
        self._restart = restart
        self._taken: dict[type[EventMsg], int] = {}
        self._heard = asyncio.Event()
        self._closing = False
        self._problems: list[str] = []
        self._answering: set[asyncio.Task[None]] = set()
        self._listener = asyncio.ensure_future(client.events(answers=attended).each(self._hear))

    # Results

    @property
    def requests(self) -> Sequence[ModelRequest]:
        """The requests to the model, in order."""
        return self.kernel.model.requests

    @property
    def history(self) -> Sequence[ResponseItem]:
        """The items of the conversation, oldest first."""
        return self.client.history.items

    @property
    def outputs(self) -> Sequence[str | tuple[ContentItem, ...]]:
        """The outputs of calls, in order."""
        outputs = (FunctionCallOutput, CustomToolCallOutput)
        return [item.output for item in self.history if isinstance(item, outputs)]

    @property
    def warnings(self) -> Sequence[str]:
        """The texts of all warnings so far."""
        return [event.message for event in self.events if isinstance(event, WarningEvent)]

    def inside(self, plugin: str) -> ThreadContext:
        """Return a plugin's context of the thread."""
        return self.client.conversation.context(plugin)

    # Actions of a test

    async def turn(self, prompt: str, *replies: ReplySource, **settings: Any) -> RunResult[Any]:
        """Run a turn to its end. The model answers with ``replies``. ``settings`` are arguments of ``Thread.run``."""
        self.kernel.model.add(*replies)
        result: RunResult[Any] = await self.client.run(prompt, **settings)
        await asyncio.sleep(0)  # so that all events have been received
        return result

    def start(self, prompt: str, *replies: ReplySource) -> str:
        """Start a turn and return its id. Follow it with :meth:`until` and ``client.settled()``."""
        self.kernel.model.add(*replies)
        return self.client.start(prompt)

    async def until(self, kind: type[E], *, within_s: float = 30.0) -> E:
        """Wait for the next event of a class, and return it. Each event is returned once.

        Raises:
            AssertionError: It does not arrive in time.
        """
        try:
            async with asyncio.timeout(within_s):
                while True:
                    start = self._taken.get(kind, 0)
                    for place in range(start, len(self.events)):
                        event = self.events[place]
                        if isinstance(event, kind):
                            self._taken[kind] = place + 1
                            return event
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            heard = ", ".join(event.type for event in self.events if not event.is_delta) or "nothing"
            raise AssertionError(f"no {kind.__name__} within {within_s:g} s; received events: {heard}") from None

    async def restarted(self) -> ScriptedThread:
        """Return the thread as it would be after its process was killed now: resumed from its record, in a new kernel.

        This object cannot be used any longer.

        Raises:
            ThreadError: The thread is not stored, or cannot be read back.
        """
        return await self._restart(self)

    # Listening and leaving

    def _hear(self, event: Event) -> None:
        msg = event.msg
        if isinstance(msg, SessionConfiguredEvent):
            return
        self.events.append(msg)
        if self._closing and isinstance(msg, WarningEvent):
            self._problems.append(msg.message)
        if isinstance(msg, Request):
            self.seen.append(msg)
            given = next((answer for answer in self._answers if isinstance(msg, answer.kind)), None)
            if given is not None:
                task = asyncio.ensure_future(self._reply(given, msg))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
        self._heard.set()

    async def _reply(self, given: Answer[Any], request: Request[Any]) -> None:
        try:
            self.client.answer(request.request_id, await given.to(request))
        except Exception as error:  # an error of the test
            self._problems.append(f"the answer to {request.type} failed: {described(error)}")

    async def close(self) -> list[str]:
        """Shut the thread down and return the problems of its end."""
        if not self._closing:
            # What watchers of the turns before report late is no problem of the end.
            await self.client.conversation.host.broadcast.drain()
            await asyncio.sleep(0)
            self._problems += [f"the request {request.type} is still open" for request in self.client.open_requests]
            self._closing = True
            await self.client.shutdown()
            await self._listener
        for task in self._answering:
            task.cancel()
        return self._problems


_Restart = Callable[[ScriptedThread], Awaitable[ScriptedThread]]


class ThreadFactory:
    """Creates threads for the test of one plugin.

    Args:
        kernels: Creates their kernels.
    """

    def __init__(self, kernels: KernelFactory) -> None:
        self._kernels = kernels

    def __call__(
        self,
        plugin: object = None,
        *answers: Answer[Any],
        replies: Iterable[ReplySource] = (),
        config: Sequence[str] | str = (),
        tools: Sequence[Tool] = (),
        agent: Agent[Any] | None = None,
        services: Mapping[ServiceKey[Any], object] | None = None,
        attended: bool | None = None,
        entry_points: Sequence[EntryPointLike] | None = None,
        env: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> AbstractAsyncContextManager[ScriptedThread]:
        """Create a thread: ``async with make_thread(MyPlugin, answer(ApprovalRequest, yes)) as thread``.

        Leaving the block shuts thread and kernel down. It fails if a task, a process, an open request or an open file is left
        over, or if closing caused an error.

        Args:
            plugin: The plugin: a module, a subclass of ``Plugin``, or another object with hook implementations. An installed
                plugin is loaded under its own name. Use None for plugins that ``entry_points`` load.
            answers: Answers to requests.
            attended: Whether requests can be answered. The default is True if answers are given. Requests without a matching
                answer are then left to the test, for ``client.answer``.
            replies: The model's replies, as in ``make_kernel``. ``turn`` and ``start`` add more.
            config, tools, env: As in ``make_kernel``.
            agent, services, settings: As in ``Kernel.start_thread``.
            entry_points: Entry points to use instead of the entry points of all installed distributions.

        Raises:
            AssertionError: The plugin is not loaded completely; the text gives the reason.
            ConfigError: The configuration is invalid.
        """
        return self._create(
            plugin, answers, replies, config, tools, agent, services, attended, entry_points, env, settings
        )

    @asynccontextmanager
    async def _create(
        self,
        plugin: object,
        answers: Sequence[Answer[Any]],
        replies: Iterable[ReplySource],
        config: Sequence[str] | str,
        tools: Sequence[Tool],
        agent: Agent[Any] | None,
        services: Mapping[ServiceKey[Any], object] | None,
        attended: bool | None,  # noqa: FBT001  # of __call__
        entry_points: Sequence[EntryPointLike] | None,
        env: Mapping[str, str] | None,
        settings: Mapping[str, Any],
    ) -> AsyncIterator[ScriptedThread]:
        leftovers = Leftovers()
        model = ScriptedModel(replies)
        plugins = [] if plugin is None or (entry_points is None and _is_installed(plugin)) else [plugin]
        stack = AsyncExitStack()
        opened: list[ScriptedThread] = []
        problems: list[str] = []

        async def open_kernel() -> ScriptedKernel:
            made = self._kernels.around(
                model, plugins=plugins, tools=tools, config=config, entry_points=entry_points, env=dict(env or {})
            )
            kernel = await stack.enter_async_context(made)
            if kernel.registry.warnings:
                raise AssertionError("the plugin is not loaded completely:\n  " + "\n  ".join(kernel.registry.warnings))
            return kernel

        async def close() -> None:
            for thread in opened:
                problems.extend(await thread.close())
            kernels = [thread.kernel for thread in opened]
            opened.clear()
            await stack.aclose()
            for kernel in kernels:
                problems.extend(text for text in kernel.registry.warnings if text not in kernel.registry.late)

        async def restart(thread: ScriptedThread) -> ScriptedThread:
            record = thread.client.rollout_path
            kept = Path(record).read_bytes() if record is not None and Path(record).is_file() else None
            await close()
            if record is not None and kept is not None:
                Path(record).write_bytes(kept)  # drops what a killed process could no longer have written
            kernel = await open_kernel()
            client = await kernel.resume_thread(thread.client.id, agent=agent, **settings)
            again = ScriptedThread(
                kernel, client, answers, restart, attended=bool(answers) if attended is None else attended
            )
            opened.append(again)
            return again

        try:
            kernel = await open_kernel()
            client = await kernel.start_thread(agent=agent, services=services, **settings)
            leftovers.marks.append(f"CODEX_THREAD_ID={client.id}")
            thread = ScriptedThread(
                kernel, client, answers, restart, attended=bool(answers) if attended is None else attended
            )
            opened.append(thread)
            yield thread
        except BaseException:
            await close()
            raise
        await close()
        problems += await leftovers.found()
        if problems:
            raise LeftBehind(problems)


def _is_installed(plugin: object) -> bool:
    """Return whether the plugin is the target of an entry point."""
    import importlib
    from functools import reduce

    from codex_framework.loader.discovery import discover

    home = plugin.__name__ if isinstance(plugin, ModuleType) else getattr(plugin, "__module__", None) or ""
    for source in discover(GROUP):
        module, _, attribute = source.target.partition(":")
        if module.partition(".")[0] == home.partition(".")[0]:
            found = reduce(getattr, filter(None, attribute.split(".")), importlib.import_module(module))
            if found is plugin:
                return True
    return False
