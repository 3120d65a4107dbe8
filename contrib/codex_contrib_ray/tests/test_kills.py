"""Many sessions on two workers that are killed at random, and whose program is killed and started again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scene import Scene, wait_for

from codex_contrib_ray.launcher import RayLauncher
from codex_contrib_ray.settings import RaySettings
from codex_framework.contract.roles.launchers import Job
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import encode

DRIVER = Path(__file__).parent / "driver.py"
SESSIONS = 24
KILLS = 3


@pytest.mark.slow
async def test_all_sessions_complete_and_no_effect_happens_twice(
    settings: RaySettings, cluster: Any, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, rounds=10)
    node = cluster.add_node()
    keys = [f"row {number}" for number in range(SESSIONS)]
    argv = [sys.executable, "-P", str(DRIVER), settings.address, settings.namespace, encode(scene.workplace)]
    program = subprocess.Popen([*argv, *keys], stdout=subprocess.DEVNULL)
    try:
        await asyncio.to_thread(wait_for, lambda: len(scene.acted_all()) > SESSIONS)
    finally:
        program.kill()
        program.wait()
    opened = await RayLauncher(settings.evolve(sessions_per_actor=4)).open(scene.workplace)
    try:
        jobs = [await opened.start(Job(key=key, prompt="act")) for key in keys]
        for number in range(KILLS):
            await asyncio.to_thread(wait_for, lambda n=number: len(scene.acted_all()) > SESSIONS * (2 + 2 * n))
            kill_one(scene)
        results = [await job.result() for job in jobs]
    finally:
        await opened.aclose()
        scene.close()
        cluster.kill_node(node)
    assert [result.status for result in results] == [Status.COMPLETED] * SESSIONS, results
    assert max(result.attempts for result in results) > 1
    scene.check(keys)


def kill_one(scene: Scene) -> None:
    """Kill one of the workers."""
    alive = [pid for pid in scene.workers() if Path(f"/proc/{pid}").exists()]
    with suppress(ProcessLookupError):
        os.kill(random.choice(alive), signal.SIGKILL)
