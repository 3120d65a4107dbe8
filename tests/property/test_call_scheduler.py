"""Calls of the model and of plugins: what must not overlap does not, every call has its turn, and a cancelled one is in no way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.threads.turn.call_scheduler import CallScheduler, CallSlot


@attrs.frozen
class Call:
    """One call.

    Attributes:
        plugin: The plugin of the tool, which makes the calls within.
        before, after: How often the loop runs before and after the calls within.
        together: Whether the calls within begin at once.
        cancelled: After how many rounds of the loop the call is cancelled. 0 means never.
    """

    parallel: bool
    plugin: str
    before: int
    after: int
    together: bool
    cancelled: int
    within: tuple[Call, ...]


def calls(within: st.SearchStrategy[tuple[Call, ...]]) -> st.SearchStrategy[Call]:
    few = st.integers(0, 3)
    return st.builds(
        Call, st.booleans(), st.sampled_from("pq"), few, few, st.booleans(), st.sampled_from([0, 0, 0, 1, 5]), within
    )


LEAF = calls(st.just(()))
TREE = calls(st.lists(calls(st.lists(LEAF, max_size=3).map(tuple)), max_size=3).map(tuple))


class Checked(CallScheduler):
    """Checks what runs whenever a call is let in. The call itself begins up to a round of the loop later."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench

    def _may_run(self, place: CallSlot, ahead: list[CallSlot]) -> bool:
        may = super()._may_run(place, ahead)
        if may:
            self._bench.check(place, {*self._running, *self._bench.running})
        return may


class Bench:
    """Makes calls, and knows what runs."""

    def __init__(self) -> None:
        self.order = Checked(self)
        self.running: set[CallSlot] = set()
        self.above: dict[CallSlot, tuple[CallSlot, ...]] = {}
        self.making: Counter[CallSlot] = Counter()
        self.numbers = count()
        self.begun = 0

    async def make(self, call: Call, caller: str | None, above: tuple[CallSlot, ...] = ()) -> None:
        place = CallSlot(
            str(next(self.numbers)),
            lambda: call.parallel,
            call.plugin,
            caller,
            above[-1].call_id if above else None,
        )
        self.above[place] = above
        self.making.update(above)
        begun = False
        try:
            await self.order.enter(place)
            begun = True
            self.begun += 1
            self.running.add(place)
            try:
                await rounds(call.before)
                await self.make_all(call.within, call, (*above, place))
                await rounds(call.after)
            finally:
                self.running.remove(place)
                self.making.subtract(above)
                self.order.leave(place)
        finally:
            if not begun:
                self.making.subtract(above)

    async def make_all(self, within: tuple[Call, ...], call: Call, above: tuple[CallSlot, ...]) -> None:
        if call.together:
            await asyncio.gather(*(self.one(each, call.plugin, above) for each in within))
        else:
            for each in within:
                await self.one(each, call.plugin, above)

    async def one(self, call: Call, caller: str | None, above: tuple[CallSlot, ...] = ()) -> None:
        task = asyncio.create_task(self.make(call, caller, above))
        if call.cancelled:
            await rounds(call.cancelled)
            task.cancel()
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():  # the call that makes this one was cancelled
                task.cancel()
                await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None, task.exception()

    def check(self, place: CallSlot, running: set[CallSlot]) -> None:
        """Check that a call may begin beside those that run."""
        for other in running:
            if other in self.above[place] or (place.caller is None and other.caller is None):
                continue
            waits_itself = other.parallel and self.making[other] > 0
            is_own = other.parallel and other.caller is None and other.plugin == place.caller
            assert (place.parallel and other.parallel) or waits_itself or is_own


@asynccontextmanager
async def reserve(order: CallScheduler, slot: CallSlot) -> AsyncIterator[None]:
    await order.enter(slot)
    try:
        yield
    finally:
        order.leave(slot)


async def rounds(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@given(st.lists(st.tuples(TREE, st.booleans()), max_size=6))
def test_what_must_not_overlap_does_not_and_every_call_has_its_turn(roots: Any) -> None:
    async def story() -> None:
        bench = Bench()
        together = [bench.one(call, None if by_model and call.parallel else "p") for call, by_model in roots]
        await asyncio.wait_for(asyncio.gather(*together), 20)
        ending = asyncio.all_tasks() - {asyncio.current_task()}  # gather() is over with the first cancelled call
        if ending:
            _, hanging = await asyncio.wait(ending, timeout=20)
            assert hanging == set()
        assert (bench.order._running, bench.order._waiting) == ([], [])
        if not any(call.cancelled for call, _ in roots):
            assert bench.begun >= len(roots)

    asyncio.run(story())


def test_calls_that_wait_run_in_the_order_in_which_they_came() -> None:
    async def story() -> list[str]:
        order, begun = CallScheduler(), []

        async def make(name: str, *, parallel: bool) -> None:
            async with reserve(order, CallSlot(name, lambda: parallel, "tools", "scripts", None)):
                begun.append(name)
                await rounds(3)

        kinds = [("a", True), ("b", False), ("c", True), ("d", True), ("e", False), ("f", True)]
        await asyncio.gather(*(make(name, parallel=parallel) for name, parallel in kinds))
        return begun

    assert asyncio.run(story()) == list("abcdef")


def test_calls_of_the_model_do_not_wait_for_each_other_here() -> None:
    async def story() -> int:
        order, most, running = CallScheduler(), 0, 0

        async def make(name: str) -> None:
            nonlocal most, running
            async with reserve(order, CallSlot(name, lambda: False, "tools", None, None)):
                running += 1
                most = max(most, running)
                await rounds(3)
                running -= 1

        await asyncio.gather(make("a"), make("b"))
        return most

    assert asyncio.run(story()) == 2


def test_a_call_within_a_parallel_one_does_not_pass_by_those_that_wait() -> None:
    async def story() -> list[str]:
        order, begun = CallScheduler(), []

        async def make(name: str, within: str | None = None, *, parallel: bool = True, inner: str = "") -> None:
            async with reserve(order, CallSlot(name, lambda: parallel, "tools", "scripts", within)):
                begun.append(name)
                await rounds(3)
                if inner:
                    await make(inner, name)

        await asyncio.gather(make("outer", inner="inner"), rounds(0), make("long"), make("alone", parallel=False))
        return begun

    assert asyncio.run(story()) == ["outer", "long", "alone", "inner"]


def test_a_call_within_one_that_runs_alone_does_not_pass_by_those_that_wait() -> None:
    async def story() -> list[str]:
        order, begun = CallScheduler(), []

        async def make(name: str, *, parallel: bool) -> None:
            async with reserve(order, CallSlot(name, lambda: parallel, "tools", "scripts", "outer")):
                begun.append(name)
                await rounds(3)

        async with reserve(order, CallSlot("outer", lambda: False, "scripts", None, None)):
            await asyncio.gather(
                make("long", parallel=True), make("alone", parallel=False), make("late", parallel=True)
            )
        return begun

    assert asyncio.run(story()) == ["long", "alone", "late"]


def test_a_parallel_tool_can_wait_for_a_call_that_its_plugin_makes_elsewhere() -> None:
    async def story() -> None:
        order = CallScheduler()

        async def background() -> None:
            async with reserve(order, CallSlot("background", lambda: False, "tools", "scripts", None)):
                await rounds(3)

        async with reserve(order, CallSlot("wait", lambda: True, "scripts", None, None)):
            await asyncio.wait_for(background(), 20)

    asyncio.run(story())


def test_a_call_that_is_cancelled_while_another_one_ends_is_left_out() -> None:
    async def story() -> list[str]:
        order, begun = CallScheduler(), []

        async def make(name: str) -> None:
            async with reserve(order, CallSlot(name, lambda: False, "tools", "scripts", None)):
                begun.append(name)

        async with reserve(order, CallSlot("first", lambda: False, "tools", "scripts", None)):
            cancelled, last = asyncio.create_task(make("cancelled")), asyncio.create_task(make("last"))
            await rounds(3)
            cancelled.cancel()
        await asyncio.wait([cancelled, last])
        await last
        return begun

    assert asyncio.run(story()) == ["last"]


def test_calls_with_one_id_wait_for_no_end_of_their_own() -> None:
    """A model chooses the ids of its calls, and can choose those of plugins' calls."""

    async def story() -> None:
        order = CallScheduler()

        def turn() -> AbstractAsyncContextManager[None]:
            return reserve(order, CallSlot("same", lambda: True, "tools", "scripts", "same"))

        async with turn(), turn(), turn():
            pass

    asyncio.run(story())
