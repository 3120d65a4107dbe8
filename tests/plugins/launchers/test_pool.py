"""The pool: lost workers, lost drivers, and what must not reach the program."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework.contract.roles.launchers import Job
from codex_framework.contract.roles.outcomes import Status

from .conftest import append_lines


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return [int(word) for word in file.read().split()]


def workers() -> list[int]:
    """Return the workers of this process."""
    return [worker for warm in children(os.getpid()) for worker in children(warm)]


class Killing:
    """A model that kills a worker now and then, while it answers.

    Args:
        model: Its answers.
        every: The mean number of requests between two kills.
        most: The number of kills.
    """

    def __init__(self, model: Callable[[Any], Any], *, every: int, most: int) -> None:
        self.kills = 0
        self._model = model
        self._every = every
        self._most = most
        self._random = random.Random(7)

    def __call__(self, request: Any) -> Any:
        if self.kills < self._most and self._random.randrange(self._every) == 0 and (running := workers()):
            self.kills += 1
            os.kill(self._random.choice(running), signal.SIGKILL)
        return self._model(request)


@pytest.mark.parametrize(("sessions", "kills"), [(6, 2), pytest.param(100, 30, marks=pytest.mark.slow)])
def test_sessions_of_killed_workers_end_elsewhere_and_no_line_is_written_twice(place, sessions, kills):
    model = Killing(append_lines(5), every=12, most=kills)
    here = place(model)

    async def run():
        async with here.open(workers=2) as launcher:
            jobs = [await launcher.start(Job(key=f"k{number}", prompt=f"job {number}")) for number in range(sessions)]
            return [await job.result() for job in jobs]

    results = asyncio.run(run())
    assert {result.status for result in results} == {Status.COMPLETED}, [each.failure for each in results]
    expected = [f"job {number} {line}" for number in range(sessions) for line in range(1, 6)]
    assert sorted(here.lines()) == sorted(expected)
    assert model.kills == kills
    assert any(result.attempts > 1 for result in results)
