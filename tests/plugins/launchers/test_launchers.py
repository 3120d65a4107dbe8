"""Both launchers: jobs run once, and what was started is found again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.launchers import Job, LaunchError
from codex_framework.contract.roles.outcomes import Status

from .conftest import append_lines

KINDS = pytest.mark.parametrize("kind", ["in-process", "pool"])


@KINDS
def test_a_job_runs_once_and_its_result_is_found_again(place, kind):
    here = place(append_lines(2))
    job = Job(key="one", prompt="job one")

    async def run():
        async with here.open(kind) as launcher:
            first = await (await launcher.start(job)).result()
            again = await (await launcher.start(job)).result()
            with pytest.raises(LaunchError) as reused:
                await launcher.start(job.evolve(prompt="job two"))
        async with here.open(kind) as launcher:
            other = await (await launcher.start(job.evolve(prompt="job two"))).result()
            resumed = await (await launcher.resume("one")).result()
            started = await (await launcher.start(job)).result()
            with pytest.raises(LaunchError) as unknown:
                await launcher.resume("two")
        return first, [again, resumed, started], [reused.value.slug, other.failure.slug, unknown.value.slug]

    first, later, slugs = asyncio.run(run())
    assert first.status is Status.COMPLETED, first
    assert first.message == "done: job one"
    assert {result.message for result in later} == {"done: job one"}
    assert slugs == ["key-reused", "key-reused", "unknown-job"]
    assert here.lines() == ["job one 1", "job one 2"]


@pytest.mark.parametrize("size", [0, 20])
def test_a_session_whose_record_was_emptied_is_not_run_again(place, size):
    """Its effects would happen twice. A record that is gone altogether is a new session."""
    here = place(append_lines(1))
    job = Job(key="one", prompt="job one")

    async def run(how: str = "start"):
        async with here.open("in-process") as launcher:
            return await (await (launcher.start(job) if how == "start" else launcher.resume(job.key))).result()

    assert asyncio.run(run()).status is Status.COMPLETED
    (record,) = Path(here.workplace.environ["CODEX_HOME"]).glob("sessions/**/*.jsonl")
    os.truncate(record, size)
    result = asyncio.run(run())
    assert (result.status, result.failure.slug) == (Status.FAILED, "thread-unreadable"), result
    assert result.thread_id in result.failure.fact
    assert "delete" in result.failure.hint
    with pytest.raises(CodexError, match=r"damaged|cannot be read"):
        asyncio.run(run("resume"))
    assert here.lines() == ["job one 1"]
    assert len(here.server.requests) == 2
    record.unlink()
    assert asyncio.run(run()).status is Status.COMPLETED
