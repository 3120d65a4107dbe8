"""Sessions on a real Ray cluster."""

from __future__ import annotations

import asyncio
import os
import signal

from scene import Scene, wait_for

from codex_contrib_ray.launcher import RayLauncher
from codex_framework.contract.roles.launchers import Job
from codex_framework.contract.roles.outcomes import Status


async def test_sessions_run_on_the_cluster(launcher: RayLauncher, scene: Scene) -> None:
    keys = [f"row {number}" for number in range(5)]
    cluster = await launcher.open(scene.workplace)
    try:
        jobs = [await cluster.start(Job(key=key, prompt="act", agent="actor")) for key in keys]
        results = [await job.result() for job in jobs]
    finally:
        await cluster.aclose()
    assert [(result.status, result.message, result.failure) for result in results] == [
        (Status.COMPLETED, "all done", None)
    ] * 5
    assert os.getpid() not in scene.workers()
    scene.check(keys)


async def test_a_session_continues_on_another_worker_when_its_own_is_killed(
    launcher: RayLauncher, scene: Scene
) -> None:
    scene.hold()
    cluster = await launcher.open(scene.workplace)
    try:
        job = await cluster.start(Job(key="a", prompt="act"))
        await asyncio.to_thread(wait_for, scene.workers)
        (pid,) = scene.workers()
        os.kill(pid, signal.SIGKILL)
        scene.release()
        result = await job.result()
    finally:
        await cluster.aclose()
    assert (result.status, result.message, result.attempts) == (Status.COMPLETED, "all done", 2), result
    assert len(scene.workers()) == 2
    scene.check(["a"])
