"""What a session costs on Ray, beside a bare actor and beside the local pool, and whether all survive random kills.

    PYTHONPATH=contrib/codex_contrib_ray/tests python contrib/codex_contrib_ray/benchmarks/sessions.py [--sessions 1000] [--small 100]

It starts a cluster of Ray with two nodes on loopback. The model is a server in this process. Each session calls a tool in each of its
rounds, which appends a line to a file. Times of one run say little: compare the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conftest import Cluster
from scene import Scene
from test_kills import kill_one

from codex_contrib_ray.launcher import RayLauncher
from codex_contrib_ray.settings import RaySettings
from codex_framework.contract.roles.launchers import Job, Launcher
from codex_framework.contract.roles.outcomes import Status


async def run(launcher: Launcher, sessions: int, rounds: int, kills: int = 0) -> float:
    """Run sessions, and return the milliseconds per session. Ends the program if one fails or an effect happened twice."""
    scene = Scene(Path(tempfile.mkdtemp()), rounds=rounds)
    keys = [f"row {number}" for number in range(sessions)]
    opened = await launcher.open(scene.workplace, max_sessions=64)
    killer = asyncio.create_task(kill(scene, sessions * rounds, kills))
    began = time.monotonic()
    try:
        running = [await opened.start(Job(key=key, prompt="act")) for key in keys]
        results = [await job.result() for job in running]
    finally:
        seconds = time.monotonic() - began
        killer.cancel()
        await opened.aclose()
        scene.close()
    failed = [result for result in results if result.status is not Status.COMPLETED]
    if failed:
        sys.exit(f"{len(failed)} of {sessions} sessions failed: {failed[0]}")
    scene.check(keys)
    return seconds / sessions * 1000


async def kill(scene: Scene, effects: int, kills: int) -> None:
    """Kill workers at random moments that are spread over the run."""
    for number in range(kills):
        target = effects * (number + random.random()) / kills  # noqa: S311
        while scene.effects.read_bytes().count(b"\n") <= target:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        await asyncio.to_thread(kill_one, scene)


async def bare_actor(address: str, calls: int) -> float:
    """Return the milliseconds per call of an actor that does nothing."""
    import ray

    class Nothing:
        async def nothing(self) -> str:
            return "{}"

    ray.init(address=address, log_to_driver=False)
    actor: Any = ray.remote(Nothing).options(num_cpus=1).remote()
    await actor.nothing.remote()
    began = time.monotonic()
    for first in range(0, calls, 64):
        await asyncio.gather(*(actor.nothing.remote() for _ in range(first, min(calls, first + 64))))
    seconds = time.monotonic() - began
    ray.shutdown()
    return seconds / calls * 1000


async def main(options: argparse.Namespace) -> None:
    """Measure, and print the table."""
    from codex_plugin_launchers.pool import PoolLauncher

    cluster = Cluster()
    cluster.add_node()
    on_ray = RayLauncher(RaySettings(address=cluster.address, idle_s=20.0))
    pool = PoolLauncher(workers=2, sessions=32)
    try:
        bare = await bare_actor(cluster.address, options.sessions)
        small = await run(on_ray, options.small, options.rounds)
        beside = await run(pool, options.small, options.rounds)
        large = await run(on_ray, options.sessions, options.rounds)
        killed = await run(on_ray, options.sessions, options.rounds, options.kills)
    finally:
        cluster.stop()
    print(f"bare actor, one call              {bare:8.2f} ms")
    print(f"ray, {options.small} sessions                {small:8.2f} ms per session")
    print(f"pool, {options.small} sessions               {beside:8.2f} ms per session")
    print(f"ray, {options.sessions} sessions               {large:8.2f} ms per session")
    print(f"ray, {options.sessions} sessions, {options.kills} kills      {killed:8.2f} ms per session")
    flat = f"{options.sessions} / {options.small} sessions {large / small:.2f}"
    print(f"ray / pool {small / beside:.2f}; {flat}; with kills {killed / large:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("sessions", 1000), ("small", 100), ("rounds", 10), ("kills", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asyncio.run(main(parser.parse_args()))
