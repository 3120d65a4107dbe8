"""Jobs on workers that run."""

from __future__ import annotations

import asyncio

import pytest
from conftest import Site, job
from dbos._schemas.system_database import SystemSchema
from sqlalchemy import func, select

from codex_contrib_dbos.database import Database
from codex_contrib_dbos.jobs import EVENTS
from codex_framework.contract.protocol.events import Request, TurnCompleteEvent
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.roles.launchers import LaunchError
from codex_framework.contract.roles.outcomes import Limits, Status


async def test_a_job_runs_on_a_worker_and_its_result_is_found_again(working: Site) -> None:
    async with working.open() as opened:
        result = await (await opened.start(job("one", 3, agent="stepper"))).result()
        assert (result.status, result.message, result.attempts) == (Status.COMPLETED, "one: 3 steps", 1), result.failure
        assert result.usage.tokens.total_tokens > 0
    async with working.open() as opened:
        assert await (await opened.start(job("one", 3, agent="stepper"))).result() == result
        assert await (await opened.resume("one")).result() == result
    assert working.steps("one") == [1, 2, 3]


async def test_a_key_that_is_started_twice_runs_once(working: Site) -> None:
    async with working.open() as one, working.open() as other:
        started = await asyncio.gather(*(each.start(job("twice", 2)) for each in (one, other, one)))
        results = await asyncio.gather(*(each.result() for each in started))
    assert results[0] == results[1] == results[2]
    assert working.steps("twice") == [1, 2]


async def test_a_key_of_another_prompt_is_refused(working: Site) -> None:
    async with working.open() as opened:
        await (await opened.start(job("reused", 1))).result()
        with pytest.raises(LaunchError, match="'reused' was used for another job") as caught:
            await opened.start(job("reused", 2))
        assert caught.value.slug == "key-reused"
        with pytest.raises(LaunchError, match="no job has the key 'nobody'") as caught:
            await opened.resume("nobody")
        assert caught.value.slug == "unknown-job"
        for key in ("", " ", "x" * 201, "a\nb"):
            with pytest.raises(LaunchError, match="key"):
                await opened.start(job("odd").evolve(key=key))


async def test_events_are_sent_to_who_listens(working: Site) -> None:
    async with working.open() as opened:
        running = await opened.start(job("heard", 2, pause_s=0.3))
        kinds = [type(event.msg) async for event in running.events()]
        result = await running.result()
    assert result.status is Status.COMPLETED
    assert TurnCompleteEvent in kinds


def count_replies(site: Site, key: str) -> list[int]:
    """Return how many replies each message to a job has."""
    streams = SystemSchema.streams
    is_reply = (streams.c.workflow_uuid == key, streams.c.key != EVENTS)
    replies = select(func.count()).where(*is_reply).group_by(streams.c.key)
    database = Database(site.url, patience_s=1.0)
    try:
        return list(database.run_once("count replies", lambda connection: connection.execute(replies).scalars().all()))
    finally:
        database.close()


@pytest.mark.parametrize(("decision", "steps"), [(Decision.APPROVED, [1]), (Decision.ABORT, [])])
async def test_an_approval_goes_through_the_database(working: Site, decision: Decision, steps: list[int]) -> None:
    name = f"asks-{decision.value}"
    taken = []
    async with working.open() as opened:
        running = await opened.start(job(name, 1, attended=True, ask=True))
        async for event in running.events():
            if isinstance(event.msg, Request):
                assert not await running.answer("another", ReviewDecision(decision))
                taken.append(await running.answer(event.msg.request_id, ReviewDecision(decision)))
                taken.append(await running.answer(event.msg.request_id, ReviewDecision(decision)))
        await running.result()
        assert not await running.answer("late", ReviewDecision(decision))
    assert taken == [True, False]
    assert working.steps(name) == steps
    assert set(count_replies(working, name)) == {1}


async def test_a_job_that_is_not_attended_asks_nobody(working: Site) -> None:
    async with working.open() as opened:
        unattended = job("unattended", 1, ask=True).evolve(limits=Limits(requests=2))  # the model asks again and again
        assert (await (await opened.start(unattended)).result()).status is Status.LIMITED
    assert working.steps("unattended") == []


async def test_an_interrupted_job_goes_on_when_it_is_started_again(working: Site) -> None:
    async with working.open() as opened:
        running = await opened.start(job("stopped", 3, pause_s=0.5))
        await working.wait_for_step("stopped", 1)
        await running.interrupt()
        result = await running.result()
        assert result.status is Status.INTERRUPTED
        result = await (await opened.start(job("stopped", 3, pause_s=0.5))).result()
        assert (result.status, result.message) == (Status.COMPLETED, "stopped: 3 steps"), result.failure
    assert working.steps("stopped") == [1, 2, 3]


async def test_a_failure_that_can_pass_is_tried_again_by_a_later_start(working: Site) -> None:
    async with working.open() as opened:
        settings = {"model_providers.scripted.stream_max_retries": 0, "model_providers.scripted.request_max_retries": 0}
        flaky = job("flaky", 1, fails=True)
        result = await (await opened.start(flaky)).result()
        if result.status is Status.FAILED:
            assert result.failure is not None
            assert result.failure.retryable, settings
            result = await (await opened.resume("flaky")).result()
    assert result.status is Status.COMPLETED
    assert working.steps("flaky") == [1]


async def test_an_agent_that_the_worker_does_not_have_is_a_failure_that_names_it(working: Site) -> None:
    async with working.open() as opened:
        result = await (await opened.start(job("agentless", 1, agent="nobody"))).result()
    assert result.status is Status.FAILED
    assert result.failure is not None
    assert result.failure.fact == f"the worker {result.worker} has no agent 'nobody'"


async def test_limits_lower_what_a_session_may_use(working: Site) -> None:
    async with working.open() as opened:
        result = await (await opened.start(job("limited", 5).evolve(limits=Limits(requests=2)))).result()
    assert result.status is Status.LIMITED
    assert len(working.steps("limited")) == 2


async def test_jobs_of_all_sizes_run_side_by_side(working: Site) -> None:
    async with working.open(max_sessions=4) as opened:
        started = [asyncio.create_task(opened.start(job(f"many-{number}", 2))) for number in range(12)]
        results = [await (await each).result() for each in started]
        result = await (
            await opened.start(job("long" + "\u00e9\U0001f600" * 10, 1, text="\u0000\ud800" + "x" * 200_000))
        ).result()
    assert {each.status for each in results} == {Status.COMPLETED}
    assert result.status is Status.COMPLETED, result.failure


async def test_a_closed_launcher_ends_the_waiting_and_refuses_jobs(working: Site) -> None:
    async with working.open() as opened:
        running = await opened.start(job("left", 2, pause_s=0.5))
        waiting = asyncio.create_task(running.result())
        await asyncio.sleep(0)
        await opened.aclose()
        with pytest.raises(LaunchError) as caught:
            await waiting
        assert caught.value.slug == "launcher-closed"
        with pytest.raises(LaunchError, match="the launcher is closed"):
            await opened.start(job("late"))
        await opened.aclose()
    async with working.open() as opened:  # the worker went on
        assert (await (await opened.resume("left")).result()).status is Status.COMPLETED
    assert working.steps("left") == [1, 2]


async def test_a_caller_that_is_cancelled_does_not_end_the_job(working: Site) -> None:
    async with working.open() as opened:
        running = await opened.start(job("patient", 1, pause_s=0.3))
        waiting = asyncio.create_task(running.result())
        await asyncio.sleep(0)
        waiting.cancel()
        assert (await running.result()).status is Status.COMPLETED
