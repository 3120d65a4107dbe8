"""What the driver of a batch costs, by simulating its sessions: 100, 10,000 and 100,000 of them in a minute or two.

First some sessions run for real, against a model on loopback, and their durations are recorded (or taken from ``--results``, the
results file of a batch of yours). Then the real driver (rows, results file, retries, budget) runs many rows on a launcher whose
sessions only wait for one of these durations, in an event loop whose clock jumps to the next timer. Some fail and are retried.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import selectors
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from codex_client_batch.budget import Budget
from codex_client_batch.results import ResultsFile
from codex_client_batch.rows import RowReader
from codex_client_batch.run import BatchRun
from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.roles.launchers import Job, JobFailure, JobResult
from codex_framework.contract.roles.outcomes import Status, Usage
from codex_framework.testing import ModelServer, say
from codex_lib_launch.encoding import thread_id_of
from codex_plugin_launchers.in_process import InProcess


class JumpingClock(selectors.DefaultSelector):
    """A selector that does not wait: it moves the clock of its loop to the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


def run_simulated(main: Any) -> float:
    """Run a coroutine in simulated time, and return how long it took in that time, in seconds."""
    clock = JumpingClock()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.now  # type: ignore[method-assign]
    try:
        loop.run_until_complete(main)
    finally:
        loop.close()
    return clock.now


class SimulatedLauncher:
    """A launcher whose sessions wait for a recorded duration. Every hundredth attempt loses its worker halfway."""

    def __init__(self, durations: list[float], seed: int) -> None:
        self._durations = durations
        self._random = random.Random(seed)
        self.work_s = 0.0

    async def start(self, job: Job) -> SimulatedJob:
        return SimulatedJob(job, self._random.choice(self._durations), self, is_lost=self._random.random() < 0.01)

    async def resume(self, key: str) -> SimulatedJob:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


class SimulatedJob:
    """A session that only takes time."""

    def __init__(self, job: Job, duration: float, launcher: SimulatedLauncher, *, is_lost: bool) -> None:
        self._job, self._launcher = job, launcher
        self._duration = duration / 2 if is_lost else duration
        self._is_lost = is_lost

    async def result(self) -> JobResult:
        await asyncio.sleep(self._duration)
        self._launcher.work_s += self._duration
        failure = JobFailure(fact="the worker was lost", slug="workers-lost", retryable=True) if self._is_lost else None
        return JobResult(
            key=self._job.key,
            thread_id=thread_id_of(self._job.key),
            status=Status.FAILED if self._is_lost else Status.COMPLETED,
            message=None if self._is_lost else "done",
            failure=failure,
            usage=Usage(1, 0, TokenUsage(total_tokens=1000)),
            cost={"USD": 0.01},
            worker="simulated",
            seconds=self._duration,
        )


def recorded_durations(count: int) -> list[float]:
    """Run sessions for real, and return how long each took, in seconds."""

    async def run(url: str, home: str) -> list[float]:
        environ = {"CODEX_HOME": home, "HOME": home, "PATH": "/usr/bin:/bin"}
        overrides = ["model_provider=local", f'model_providers.local.base_url="{url}"', "model=gpt-5.5"]
        config = load_config(cwd=home, environ=environ, overrides=overrides)
        async with await Kernel.create(config, environ=environ) as kernel:
            launcher = InProcess(kernel, max_sessions=8)
            jobs = [await launcher.start(Job(key=f"job-{number}", prompt="Hi!")) for number in range(count)]
            return [(await job.result()).seconds for job in jobs]

    delays = random.Random(1)
    with (
        tempfile.TemporaryDirectory() as home,
        ModelServer([lambda _: say("done").evolve(delay_s=delays.expovariate(20))], repeat_last=True) as server,
    ):
        return asyncio.run(run(server.url, home))


def measure(rows: int, most: int, durations: list[float]) -> dict[str, float]:
    """Run a simulated batch, and return its figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "rows.jsonl"
        with source.open("w") as stream:
            for number in range(rows):
                stream.write(json.dumps({"prompt": f"Answer ticket {number}.", "key": number}) + "\n")
        file = ResultsFile(folder / "results.jsonl", "rows.jsonl")
        launcher = SimulatedLauncher(durations, seed=rows)
        began = time.process_time()
        with source.open("rb") as stream:
            batch = BatchRun(
                launcher,
                file,
                most=most,
                retries=3,
                budget=Budget(cost=1e9),
                again=False,
                on_change=lambda: None,
            )
            simulated_s = run_simulated(batch.run(RowReader("agent", folder).rows(stream)))
        cpu_s = time.process_time() - began
        file.close()
        assert batch.counts == {Status.COMPLETED: rows}, batch.counts
        began = time.process_time()
        ResultsFile(folder / "results.jsonl", "rows.jsonl").close()
        return {
            "rows": rows,
            "cpu_ms": 1000 * cpu_s / rows,
            "full": launcher.work_s / (simulated_s * most),
            "read_ms": 1000 * (time.process_time() - began) / rows,
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 10_000, 100_000])
    parser.add_argument("--max", type=int, default=500, help="sessions that run at once")
    parser.add_argument("--results", type=Path, help="take durations from this results file")
    parser.add_argument("--scale", type=float, default=100, help="how much longer sessions take than those on loopback")
    options = parser.parse_args()
    if options.results is None:
        durations = [options.scale * each for each in recorded_durations(100)]
    else:
        lines = map(json.loads, options.results.read_text().splitlines())
        durations = [line["seconds"] for line in lines if line.get("status") == "completed"]
    print(f"{len(durations)} durations, median {statistics.median(durations):.3f} s; {options.max} sessions at once")
    print(f"{'sessions':>9} {'driver, CPU ms each':>20} {'slots full':>11} {'reading, CPU ms each':>21} {'peak MB':>8}")
    first = None
    for rows in options.rows:
        found = measure(rows, options.max, durations)
        first = first or found
        print(
            f"{rows:>9,} {found['cpu_ms']:>13.3f} ({found['cpu_ms'] / first['cpu_ms']:.2f}) {found['full']:>11.0%}"
            f" {found['read_ms']:>21.3f} {found['memory_mb']:>8.0f}"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
