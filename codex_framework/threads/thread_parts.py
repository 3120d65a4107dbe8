"""The thread components of one thread, which are started, called and closed in order, with each failure contained."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from codex_framework.contract.errors import PluginError, ServiceError
from codex_framework.contract.roles.components import ThreadComponent
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.outcomes import Outcome
from codex_framework.contract.roles.threads import TurnContext
from codex_framework.contract.roles.tools import Tool
from codex_framework.threads.faults import Label, WrongValue, fact_of, source_place
from codex_framework.threads.plugin_calls import Notices, PluginTimeout, call_isolated, call_with_timeout, end_task

__all__ = ["Part", "SharedPart", "ThreadParts"]

T = TypeVar("T")

BEFORE_CALLS_PATIENCE_S = 30.0
"""How long the first call of a turn waits for ``before_calls``, and the thread for ``idle``, in seconds."""

STARTED_PATIENCE_S = 30.0
"""How long a draft of a request waits for the parts, in seconds."""

TURN_ENDED_PATIENCE_S = 5.0
"""How long ``turn_ended`` and ``aclose`` may take, in seconds."""


_HOOKS = frozenset({"start", "tools", "reconfigured", "has_turn_work", "before_calls", "turn_ended", "idle", "aclose"})


@lru_cache(maxsize=512)
def _hooks_of(kind: Any) -> frozenset[str]:
    """Return the methods that a class overrides."""
    return frozenset(name for name in _HOOKS if getattr(kind, name, None) is not getattr(ThreadComponent, name))


class Part:
    """A thread component and its state.

    Attributes:
        hooks: The methods that it overrides. The others are never called.
        starting: The task of its start, while it is starting.
        ready: Whether it has started.
        lost: Whether its start failed, so that the thread continues without it.
        late: Whether its start took so long that turns no longer wait for it.
        failure: The exception of a required part's start, with which the next turn fails.
        joining: The task that makes a part ready that was created at its first use.
    """

    __slots__ = ("failure", "hooks", "item", "joining", "label", "late", "lost", "ready", "starting")

    def __init__(self, label: Label, item: ThreadComponent) -> None:
        self.label = label
        self.item = item
        kind: Any = type(item)
        self.hooks = _hooks_of(kind) | (getattr(item, "__dict__", {}).keys() & _HOOKS)
        self.starting: asyncio.Task[None] | None = None
        self.ready = "start" not in self.hooks
        self.lost = False
        self.late = False
        self.failure: BaseException | None = None
        self.joining: asyncio.Task[None] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether turns need not wait for it."""
        return self.ready or self.lost or self.late

    def overrides(self, method: str) -> bool:
        """Return whether it overrides a method."""
        return method in self.hooks


class SharedPart(Part):
    """The tools of a component that all threads share."""

    def __init__(self, label: Label, tools: Callable[[TurnFacts], Sequence[Tool]]) -> None:
        item = ThreadComponent()
        item.tools = tools  # type: ignore[method-assign, assignment]
        super().__init__(label, item)


class ThreadParts:
    """The thread components of one thread.

    Args:
        create: Creates the part of a class at its first use. Returns None if no component has such parts.

    Attributes:
        lost: The number of parts that failed to start. Their tools are unavailable.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        notices: Notices,
        create: Callable[[type], Part | None] = lambda _: None,
    ) -> None:
        self._parts = list(parts)
        self._notices = notices
        self._create = create
        self._hooked: dict[str, tuple[Part, ...]] = {}
        self._turn: Callable[[str], TurnContext] | None = None
        self._before_calls: Sequence[asyncio.Task[None]] = ()
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self.lost = 0

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._parts)

    def component(self, kind: type[T]) -> T:
        """Return the part of a class, which is created if this is its first use.

        Raises:
            ServiceError: The thread has no such part, or it is not ready.
        """
        part = self._find_or_create(kind)
        if part.joining is not None and not part.joining.done():
            raise ServiceError(
                f"the component {kind.__name__} of this thread is not ready yet",
                hint=f"Write `await thread.part({kind.__name__})`, which waits for it.",
            )
        return cast("T", part.item)

    async def part(self, kind: type[T]) -> T:
        """Return the part of a class once it is ready.

        Raises:
            ServiceError: The thread has no such part, or it did not start.
            PluginError: It is required and did not start.
        """
        part = self._find_or_create(kind)
        self.start()
        await self._wait_for(part)
        if not part.ready:
            raise ServiceError(f"the component {kind.__name__} of this thread has not started")
        if part.joining is not None:
            await asyncio.wait([part.joining])
        return cast("T", part.item)

    def _find_or_create(self, kind: type[Any]) -> Part:
        for part in self._parts:
            if isinstance(part.item, kind):
                return part
        created = None if self._closed else self._create(kind)
        if created is None or not isinstance(created.item, kind):
            raise ServiceError(
                f"this thread has no component {kind.__name__}",
                hint="Check that its plugin is loaded: codex-framework plugins.",
            )
        self.replace(None, created)
        self.start()
        if not created.ready or (self._turn is not None and created.overrides("before_calls")):
            created.joining = asyncio.get_running_loop().create_task(self._join(created, self._turn))
        return created

    async def _join(self, part: Part, turn: Callable[[str], TurnContext] | None) -> None:
        """Wait until a part has started, and inform it about the running turn."""
        if part.starting is not None:
            await asyncio.wait([part.starting])
        if turn is None or turn is not self._turn:
            return
        if part.ready and part.overrides("before_calls") and self._has_turn_work(part, turn):
            await self._begin(part, turn)

    async def _begin(self, part: Part, turn: Callable[[str], TurnContext]) -> None:
        await self._call_with_limit(part, BEFORE_CALLS_PATIENCE_S, part.item.before_calls, turn(part.label.plugin))

    def find(self, component: str) -> Part | None:
        """Return the part of a component, by its name."""
        return next((part for part in self._parts if part.label.name == component and type(part) is Part), None)

    def replace(self, old: Part | None, new: Part | None) -> None:
        """Replace a part, which is closed in the background. None means no part."""
        if old is new:
            return
        place = len(self._parts) if old is None else self._parts.index(old)
        self._parts[place : place + 1] = () if new is None else (new,)
        self._hooked.clear()
        if old is not None:
            closing = asyncio.get_running_loop().create_task(self._close(old))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _with_hook(self, method: str) -> tuple[Part, ...]:
        """Return the parts that override a method, without parts that failed to start."""
        found = self._hooked.get(method)
        if found is None:
            found = tuple(part for part in self._parts if method in part.hooks and not part.lost)
            self._hooked[method] = found
        return found

    # Starting

    def start(self) -> None:
        """Start all parts that have not started, in the background. Once the thread ends, nothing is started."""
        if self._closed:
            return
        for part in self._with_hook("start"):
            if part.starting is None and not part.is_settled and part.failure is None:
                part.starting = asyncio.get_running_loop().create_task(call_isolated(part.item.start))
                part.starting.add_done_callback(lambda task, part=part: self._note_start(part, task))  # type: ignore[misc]

    def _note_start(self, part: Part, task: asyncio.Task[None]) -> None:
        part.starting = None
        if task.cancelled():  # because the thread has ended
            return
        error = task.exception()
        if error is None:
            part.ready = True
        elif part.item.required:
            part.failure = error
        else:
            part.lost = True
            self.lost += 1
            self._hooked.clear()
            then = "The thread continues without it."
            self._notices.tell(part.label.describe_failure("start", error, then=then, source=part.item.start))

    @property
    def ready(self) -> bool:
        """Whether turns need not wait for any part."""
        return all(part.is_settled for part in self._with_hook("start"))

    async def wait_for_starts(self) -> bool:
        """Wait until no part is starting, at most 30 s, and return whether turns can proceed."""
        starting = [part.starting for part in self._with_hook("start") if part.starting is not None]
        if starting:
            await asyncio.wait(starting, timeout=STARTED_PATIENCE_S)
        return self.ready

    async def wait_ready(self) -> None:
        """Wait until every part has started, each at most for its time limit.

        Raises:
            PluginError: A required part has not started. The next turn tries again.
        """
        self.start()
        waiting = [self._wait_for(part) for part in self._with_hook("start") if not part.is_settled]
        if waiting:
            await asyncio.gather(*waiting)

    async def _wait_for(self, part: Part) -> None:
        limit_s = part.item.ready_timeout_s
        if part.starting is not None:
            await asyncio.wait([part.starting], timeout=limit_s)
        if part.failure is not None:
            error, part.failure = part.failure, None
            fact = f"{part.label}: start() failed: {fact_of(error, part.item.start)}"
            raise PluginError(part.label.plugin, fact, hint=part.label.advice(error))
        if part.starting is None:
            return
        fact = f"{part.label}: start() did not end within {limit_s:g} s{source_place(part.item.start)}"
        if part.item.required:
            raise PluginError(part.label.plugin, fact, hint="Try again, or disable the plugin.")
        part.late = True
        then = "The thread continues, and its tools become available when it is ready."
        self._notices.tell(f"{fact}. {then} Make it faster, or increase its `ready_timeout_s`.")

    # Calling

    def tools(self, facts: TurnFacts) -> Iterator[tuple[str, Tool]]:
        """Yield the tools of components and of parts, each with its plugin's name. A part that fails is skipped."""
        for part in self._with_hook("tools"):
            try:
                tools: Any = self._notices.call(part.label, "tools", part.item.tools, facts)
                if isinstance(tools, str) or not isinstance(tools, Iterable):
                    kind = "None" if tools is None else type(tools).__name__
                    hint = "Return a list of tools, or an empty list."
                    raise WrongValue(f"it returned {kind}, not a list of tools", part.item.tools, hint=hint)
                tools = list(tools)
            except Exception as error:  # a plugin may raise anything
                self._notices.tell(part.label.describe_failure("tools", error, source=part.item.tools))
                continue
            for tool in tools:
                yield part.label.plugin, tool

    def begin_turn(self, turn: Callable[[str], TurnContext]) -> None:
        """Start the work of parts that runs while the model responds."""
        self._turn = turn
        create_task = asyncio.get_running_loop().create_task
        self._before_calls = [
            create_task(self._begin(part, turn))
            for part in self._with_hook("before_calls")
            if self._has_turn_work(part, turn)
        ]

    async def wait_for_calls(self) -> None:
        """Wait until calls may run."""
        running = [task for task in self._before_calls if not task.done()]
        if running:
            await asyncio.wait(running)

    async def end_turn(self, turn: Callable[[str], TurnContext], outcome: Outcome) -> None:
        """Inform the parts about the end of a turn, the last part first."""
        self._turn = None
        for task in self._before_calls:
            task.cancel()
        self._before_calls = ()
        for part in self._parts:
            if part.joining is not None:
                part.joining.cancel()
                part.joining = None
        for part in reversed(self._with_hook("turn_ended")):
            if self._has_turn_work(part, turn):
                await self._call_with_limit(
                    part, TURN_ENDED_PATIENCE_S, part.item.turn_ended, turn(part.label.plugin), outcome
                )

    def _has_turn_work(self, part: Part, turn: Callable[[str], TurnContext]) -> bool:
        """Return whether ``before_calls`` or ``turn_ended`` of a part must be called.

        If the part fails to answer, it is called.
        """
        if not part.overrides("has_turn_work"):
            return True
        method = part.item.has_turn_work
        try:
            return bool(self._notices.call(part.label, "has_turn_work", method, turn(part.label.plugin).facts))
        except Exception as error:  # a plugin may raise anything
            self._notices.tell(part.label.describe_failure("has_turn_work", error, source=method))
            return True

    async def idle(self, busy: Callable[[], bool]) -> None:
        """Inform the parts that the thread is idle, until one of them starts a turn."""
        for part in self._with_hook("idle"):
            await self._call_with_limit(part, BEFORE_CALLS_PATIENCE_S, part.item.idle)
            if busy():
                return

    @property
    def wants_idle(self) -> bool:
        """Whether a part wants to be informed when the thread is idle."""
        return bool(self._with_hook("idle"))

    async def aclose(self) -> None:
        """Close all parts, the last one first. None is created from now on, because nothing would close it."""
        self._closed = True
        await asyncio.gather(*self._closing)
        for part in reversed(self._parts):
            await self._stop_start(part)
        for part in reversed(self._parts):
            await self._close(part)

    async def _close(self, part: Part) -> None:
        await self._stop_start(part)
        if part.overrides("aclose"):
            await self._call_with_limit(part, TURN_ENDED_PATIENCE_S, part.item.aclose)

    async def _stop_start(self, part: Part) -> None:
        if part.starting is not None and not await end_task(part.starting, patience_s=TURN_ENDED_PATIENCE_S):
            place = source_place(part.item.start)
            text = f"{part.label}: start() did not stop within {TURN_ENDED_PATIENCE_S:g} s{place}"
            self._notices.tell(f"{text}. {part.label.advice()}")

    async def _call_with_limit(
        self, part: Part, patience_s: float, method: Callable[..., Awaitable[object]], *arguments: Any
    ) -> None:
        """Await a plugin's work with a time limit. Failures become warnings."""
        name = getattr(method, "__name__", "a method")
        try:
            await call_with_timeout(patience_s, method, *arguments)
        except PluginTimeout:
            self._notices.tell(part.label.late(name, patience_s, method))
        except Exception as error:  # a plugin may raise anything
            self._notices.tell(part.label.describe_failure(name, error, source=method))
