"""Many threads at once, and many turns in one thread."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest

from codex_framework import ProviderInfo, Status
from codex_framework.testing import ResponsesServer, call, say

THREADS = 1000
TURNS = 2000
PART = 200


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_thousand_threads_run_at_once_in_one_process(make_kernel: Any) -> None:
    async def main() -> None:
        replies = [call("update_plan", plan=[{"step": "x", "status": "pending"}])] * THREADS + [say("done")] * THREADS
        with ResponsesServer(replies) as server:
            provider = ProviderInfo(id="loopback", base_url=server.url)
            async with make_kernel(config=('sandbox_mode="danger-full-access"',)) as kernel:
                threads = [await kernel.start_thread(provider=provider) for _ in range(THREADS)]
                results = await asyncio.gather(*(thread.run("go") for thread in threads))
                assert {result.status for result in results} == {Status.COMPLETED}
                assert {result.final_message for result in results} <= {"done"} or len(server.requests) == 2 * THREADS
                assert len({thread.id for thread in threads}) == THREADS

    asyncio.run(main())


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_last_of_two_thousand_turns_costs_at_most_half_again_as_much_as_the_first(make_kernel: Any) -> None:
    """The processor time of this process is compared, so that other work on the machine does not count."""

    async def main() -> list[float]:
        replies = [reply for _ in range(TURNS) for reply in (call("update_plan", plan=[]), say("done"))]
        async with make_kernel(replies) as kernel:
            thread = await kernel.start_thread()
            costs = []
            for _ in range(TURNS // PART):
                gc.collect()
                began = time.process_time()
                for _ in range(PART):
                    assert (await thread.run("go on")).status is Status.COMPLETED
                    kernel.model.requests.clear()  # each holds a snapshot of the whole history
                costs.append((time.process_time() - began) / PART)
            return costs

    costs = asyncio.run(main())
    first, last = min(costs[:2]), min(costs[-2:])
    print("ms of processor time per turn:", [round(cost * 1000, 2) for cost in costs])
    assert last <= 1.5 * first, costs
