"""The components of a kernel and their parts in threads: started, asked and closed in order, each failure contained."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from codex_framework.contract.errors import CodexError, PluginError, ServiceError
from codex_framework.contract.roles.components import Component, ThreadComponent
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.outcomes import Outcome
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.roles.threads import KernelContext, ThreadContext, TurnContext
from codex_framework.contract.roles.tools import Tool
from codex_framework.plugins.offers import Offer
from codex_framework.threads.faults import described, place_of
from codex_framework.threads.services import Services

__all__ = ["Components", "ThreadParts"]

T = TypeVar("T")

BEFORE_CALLS_PATIENCE_S = 30.0
"""How long the first call of a turn waits for ``before_calls``, in seconds."""

TURN_ENDED_PATIENCE_S = 5.0
"""How long ``turn_ended`` may take, in seconds."""


class Components:
    """The components of one kernel.

    Args:
        offers: By name, with the plugin's name.
        services: Where the services that they provide go.
    """

    def __init__(self, offers: Mapping[str, Offer[Component]], services: Services) -> None:
        self._offers = offers
        self._services = services
        self._order: list[Offer[Component]] = []
        self._failed: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._offers)

    async def start(self, kernel: Callable[[str], KernelContext]) -> Mapping[str, str]:
        """Start all: concurrently, each after those that provide what it requires.

        Returns:
            Why plugins failed, by name. What these plugins offer is to be withdrawn.

        Raises:
            PluginError: A required component did not start.
        """
        ended = {name: asyncio.get_running_loop().create_future() for name in self._offers}
        providers = {key: name for name, offer in self._offers.items() for key in offer.item.provides}
        circle = _circle(self._offers, providers)
        work = [self._start_one(name, ended, providers, circle, kernel) for name in self._offers]
        results = await asyncio.gather(*work, return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                await self.aclose()
                raise error
        return self._failed

    async def _start_one(
        self,
        name: str,
        ended: Mapping[str, asyncio.Future[str | None]],
        providers: Mapping[ServiceKey[Any], str],
        circle: Sequence[str],
        kernel: Callable[[str], KernelContext],
    ) -> None:
        offer = self._offers[name]
        component = offer.item
        reason: str | None
        try:
            reason = await self._unmet(name, ended, providers, circle)
            if reason is None:
                self._order.append(offer)
                async with asyncio.timeout(component.start_timeout_s):
                    provided = await component.start(kernel(offer.plugin))
                self._provide(offer, provided or {})
        except TimeoutError:
            reason = f"component {name!r} did not start within {component.start_timeout_s:g} s"
        except Exception as error:  # a plugin may raise anything
            reason = f"component {name!r} did not start: {_text(error)}"
        except asyncio.CancelledError:
            ended[name].cancel()
            raise
        ended[name].set_result(reason)
        if reason is None:
            return
        self._failed.setdefault(offer.plugin, reason)
        for key in component.provides:
            self._services.withdraw(key, reason)
        if component.required:
            raise PluginError(offer.plugin, f"plugin {offer.plugin!r}: {reason}", hint="Fix the plugin, or disable it.")

    async def _unmet(
        self,
        name: str,
        ended: Mapping[str, asyncio.Future[str | None]],
        providers: Mapping[ServiceKey[Any], str],
        circle: Sequence[str],
    ) -> str | None:
        """Wait for what a component requires; return why it cannot start."""
        if name in circle:
            return f"component {name!r} is part of a circle of requirements: {' -> '.join((*circle, circle[0]))}"
        for key in self._offers[name].item.requires:
            if key not in providers:
                return f"component {name!r} requires the service {key.name!r}, which no plugin provides"
            failed = await asyncio.shield(ended[providers[key]])
            if failed is not None:
                return f"component {name!r} requires the service {key.name!r}: {failed}"
        return None

    def _provide(self, offer: Offer[Component], provided: Mapping[ServiceKey[Any], object]) -> None:
        missing = [key.name for key in offer.item.provides if key not in provided]
        if missing:
            raise ServiceError(f"its start() returned no service {', '.join(missing)}")
        for key, service in provided.items():
            self._services.provide(key, service)

    def for_thread(self, context: Callable[[str], ThreadContext], warn: Callable[[str], None]) -> ThreadParts:
        """Make the parts of a thread, in the order of components."""
        parts: list[_Part] = []
        for name, offer in self._offers.items():
            if offer.plugin in self._failed:
                continue
            try:
                part = offer.item.for_thread(context(offer.plugin))
            except Exception as error:  # the thread goes on without
                warn(f"component {name!r} of plugin {offer.plugin!r} has no part in this thread: {_text(error)}")
                continue
            if part is not None:
                parts.append(_Part(name, offer.plugin, part))
        return ThreadParts(parts, warn)

    async def aclose(self) -> None:
        """Close all that were started, in reverse order of their start."""
        order, self._order = self._order, []
        for _, component in reversed(order):
            with contextlib.suppress(Exception):  # given up: the kernel is closing, and nobody is left to tell
                async with asyncio.timeout(component.close_timeout_s):
                    await component.aclose()


class _Part(NamedTuple):
    """A part of a thread, and whose it is."""

    name: str
    plugin: str
    item: ThreadComponent

    @property
    def label(self) -> str:
        """How it is named to people."""
        return f"component {self.name!r} of plugin {self.plugin!r}"


class ThreadParts:
    """The thread components of one thread.

    Args:
        warn: Tells the clients of the thread, once for each sentence.
    """

    def __init__(self, parts: Sequence[_Part], warn: Callable[[str], None]) -> None:
        self._parts = list(parts)
        self._tell = warn
        self._told: set[str] = set()
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._started: set[str] = set()
        self._before_calls: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._parts)

    def find(self, kind: type[T]) -> T:
        """Return the part of a class.

        Raises:
            ServiceError: There is none.
        """
        for part in self._parts:
            if isinstance(part.item, kind):
                return part.item
        raise ServiceError(f"this thread has no component {kind.__name__}")

    def start(self) -> None:
        """Start all parts that have not started, in the background."""
        for part in self._parts:
            if part.name not in self._started and part.name not in self._starting:
                self._starting[part.name] = asyncio.get_running_loop().create_task(part.item.start())

    @property
    def ready(self) -> bool:
        """Whether nothing has to be waited for."""
        return len(self._started) == len(self._parts)

    async def wait_ready(self) -> None:
        """Wait until every part has started, each no longer than its time.

        Raises:
            CodexError: A required part has not started.
        """
        self.start()
        for part in self._parts:
            task = self._starting.get(part.name)
            if task is not None:
                await self._wait_for(part, task)

    async def _wait_for(self, part: _Part, task: asyncio.Task[None]) -> None:
        done, _ = await asyncio.wait([task], timeout=part.item.ready_timeout_s)
        if not done:
            self._miss(part, f"{part.label} is not ready after {part.item.ready_timeout_s:g} s")
            return
        del self._starting[part.name]
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            self._started.add(part.name)
            return
        self._miss(
            part, f"{part.label} did not start: {_text(error)}" if error else f"{part.label} was cancelled", error
        )

    def _miss(self, part: _Part, text: str, error: BaseException | None = None) -> None:
        if part.item.required:
            hint = error.hint if isinstance(error, CodexError) else ""
            raise PluginError(part.plugin, text, hint=hint)
        self.warn(text)
        if error is not None:
            self._started.add(part.name)  # told, and not waited for again

    def tools(self, facts: TurnFacts) -> Iterator[tuple[str, Tool]]:
        """The tools of all parts, each with its plugin's name. A part that fails gives none."""
        for part in self._parts:
            try:
                tools = list(part.item.tools(facts))
            except Exception as error:  # a plugin may raise anything
                self.warn(f"{part.label}: tools() failed: {_text(error)}")
                continue
            for tool in tools:
                yield part.plugin, tool

    def begin_turn(self, turn: Callable[[str], TurnContext]) -> None:
        """Start what runs while the model answers."""
        work = [part for part in self._parts if type(part.item).before_calls is not ThreadComponent.before_calls]
        if work:
            self._before_calls = asyncio.get_running_loop().create_task(self._run_before_calls(work, turn))

    async def _run_before_calls(self, parts: Sequence[_Part], turn: Callable[[str], TurnContext]) -> None:
        calls = (
            self._contained(part, "before_calls", part.item.before_calls(turn(part.plugin)), BEFORE_CALLS_PATIENCE_S)
            for part in parts
        )
        await asyncio.gather(*calls)

    async def wait_for_calls(self) -> None:
        """Wait until calls may run."""
        if self._before_calls is not None:
            await asyncio.shield(self._before_calls)

    async def end_turn(self, turn: Callable[[str], TurnContext], outcome: Outcome) -> None:
        """Tell the parts that a turn has ended, the last one first."""
        if self._before_calls is not None:
            self._before_calls.cancel()
            self._before_calls = None
        for part in reversed(self._parts):
            if type(part.item).turn_ended is not ThreadComponent.turn_ended:
                work = part.item.turn_ended(turn(part.plugin), outcome)
                await self._contained(part, "turn_ended", work, TURN_ENDED_PATIENCE_S)

    async def idle(self, busy: Callable[[], bool]) -> None:
        """Tell the parts that nothing is left to do, until one of them starts a turn."""
        for part in self._parts:
            if type(part.item).idle is not ThreadComponent.idle:
                await self._contained(part, "idle", part.item.idle(), BEFORE_CALLS_PATIENCE_S)
            if busy():
                return

    @property
    def wants_idle(self) -> bool:
        """Whether a part wants to know when nothing is left to do."""
        return any(type(part.item).idle is not ThreadComponent.idle for part in self._parts)

    async def aclose(self) -> None:
        """Close all parts, the last one first."""
        for task in self._starting.values():
            task.cancel()
        if self._starting:
            await asyncio.wait(self._starting.values(), timeout=TURN_ENDED_PATIENCE_S)
        for part in reversed(self._parts):
            await self._contained(part, "aclose", part.item.aclose(), TURN_ENDED_PATIENCE_S)

    def warn(self, text: str) -> None:
        """Tell the clients a sentence, once."""
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    async def _contained(self, part: _Part, method: str, work: Awaitable[object], patience_s: float) -> None:
        """Await a plugin's work for a bounded time; whatever goes wrong becomes a warning."""
        try:
            async with asyncio.timeout(patience_s):
                await work
        except TimeoutError:
            self.warn(f"{part.label}: {method}() did not end within {patience_s:g} s")
        except Exception as error:  # a plugin may raise anything
            self.warn(f"{part.label}: {method}() failed: {_text(error)}")


def _circle(offers: Mapping[str, Offer[Component]], providers: Mapping[ServiceKey[Any], str]) -> Sequence[str]:
    """Return the names of components that wait for each other, in order, or nothing."""
    needs = {
        name: [providers[key] for key in offer.item.requires if key in providers] for name, offer in offers.items()
    }
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return ()
        for other in needs[name]:
            if circle := walk(other, (*path, name)):
                return circle
        done.add(name)
        return ()

    return next((circle for name in needs if (circle := walk(name, ()))), ())


def _text(error: BaseException) -> str:
    if isinstance(error, CodexError):
        return f"{error}. {error.hint}" if error.hint else str(error)
    return f"{described(error)}{place_of(error)}"
