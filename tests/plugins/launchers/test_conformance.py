"""The launchers fulfil their role, and the check finds launchers that do not."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codex_framework.contract.roles.launchers import Job, JobResult, Launcher, Workplace
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing import ContractViolation, check_launcher
from codex_plugin_launchers.in_process import InProcessLauncher
from codex_plugin_launchers.pool import PoolLauncher

from .test_pool import workers


def test_in_process_fulfils_its_role():
    check_launcher(InProcessLauncher())


@pytest.mark.slow
def test_the_pool_fulfils_its_role():
    check_launcher(PoolLauncher(workers=1), kill_worker=lambda: os.kill(workers()[0], signal.SIGKILL))


def test_the_check_lists_what_a_launcher_does_wrong():
    class Started:
        def __init__(self, job: Job) -> None:
            self.key = job.key

        async def events(self) -> AsyncIterator[Any]:
            yield "an event"

        async def answer(self, request_id: str, answer: object) -> bool:
            return True

        async def interrupt(self) -> None:
            pass

        async def result(self) -> JobResult:
            return JobResult(key="another", thread_id="t", status=Status.FAILED)

    class Opened:
        async def start(self, job: Job) -> Started:
            return Started(job)

        async def resume(self, key: str) -> Started:
            return Started(Job(key=key, prompt=""))

        async def aclose(self) -> None:
            pass

    class Wrong(Launcher):
        name = "wrong"

        async def open(self, workplace: Workplace, *, max_sessions: int | None = None) -> Opened:
            return Opened()

    monkey = pytest.MonkeyPatch()
    monkey.setattr("codex_framework.testing.conformance.launchers._WITHIN_S", 0.05)
    with monkey.context(), pytest.raises(ContractViolation) as found:
        check_launcher(Wrong())
    monkey.undo()
    text = "\n".join(found.value.violations)
    for part in (
        "is that of 'another'",
        "not completed",
        "'key-reused'",
        "'unknown-job'",
        "has events",
        "failure None",
    ):
        assert part in text, text
