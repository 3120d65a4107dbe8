"""Many threads at once, and many turns in one thread."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from codex_framework import ProviderInfo, Status
from codex_framework.testing import ResponsesServer, call, say

THREADS = 1000
TURNS = 2000
PART = 10
ROUNDS = 20


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
def test_a_turn_after_two_thousand_costs_at_most_half_again_as_much_as_one_of_a_new_thread(make_kernel: Any) -> None:
    """Both threads take turns, and processor time is compared, so that other work on the machine slows both alike."""

    async def main() -> list[tuple[float, float]]:
        turns = TURNS + 2 * ROUNDS * PART
        replies = [reply for _ in range(turns) for reply in (call("update_plan", plan=[]), say("done"))]
        async with make_kernel(replies) as kernel:

            async def cost(thread: Any, turns: int) -> float:
                began = time.process_time()
                for _ in range(turns):
                    assert (await thread.run("go on")).status is Status.COMPLETED
                    kernel.model.requests.clear()  # each holds a snapshot of the whole history
                return (time.process_time() - began) / turns

            long, new = await kernel.start_thread(), await kernel.start_thread()
            await cost(long, TURNS)
            return [(await cost(new, PART), await cost(long, PART)) for _ in range(ROUNDS)]

    costs = asyncio.run(main())
    print("ms of processor time per turn:", [(round(new * 1000, 2), round(long * 1000, 2)) for new, long in costs])
    assert min(long for _, long in costs) <= 1.5 * min(new for new, _ in costs), costs
