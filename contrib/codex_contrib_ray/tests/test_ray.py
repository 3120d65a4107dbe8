"""Sessions on a real Ray cluster: what works, what fails with which words, and what is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import ray
from conftest import Cluster as LoopbackCluster
from ray._private.serialization import SerializationContext
from scene import Scene, wait_for

from codex_contrib_ray.cluster import Cluster
from codex_contrib_ray.launcher import RayLauncher
from codex_contrib_ray.sessions import Sessions
from codex_contrib_ray.settings import RaySettings
from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events import ExecApprovalRequestEvent, TurnCompleteEvent
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.roles.launchers import Job, LaunchError
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing import check_launcher
from codex_lib_launch.encoding import encode, thread_id_of

DRIVER = Path(__file__).parent / "driver.py"
Open = Callable[..., AbstractAsyncContextManager[Cluster]]


@pytest.fixture
def opened(settings: RaySettings, scene: Scene) -> Open:
    """Return a function that opens a launcher on the scene for a while."""

    @asynccontextmanager
    async def open_cluster(**changes: Any) -> AsyncIterator[Cluster]:
        place = scene.workplace.evolve(**changes.pop("workplace", {}))
        cluster = await RayLauncher(settings.evolve(**changes)).open(place)
        try:
            yield cluster
        finally:
            await cluster.aclose()
            scene.release()

    return open_cluster


async def test_sessions_share_workers_and_have_the_agents_of_the_plugins(opened: Open, scene: Scene) -> None:
    keys = [f"row {number}" for number in range(5)]
    async with opened() as cluster:
        jobs = [await cluster.start(Job(key=key, prompt="act", agent="actor")) for key in keys]
        results = [await job.result() for job in jobs]
        again = await (await cluster.start(Job(key="row 1", prompt="act", agent="actor"))).result()
    wanted = [(Status.COMPLETED, "all done", None)] * 5
    assert [(result.status, result.message, result.failure) for result in results] == wanted
    assert again.thread_id == results[1].thread_id
    assert len(scene.workers()) == 1
    assert os.getpid() not in scene.workers()
    scene.check(keys)


async def test_a_session_continues_on_another_worker_when_its_own_is_killed(opened: Open, scene: Scene) -> None:
    scene.hold()
    async with opened(sessions_per_actor=1) as cluster:  # one node has room for one worker
        job = await cluster.start(Job(key="a", prompt="act"))
        waiting = await cluster.start(Job(key="b", prompt="act"))
        await asyncio.to_thread(wait_for, scene.workers)
        (pid,) = scene.workers()
        os.kill(pid, signal.SIGKILL)
        scene.release()
        result = await job.result()
        assert (await waiting.result()).attempts == 1
    assert (result.status, result.message, result.attempts) == (Status.COMPLETED, "all done", 2), result
    assert len(scene.workers()) == 2
    scene.check(["a", "b"])
    threads = [line.split()[0] for line in scene.effects.read_text().splitlines()]
    assert threads == [result.thread_id] * 3 + [thread_id_of("b")] * 3  # it did not wait again behind the other


async def test_a_session_that_ends_its_workers_fails(opened: Open, scene: Scene) -> None:
    scene.hold()
    async with opened(max_restarts=0) as cluster:
        job = await cluster.start(Job(key="a", prompt="act"))
        await asyncio.to_thread(wait_for, scene.workers)
        (pid,) = scene.workers()
        os.kill(pid, signal.SIGKILL)
        result = await job.result()
    assert result.failure is not None
    assert (result.failure.fact, result.failure.retryable) == ("the session has lost 1 workers", True)


async def test_sessions_continue_elsewhere_when_a_node_is_killed(opened: Open, scene: Scene, cluster: Any) -> None:
    node = cluster.add_node()
    scene.hold()
    keys = ["a", "b"]
    async with opened(sessions_per_actor=1) as launcher:  # the cluster has room for one worker on each node
        jobs = [await launcher.start(Job(key=key, prompt="act")) for key in keys]
        await asyncio.to_thread(wait_for, lambda: len(scene.workers()) == 2)
        cluster.kill_node(node)
        scene.release()
        results = [await job.result() for job in jobs]
    assert [result.status for result in results] == [Status.COMPLETED] * 2
    assert sorted(result.attempts for result in results) == [1, 2]
    scene.check(keys)


async def leave_running(scene: Scene, settings: RaySettings, keys: str, *, running: int) -> None:
    """Start sessions with a program, and kill it when some of them have acted."""
    scene.hold()
    argv = [sys.executable, "-P", str(DRIVER), settings.address, settings.namespace, encode(scene.workplace)]
    program = subprocess.Popen([*argv, *keys], stdout=subprocess.PIPE)
    assert program.stdout is not None
    try:
        await asyncio.to_thread(program.stdout.readline)
        await asyncio.to_thread(wait_for, lambda: len(scene.acted_all()) == running)
    finally:
        program.kill()
        program.communicate()


def worker_names() -> list[str]:
    """Return the names of the workers that run or were asked for."""
    return [str(name) for name in ray.util.list_named_actors()]


async def test_sessions_of_a_killed_program_go_on_and_the_next_program_finds_them(
    opened: Open, scene: Scene, settings: RaySettings
) -> None:
    await leave_running(scene, settings, "abcdef", running=4)  # the worker has no more room
    async with opened(sessions_per_actor=4) as cluster:
        found = [await cluster.resume(key) for key in "ab"]
        started = [await cluster.start(Job(key=key, prompt="act")) for key in "bcdef"]
        with pytest.raises(LaunchError, match="was used for another job"):
            await cluster.start(Job(key="a", prompt="something else"))
        assert len(scene.workers()) == 1
        scene.release()
        results = [await job.result() for job in [*found, *started]]
        with pytest.raises(LaunchError) as unknown:
            await cluster.resume("g")
        ended = await (await cluster.resume("a")).result()
    assert unknown.value.slug == "unknown-job"
    assert [(result.status, result.attempts) for result in results] == [(Status.COMPLETED, 1)] * 7
    assert ended == results[0]
    scene.check([*"abcdef"])


async def test_another_job_does_not_get_the_result_of_a_found_session_with_its_key(
    opened: Open, scene: Scene, settings: RaySettings
) -> None:
    await leave_running(scene, settings, "a", running=1)
    async with opened(sessions_per_actor=1) as cluster:
        other = await (await cluster.start(Job(key="a", prompt="something else"))).result()
        waiting = await cluster.start(Job(key="b", prompt="act"))
        await asyncio.to_thread(wait_for, lambda: len(worker_names()) == 2)  # the found session still has its place
        found = await cluster.resume("a")
        scene.release()
        results = [await found.result(), await waiting.result()]
    assert other.failure is not None
    assert other.failure.slug == "key-reused"
    assert [(result.status, result.attempts) for result in results] == [(Status.COMPLETED, 1)] * 2
    scene.check(["a", "b"])


@pytest.mark.parametrize("answers", [True, False], ids=["answers", "does not answer"])
async def test_a_closed_launcher_leaves_the_sessions_of_other_programs_alone(
    opened: Open, scene: Scene, settings: RaySettings, *, answers: bool
) -> None:
    await leave_running(scene, settings, "a", running=1)
    async with opened() as cluster:
        if not answers:
            scene.block()
        await cluster.start(Job(key="b", prompt="act"))
        await asyncio.to_thread(wait_for, lambda: len(scene.acted_all()) == 2)
    async with opened() as cluster:
        result, own = [await (await cluster.resume(key)).result() for key in "ab"]
    assert (result.status, result.attempts) == (Status.COMPLETED, 1), result
    assert own.status is Status.COMPLETED, own
    assert len(scene.workers()) == 1
    scene.check(["a", "b"])


async def test_a_worker_with_other_sessions_answers_a_program_that_leaves_even_if_its_own_do_not_stop(
    scene: Scene,
) -> None:
    scene.hold()
    scene.persist()
    worker = Sessions(encode(scene.workplace), 1000.0)
    runs = [asyncio.create_task(worker.run(encode(Job(key=key, prompt="act")), "")) for key in "ab"]
    await asyncio.to_thread(wait_for, lambda: len(scene.acted_all()) == 2)
    assert not await asyncio.wait_for(worker.leave('["b"]'), 60.0)
    assert not any(run.done() for run in runs)
    scene.release()
    other, own = [json.loads(await run) for run in runs]
    assert await worker.leave("[]")
    assert "result" in other
    assert own == {"stopped": True}


async def test_a_worker_that_is_not_needed_any_more_may_start_but_is_withdrawn_if_no_node_has_room(
    opened: Open, scene: Scene
) -> None:
    scene.hold()
    async with opened(sessions_per_actor=1) as cluster:  # one node has room for one worker
        running = await cluster.start(Job(key="a", prompt="act"))
        await asyncio.to_thread(wait_for, scene.workers)
        began = time.monotonic()
        waiting = await cluster.start(Job(key="b", prompt="act"))
        await asyncio.to_thread(wait_for, lambda: len(worker_names()) == 2)
        await waiting.interrupt()
        scene.release()
        await running.result()
        await asyncio.to_thread(wait_for, lambda: len(worker_names()) == 1)
        assert time.monotonic() - began >= 10.0


async def test_only_text_is_sent_to_workers(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []
    serialize = SerializationContext.serialize

    def record(context: SerializationContext, value: object) -> object:
        sent.append(value)
        return serialize(context, value)

    monkeypatch.setattr(SerializationContext, "serialize", record)
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of the program")
    async with opened() as cluster:
        running = await cluster.start(
            Job(key="a", prompt="ask", attended=True, config={"approval_policy": "untrusted"})
        )
        async for event in running.events():
            if isinstance(event.msg, ExecApprovalRequestEvent):
                assert await running.answer(event.msg.request_id, ReviewDecision(Decision.APPROVED))
        assert (await running.result()).message == "it printed asked"
    assert {type(value) for value in sent} == {str, bytes, float}, sent
    assert "a secret of the program" not in str(sent)


async def test_a_closed_launcher_leaves_sessions_that_can_be_continued(opened: Open, scene: Scene) -> None:
    scene.hold()
    async with opened(idle_s=1000.0) as cluster:
        job = await cluster.start(Job(key="a", prompt="act"))
        await asyncio.to_thread(wait_for, scene.workers)
    with pytest.raises(LaunchError) as closed:
        await job.result()
    assert closed.value.slug == "launcher-closed"
    with pytest.raises(LaunchError, match="is closed"):
        await cluster.start(Job(key="b", prompt="act"))
    (pid,) = scene.workers()
    await asyncio.to_thread(wait_for, lambda: not Path(f"/proc/{pid}").exists())
    async with opened() as cluster:
        assert (await (await cluster.resume("a")).result()).status is Status.COMPLETED
    scene.check(["a"])


async def test_a_worker_without_sessions_ends_and_the_next_session_gets_another(opened: Open, scene: Scene) -> None:
    async with opened(idle_s=1.0) as cluster:
        await (await cluster.start(Job(key="a", prompt="act"))).result()
        (pid,) = scene.workers()
        await asyncio.to_thread(wait_for, lambda: not Path(f"/proc/{pid}").exists())
        result = await (await cluster.start(Job(key="b", prompt="act"))).result()
    assert result.status is Status.COMPLETED, result
    assert len(scene.workers()) == 2
    scene.check(["a", "b"])


@pytest.mark.slow
async def test_sessions_of_a_lost_cluster_are_resumed_on_a_new_one(scene: Scene) -> None:
    scene.hold()
    folder = os.environ.get("RAY_TMPDIR", "")
    lost = LoopbackCluster()
    argv = [sys.executable, "-P", str(DRIVER), lost.address, "lost", encode(scene.workplace), "a"]
    program = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await asyncio.to_thread(wait_for, scene.workers)
    finally:
        lost.stop()  # kills the head node with its control store
        program.kill()
        program.wait()
    (pid,) = scene.workers()
    await asyncio.to_thread(wait_for, lambda: not Path(f"/proc/{pid}").exists())
    scene.release()
    found = LoopbackCluster()
    try:
        opened = await RayLauncher(RaySettings(address=found.address, namespace="found")).open(scene.workplace)
        result = await (await opened.resume("a")).result()
        await opened.aclose()
    finally:
        found.stop()
        os.environ["RAY_TMPDIR"] = folder
    assert (result.status, result.attempts) == (Status.COMPLETED, 2), result
    scene.check(["a"])


async def test_events_arrive_and_an_approval_is_answered(opened: Open, scene: Scene) -> None:
    job = Job(key="a", prompt="ask", attended=True, config={"approval_policy": "untrusted"})
    kinds = []
    async with opened() as cluster:
        running = await cluster.start(job)
        async for event in running.events():
            kinds.append(type(event.msg))
            if isinstance(event.msg, ExecApprovalRequestEvent):
                assert not await running.answer("another", ReviewDecision(Decision.APPROVED))
                assert await running.answer(event.msg.request_id, ReviewDecision(Decision.APPROVED))
        result = await running.result()
        assert not await running.answer("late", ReviewDecision(Decision.APPROVED))
    assert result.message == "it printed asked"
    assert kinds[-1] is TurnCompleteEvent or TurnCompleteEvent in kinds


async def test_sessions_are_interrupted_while_they_run_and_while_they_wait(opened: Open, scene: Scene) -> None:
    scene.hold()
    async with opened(sessions_per_actor=1) as cluster:  # one node has room for one worker
        running = await cluster.start(Job(key="a", prompt="act"))
        waiting = await cluster.start(Job(key="b", prompt="act"))
        await asyncio.to_thread(wait_for, scene.workers)
        await waiting.interrupt()
        assert (await waiting.result()).status is Status.INTERRUPTED
        await running.interrupt()
        assert (await running.result()).status is Status.INTERRUPTED
        scene.release()
        assert (await (await cluster.resume("a")).result()).status is Status.COMPLETED
    scene.check(["a"])


async def test_more_sessions_than_allowed_wait_at_the_start(opened: Open, scene: Scene) -> None:
    scene.hold()
    async with opened(max_sessions=1) as cluster:
        first = await cluster.start(Job(key="a", prompt="act"))
        second = asyncio.create_task(cluster.start(Job(key="b", prompt="act")))
        await asyncio.to_thread(wait_for, scene.workers)
        assert not second.done()
        scene.release()
        await first.result()
        assert (await (await second).result()).status is Status.COMPLETED
    scene.check(["a", "b"])


def test_the_launcher_fulfils_its_role(launcher: RayLauncher) -> None:
    check_launcher(launcher)


async def test_failures_name_the_worker(opened: Open, scene: Scene) -> None:
    async with opened() as cluster:
        result = await (await cluster.start(Job(key="a", prompt="act", agent="missing"))).result()
    assert result.failure is not None
    assert result.failure.fact == f"the worker {result.worker} has no agent 'missing'"
    assert "Install" in result.failure.hint


async def test_workers_with_other_versions_are_refused_before_any_session_runs(
    opened: Open, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_lib_launch.encoding.__version__", "9.9")
    with pytest.raises(LaunchError, match=r"the worker \S+:\d+ has codex-framework 0\S+, and this process has 9.9"):
        async with opened():
            pass
    assert not scene.workers()


NO_SANDBOX = """
from codex_framework import SandboxReport, hookimpl

class Broken:
    name = "faulty"
    def probe(self): return SandboxReport(available=False, reason="no kernel support", hint="Use a newer kernel.")
    def confine(self, access, cwd): raise AssertionError
    async def aclose(self): pass

@hookimpl
def codex_sandboxes(): return [Broken()]
"""


async def test_a_worker_without_a_sandbox_fails_the_sessions_that_need_one_and_runs_the_others(
    opened: Open, scene: Scene, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(NO_SANDBOX)
    overrides = ('sandbox_mode="workspace-write"', 'framework.sandbox="faulty"')
    workplace = {"plugins": (*scene.workplace.plugins, str(broken)), "overrides": overrides}
    async with opened(workplace=workplace) as cluster:
        needs, free = [await cluster.start(Job(key=key, prompt=key)) for key in ("ask", "act")]
        failed, completed = await needs.result(), await free.result()
    assert failed.failure is not None
    assert (failed.failure.slug, failed.failure.retryable) == ("no-sandbox", True)
    assert "'ask'" in failed.failure.fact
    assert failed.worker in failed.failure.fact
    assert "no kernel support" in failed.failure.fact
    assert (completed.status, completed.message) == (Status.COMPLETED, "all done"), completed
    scene.check(["act"])


@pytest.mark.parametrize(
    ("changes", "fact", "hint"),
    [
        ({"address": "127.0.0.1:9"}, "the Ray cluster '127.0.0.1:9' cannot be used", "ray start --head"),
        (
            {"resources": {"gold": 1.0}, "start_timeout_s": 2.0},
            r"no worker has started within 2 s: it needs CPU=1, gold=1, and the nodes of the cluster have .*CPU=1",
            "Add a node",
        ),
        ({"runtime_env": {"py_modules": 3}}, "runtime_env|py_modules", ""),
        (
            {"workplace": {"overrides": ('sandbox_mode="nowhere"',)}},
            r"the worker \S+:\d+: .*nowhere",
            "",
        ),
    ],
    ids=["unreachable", "no room", "runtime_env", "configuration"],
)
async def test_what_prevents_workers_is_an_error_of_open(
    opened: Open, changes: dict[str, Any], fact: str, hint: str
) -> None:
    with pytest.raises(CodexError, match=fact) as refused:
        async with opened(**changes):
            pass
    assert hint in refused.value.hint
    assert ray.is_initialized() is False
