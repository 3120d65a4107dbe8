"""Time limits whose timer is set only for work that has to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from codex_framework.threads.patience import soon


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
            result: Any = await soon(seconds, work())
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
        task = asyncio.create_task(soon(5.0, cleans_up()))
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
        task = asyncio.create_task(soon(5.0, steps()))
        await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(2):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
