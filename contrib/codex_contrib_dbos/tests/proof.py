"""Many sessions, with lost workers and databases, and what a session costs: python tests/proof.py [SESSIONS].

It first measures: 100 sessions and SESSIONS sessions of ten calls on two workers, beside as many workflows of DBOS that do nothing and
sessions of the launcher ``pool``. Then it runs SESSIONS sessions while workers are killed, connections cut, and PostgreSQL restarted.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conftest import Server, Site, job
from proxy import Proxy

from codex_contrib_dbos.launcher import OpenDbos
from codex_framework.contract.roles.launchers import JobResult, OpenLauncher
from codex_framework.contract.roles.outcomes import Status

STEPS = 10


async def prove(server: Server, site: Site, sessions: int, *, kills: int, seed: int = 1) -> int:
    """Run sessions while workers are killed, connections cut and PostgreSQL is restarted. Return how many sessions lost a worker."""
    chance = random.Random(seed)
    proxy = Proxy(site.url)
    direct, site.url = site.url, proxy.url
    try:
        workers = [site.start_worker(), site.start_worker()]
        async with site.open() as opened:
            running = asyncio.create_task(run_all(opened, sessions, pause_s=0.05))
            for number in range(kills):
                await wait_for_effects(site, sessions * STEPS * (number + 1) // (kills + 2), running)
                if number == kills // 2:
                    proxy.cut()
                    await asyncio.sleep(1)
                    server.stop()
                    await asyncio.sleep(1)
                    server.start()
                    await wait_for_effects(site, count_effects(site) + 20, running)  # what was not saved is saved now
                lost = chance.randrange(2)
                workers[lost].kill()
                workers[lost] = await asyncio.to_thread(site.start_worker)
            results = await running
    finally:
        site.url = direct
        proxy.close()
    bad = [result for result in results if result.status is not Status.COMPLETED]
    assert not bad, bad[:3]
    wrong = {name: site.steps(name) for name in names(sessions) if site.steps(name) != [*range(1, STEPS + 1)]}
    assert not wrong, dict(list(wrong.items())[:3])
    return sum(result.attempts - 1 for result in results)


async def run_all(opened: OpenLauncher, sessions: int, *, pause_s: float = 0.0) -> list[JobResult]:
    """Run sessions, and return their results."""

    async def run(name: str) -> JobResult:
        return await (await opened.start(job(name, STEPS, pause_s=pause_s))).result()

    return await asyncio.gather(*(run(name) for name in names(sessions)))


def names(sessions: int) -> list[str]:
    """Return the keys of the sessions."""
    return [f"session-{number}" for number in range(sessions)]


def count_effects(site: Site) -> int:
    """Return the number of calls that had their effect."""
    return sum(path.read_text().count("\n") for path in site.effects.iterdir())


async def wait_for_effects(site: Site, count: int, running: asyncio.Task[list[JobResult]]) -> None:
    """Wait for a number of calls, or the end."""
    while count_effects(site) < count and not running.done():
        await asyncio.sleep(0.1)


async def measure(server: Server, sessions: int) -> float:
    """Return the seconds for each session on two workers, after their start."""
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder), server.new_database())
        try:
            async with site.open(workers=2) as opened:
                assert isinstance(opened, OpenDbos)
                began = time.perf_counter()
                await run_all(opened, sessions)
                return (time.perf_counter() - began) / sessions
        finally:
            site.close()


async def measure_pool(server: Server, sessions: int) -> float:
    """Return the seconds for each session on the launcher ``pool`` with two workers."""
    from codex_plugin_launchers.pool import PoolLauncher

    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder), server.new_database())
        opened = await PoolLauncher(workers=2).open(site.workplace(), max_sessions=32)
        try:
            began = time.perf_counter()
            await run_all(opened, sessions)
            return (time.perf_counter() - began) / sessions
        finally:
            await opened.aclose()


BARE = """
import sys, time
from dbos import DBOS
DBOS(config={"name": "bare", "system_database_url": sys.argv[1], "log_level": "ERROR", "executor_id": "bare"})
@DBOS.workflow()
async def nothing(text: str) -> str:
    return text
DBOS.launch()
DBOS.register_queue("bare", worker_concurrency=32, polling_interval_sec=0.05)
began = time.perf_counter()
handles = [DBOS.enqueue_workflow("bare", nothing, "text") for _ in range(int(sys.argv[2]))]
for handle in handles:
    handle.get_result(polling_interval_sec=0.05)
print(time.perf_counter() - began)
DBOS.destroy()
"""


def measure_bare(server: Server, workflows: int) -> float:
    """Return the seconds for each workflow of DBOS that does nothing."""
    command = [sys.executable, "-c", BARE, server.new_database(), str(workflows)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / workflows


async def main() -> None:
    """Print the figures."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    server = Server(folder)
    try:
        few, many = await measure(server, 100), await measure(server, sessions)
        print(
            f"a session of {STEPS} calls: {few * 1000:.0f} ms with 100, {many * 1000:.0f} ms with {sessions}: {many / few:.2f}"
        )
        bare = await asyncio.to_thread(measure_bare, server, 100)
        print(f"a workflow that does nothing: {bare * 1000:.0f} ms")
        pool = await measure_pool(server, 100)
        print(f"beside the pool ({pool * 1000:.0f} ms): {few / pool:.2f}")
        with tempfile.TemporaryDirectory() as work:
            site = Site(Path(work), server.new_database())
            try:
                lost = await prove(server, site, sessions, kills=6)
            finally:
                site.close()
        print(f"{sessions} sessions complete, no call twice; {lost} sessions have lost a worker")
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(main())
