"""What a session costs on Ray: with few and with many sessions, beside bare actors that do the same work, and beside the local pool.

    PYTHONPATH=contrib/codex_contrib_ray/tests python contrib/codex_contrib_ray/benchmarks/sessions.py [--sessions 1000] [--few 100]

It starts a cluster of Ray with two nodes on loopback. The model is a server in this process. Each session makes ten calls, each of
which appends a line to a file. Everything is measured in turn, several times, on workers that have run sessions before. Times of one
run say little: compare the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
from conftest import Cluster
from scene import Scene

from codex_contrib_ray.launcher import RayLauncher
from codex_contrib_ray.settings import RaySettings
from codex_framework.contract.roles.launchers import Job, JobResult, Launcher, Workplace
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import decode, encode

CALLS = 10
AT_ONCE = 64
WORKERS = 2
WARM_UP = 8 * AT_ONCE
"""Sessions that run until the second worker has started."""
Run = Callable[[Job], Awaitable[JobResult]]
Opens = Callable[[Workplace], AbstractAsyncContextManager[Run]]


@attrs.frozen
class Cost:
    """What a session has cost, in milliseconds.

    Attributes:
        wall: The time.
        workers: The CPU time of the workers.
        program: The CPU time of this process, which is also the model.
    """

    wall: float
    workers: float
    program: float


class Bare:
    """An actor that runs sessions, without queue, keys, events and restarts."""

    def __init__(self, workplace: str) -> None:
        self._workplace = workplace

    async def open(self) -> None:
        """Create the kernel."""
        from codex_lib_launch.worker import create_kernel

        self._kernel = await create_kernel(decode(Workplace, self._workplace))

    async def run(self, job: str) -> str:
        """Run a job, and return its result."""
        from codex_lib_launch.worker import Session, Worker

        return encode(await Worker(self._kernel).run(Session(decode(Job, job))))


def on_bare_actors(address: str) -> Opens:
    """Return a function that runs sessions on two actors, without the launcher."""

    @asynccontextmanager
    async def opened(workplace: Workplace) -> AsyncIterator[Run]:
        import ray

        ray.init(address=address, log_to_driver=False)
        actors: list[Any] = [
            ray.remote(Bare).options(num_cpus=1, max_concurrency=1000).remote(encode(workplace)) for _ in range(2)
        ]
        await asyncio.gather(*(actor.open.remote() for actor in actors))
        given = 0

        async def run(job: Job) -> JobResult:
            nonlocal given
            given += 1
            return decode(JobResult, await actors[given % 2].run.remote(encode(job)))

        try:
            yield run
        finally:
            for actor in actors:
                ray.kill(actor)
            ray.shutdown()

    return opened


def on(launcher: Launcher) -> Opens:
    """Return a function that runs sessions with a launcher."""

    @asynccontextmanager
    async def opened(workplace: Workplace) -> AsyncIterator[Run]:
        found = await launcher.open(workplace, max_sessions=AT_ONCE)

        async def run(job: Job) -> JobResult:
            return await (await found.start(job)).result()

        try:
            yield run
        finally:
            await found.aclose()

    return opened


async def measure(opens: Opens, sessions: int) -> Cost:
    """Run sessions, and return what each has cost. Raises AssertionError if one fails or an effect is missing or happened twice."""
    folder = Path(tempfile.mkdtemp())
    scene = Scene(folder, rounds=CALLS)
    try:
        async with opens(scene.workplace) as run:
            warm = await run_all(run, "warm", WARM_UP)
            assert len(scene.workers()) == WORKERS, "the second worker has started too late: run it again"
            workers, own, began = cpu_seconds(scene.workers()), time.process_time(), time.monotonic()
            keys = await run_all(run, "row", sessions)
            wall, own = time.monotonic() - began, time.process_time() - own
            workers = cpu_seconds(scene.workers()) - workers
        scene.check([*warm, *keys])
    finally:
        scene.close()
        shutil.rmtree(folder, ignore_errors=True)
    return Cost(*(seconds / sessions * 1000 for seconds in (wall, workers, own)))


async def run_all(run: Run, name: str, sessions: int) -> list[str]:
    """Run sessions, and return their keys."""
    keys = [f"{name} {number}" for number in range(sessions)]
    room = asyncio.Semaphore(AT_ONCE)

    async def run_one(key: str) -> None:
        async with room:
            result = await run(Job(key=key, prompt="act"))
        assert result.status is Status.COMPLETED, result

    await asyncio.gather(*(run_one(key) for key in keys))
    return keys


def cpu_seconds(pids: set[int]) -> float:
    """Return the CPU time that processes have used."""
    fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


async def main(options: argparse.Namespace) -> None:
    """Measure, and print the table."""
    from codex_plugin_launchers.pool import PoolLauncher

    cluster = Cluster()
    try:
        cluster.add_node()
        ray = on(RayLauncher(RaySettings(address=cluster.address, idle_s=20.0)))
        candidates = {
            f"bare actors, {options.few}": (on_bare_actors(cluster.address), options.few),
            f"pool, {options.few}": (on(PoolLauncher(workers=2, sessions=32)), options.few),
            f"ray, {options.few}": (ray, options.few),
            f"ray, {options.sessions}": (ray, options.sessions),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in candidates}
        for _ in range(options.repeat):
            for name, (opens, sessions) in candidates.items():
                costs[name].append(await measure(opens, sessions))
                print(name, costs[name][-1], flush=True)
    finally:
        cluster.stop()
    few = costs[f"ray, {options.few}"]
    print("sessions            ms each   CPU of workers   CPU of program   beside ray, few: time, CPU of workers")
    for name, found in costs.items():
        wall, workers, program = (
            statistics.median(getattr(cost, kind) for cost in found) for kind in ("wall", "workers", "program")
        )
        time_ratio = statistics.median(one.wall / other.wall for one, other in zip(found, few, strict=True))
        cpu_ratio = statistics.median(one.workers / other.workers for one, other in zip(found, few, strict=True))
        print(f"{name:18} {wall:8.1f} {workers:16.1f} {program:16.1f} {time_ratio:20.2f} {cpu_ratio:10.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, default in (("sessions", 1000), ("few", 100), ("repeat", 3)):
        parser.add_argument(f"--{option}", type=int, default=default)
    asyncio.run(main(parser.parse_args()))
