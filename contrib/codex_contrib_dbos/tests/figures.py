"""What a session costs: python tests/figures.py [SESSIONS ...].

Sessions of ten calls run on two workers of the launcher ``dbos``, then on two processes with workflows of DBOS that call
``kernel.run``, then on the launcher ``pool``. All have the same database, thread store and model. Compare the ratios.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from conftest import Server, Site, job, run_model, run_server
from dbos import DBOS, DBOSClient

from codex_framework.contract.roles.launchers import JobResult, OpenLauncher
from codex_framework.contract.roles.outcomes import Status
from codex_lib_launch.encoding import encode
from codex_plugin_launchers.pool import PoolLauncher

STEPS = 10
AT_ONCE = 16


async def run_dbos(site: Site, sessions: int) -> float:
    """Return the seconds of sessions on the launcher ``dbos``."""
    async with site.open(workers=2, concurrency=AT_ONCE) as opened:
        return await _run(opened, sessions)


async def run_pool(site: Site, sessions: int) -> float:
    """Return the seconds of sessions on the launcher ``pool``."""
    opened = await PoolLauncher(workers=2).open(site.workplace(), max_sessions=2 * AT_ONCE)
    try:
        return await _run(opened, sessions)
    finally:
        await opened.aclose()


async def _run(opened: OpenLauncher, sessions: int) -> float:
    async def run(number: int) -> JobResult:
        return await (await opened.start(job(f"session-{number}", STEPS))).result()

    began = time.monotonic()
    results = await asyncio.gather(*(run(number) for number in range(sessions)))
    assert {result.status for result in results} == {Status.COMPLETED}
    return time.monotonic() - began


async def run_bare(site: Site, sessions: int) -> float:
    """Return the seconds of workflows that call ``kernel.run``."""
    return await asyncio.to_thread(_run_bare, site, sessions)


def _run_bare(site: Site, sessions: int) -> float:
    workplace = site.workplace()
    DBOS.migrate(site.url, schema="dbos")
    client = DBOSClient(system_database_url=site.url, application_name="bare")
    client.register_queue("bare", worker_concurrency=AT_ONCE, polling_interval_sec=0.05)
    command = [sys.executable, str(Path(__file__).parent / "bare.py"), site.url]
    environ = {**os.environ, **workplace.environ}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, env=environ, **pipes) for _ in range(2)]
    try:
        for worker in workers:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(encode(workplace) + "\n")
            worker.stdin.flush()
            assert worker.stdout.readline() == "ready\n"
        began = time.monotonic()
        handles = [
            client.enqueue(
                {"queue_name": "bare", "workflow_name": "session", "app_version": "bare"},
                job(f"session-{number}", STEPS).prompt,
            )
            for number in range(sessions)
        ]
        assert {handle.get_result(polling_interval_sec=0.05) for handle in handles} == {"completed"}
        return time.monotonic() - began
    finally:
        for worker in workers:
            worker.communicate("")
        client.destroy()


async def main() -> None:
    """Print the figures."""
    runs: dict[str, Callable[[Site, int], Awaitable[float]]] = {"dbos": run_dbos, "bare": run_bare, "pool": run_pool}
    sizes = [int(word) for word in sys.argv[1:]] or [100, 1000, 100]
    with run_model() as model, run_server() as server:
        for sessions in sizes:
            each = {name: await _measure(server, model, run, sessions) for name, run in runs.items()}
            told = ", ".join(f"{name} {seconds * 1000 / sessions:.0f} ms" for name, seconds in each.items())
            bare, pool = each["dbos"] / each["bare"], each["dbos"] / each["pool"]
            print(f"{sessions} sessions: {told} each; dbos/bare {bare:.2f}, dbos/pool {pool:.2f}", flush=True)


async def _measure(server: Server, model: str, run: Callable[[Site, int], Awaitable[float]], sessions: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return await run(Site(Path(folder), server.new_database(), model), sessions)


if __name__ == "__main__":
    asyncio.run(main())
