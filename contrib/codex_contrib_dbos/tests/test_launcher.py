"""Jobs on workers that run."""

from __future__ import annotations

from conftest import Site, job

from codex_framework.contract.roles.outcomes import Status


async def test_a_job_runs_on_a_worker_that_the_launcher_has_started(site: Site) -> None:
    async with site.open(workers=1) as opened:
        running = await opened.start(job("one", 2))
        result = await running.result()
    assert (result.status, result.message) == (Status.COMPLETED, "one: 2 steps"), result.failure
    assert site.steps("one") == [1, 2]
