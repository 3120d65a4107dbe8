"""Calls of plugins with time limits: whatever a coroutine does, its caller continues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.threads.faults import PluginExit
from codex_framework.threads.plugin_calls import (
    FIRST_SLOW_S,
    Notices,
    PluginTimeout,
    await_with_timeout,
    call_with_timeout,
    end_task,
)
from codex_framework.toolkit.faults import Label


def timers_of(work: Callable[[], Awaitable[Any]], seconds: float = 5.0) -> tuple[Any, int]:
    """Return the result of some work with a time limit, or its exception, and the number of timers set for it."""

    async def run() -> tuple[Any, int]:
        loop = asyncio.get_running_loop()
        timers = 0
        plain = loop.call_at

        def counted(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
            nonlocal timers
            timers += 1
            return plain(*arguments, **options)

        loop.call_at = counted  # type: ignore[method-assign]
        try:
            result: Any = await await_with_timeout(seconds, work())
        except Exception as error:
            result = error
        assert asyncio.current_task().cancelling() == 0
        return result, timers

    return asyncio.run(run())


async def at_once() -> str:
    return "done"


async def fails() -> str:
    raise OSError("no disk")


async def after_a_while() -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, "later")
    return await future


async def fails_later() -> str:
    await asyncio.sleep(0)
    return await fails()


def test_work_that_ends_at_once_needs_no_timer() -> None:
    assert timers_of(at_once) == ("done", 0)
    error, timers = timers_of(fails)
    assert isinstance(error, OSError)
    assert timers == 0


def test_work_that_waits_has_one_timer() -> None:
    assert timers_of(after_a_while) == ("later", 1)
    error, timers = timers_of(fails_later)
    assert isinstance(error, OSError)
    assert timers == 1


def test_work_that_waits_too_long_is_cancelled() -> None:
    ended = []

    async def hangs() -> None:
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    error, _ = timers_of(hangs, seconds=0.01)
    assert isinstance(error, TimeoutError)
    assert ended == [True]


@pytest.mark.parametrize("steps", [0, 1])
def test_a_cancelled_caller_cancels_the_work_which_may_clean_up(steps: int) -> None:
    told = []

    async def cleans_up() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            told.append("cleaned up")
            raise

    async def run() -> None:
        task = asyncio.create_task(await_with_timeout(5.0, cleans_up()))
        for _ in range(steps + 1):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert told == ["cleaned up"]


def test_a_cancellation_between_two_steps_is_not_lost() -> None:
    async def steps() -> None:
        while True:
            await asyncio.sleep(0)

    async def run() -> None:
        task = asyncio.create_task(await_with_timeout(5.0, steps()))
        await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(2):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())


WAITS = ("next round", "future", "own time limit", "group")
ENDS = ("returns", "raises", "exits", "cancels itself", "hangs")


async def plugin_work(waits: Sequence[str], end: str) -> str:
    """Wait in some ways, one after another, then end in one."""
    for wait in waits:
        match wait:
            case "next round":
                await asyncio.sleep(0)
            case "future":
                future = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(future.set_result, None)
                await future
            case "own time limit":
                async with asyncio.timeout(60):
                    await asyncio.sleep(0)
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(0))
    match end:
        case "raises":
            raise OSError("no disk")
        case "exits":
            raise SystemExit(3)
        case "cancels itself":
            raise asyncio.CancelledError
        case "hangs":
            await asyncio.sleep(3600)
    return "done"


EXPECTED = {"raises": OSError, "exits": PluginExit, "cancels itself": PluginExit, "hangs": PluginTimeout}


@given(waits=st.lists(st.sampled_from(WAITS), max_size=4), end=st.sampled_from(ENDS))
def test_every_call_ends_as_its_work_does_and_leaves_nothing_behind(waits: list[str], end: str) -> None:
    async def run() -> None:
        call = call_with_timeout(0.005 if end == "hangs" else 60, plugin_work, waits, end)
        if end == "returns":
            assert await call == "done"
        else:
            with pytest.raises(EXPECTED[end]):
                await call
        me = asyncio.current_task()
        assert me is not None
        assert me.cancelling() == 0
        assert asyncio.all_tasks() == {me}

    asyncio.run(run())


@given(waits=st.lists(st.sampled_from(WAITS), max_size=4), rounds=st.integers(0, 6))
def test_a_cancelled_caller_ends_its_call(waits: list[str], rounds: int) -> None:
    async def run() -> None:
        task = asyncio.create_task(call_with_timeout(60, plugin_work, waits, "hangs"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_a_call_that_ignores_its_cancellation_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(end_task.__kwdefaults__, "patience_s", 0.01)
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async def run() -> None:
        with pytest.raises(PluginTimeout):
            await call_with_timeout(0.01, stubborn)
        released.set()

    asyncio.run(run())


def test_only_the_authors_of_other_plugins_are_told_that_a_method_was_slow() -> None:
    told: list[str] = []
    notices = Notices(lambda text, _: told.append(text), lambda plugin: plugin == "shell")
    for plugin in ("shell", "acme"):
        notices.call(Label("component", "x", plugin), "for_thread", time.sleep, FIRST_SLOW_S + 0.01)
    (sentence,) = told
    assert "plugin 'acme': for_thread() took" in sentence
