"""What a launcher costs a session, beside `kernel.run` in one process, and whether anything happens twice when workers are killed.

    python benchmarks/launchers.py [--sessions 1000] [--calls 10] [--workers 2] [--kill-every 5] [--parts bare in-process pool killed]

Each session appends ``--calls`` lines to a log, one call of a command after the other. The model is another process on loopback.
It decides by the conversation, and repeats a call whose output was lost if its line is not in the log. Compare the ratios: the parts
run one after the other on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from codex_framework import Agent, Kernel
from codex_framework.config import load_config
from codex_framework.contract.roles.launchers import Job, JobResult, Workplace
from codex_framework.testing import ResponsesServer, call, say
from codex_plugin_launchers.in_process import InProcessLauncher
from codex_plugin_launchers.pool import PoolLauncher

_OVERRIDES = (
    'model="gpt-5.5"',
    'model_provider="loopback"',
    'approval_policy="never"',
    'sandbox_mode="danger-full-access"',
    'model_providers.loopback.name="loopback"',
    'model_providers.loopback.wire_api="responses"',
)


def reply_to(request: Any, calls: int) -> Any:
    """Return the next call of a session, or its end."""
    items = request.json["input"]
    texts = [item["content"][0]["text"] for item in items if item.get("role") == "user"]
    prompt = next(text for text in texts if text.startswith("job "))
    outputs = [item["output"] for item in items if item["type"] == "function_call_output"]
    done = sum("written" in output for output in outputs)
    if done >= calls or len(outputs) > 20 * calls:
        return say(f"{done} lines")
    line = f"{prompt} {done + 1}"
    look = f"grep -qx '{line}' log || " if len(outputs) > done else ""
    return call("exec_command", cmd=f"{look}echo '{line}' >> log && echo written")


def serve(calls: int) -> None:
    """Answer until stdin ends."""
    with ResponsesServer([lambda request: reply_to(request, calls)], repeat_last=True) as server:
        print(server.url, flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def model(calls: int) -> Iterator[str]:
    """Run the model in a process of its own, and return its address."""
    command = [sys.executable, __file__, "--serve", "--calls", str(calls)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


async def run_bare(workplace: Workplace, sessions: int, at_once: int) -> Sequence[str]:
    """Run the sessions on a kernel of this process."""
    environ = {**os.environ, **workplace.environ}
    config = load_config(cwd=workplace.cwd, environ=environ, overrides=workplace.overrides)
    room = asyncio.Semaphore(at_once)
    async with await Kernel.create(config, environ=environ) as kernel:

        async def run(number: int) -> str:
            async with room:
                result = await kernel.run(Agent(name="bare"), f"job {number}", cwd=Path(workplace.cwd))
            return str(result.status)

        return await asyncio.gather(*(run(number) for number in range(sessions)))


async def run_launcher(kind: str, workplace: Workplace, options: argparse.Namespace) -> Sequence[JobResult]:
    """Run the sessions on a launcher."""
    launcher = InProcessLauncher() if kind == "in-process" else PoolLauncher(workers=options.workers)
    opened = await launcher.open(workplace)
    killing = asyncio.create_task(kill_workers(options.kill_every)) if kind == "killed" else None
    try:
        jobs = [await opened.start(Job(key=f"k{number}", prompt=f"job {number}")) for number in range(options.sessions)]
        return [await job.result() for job in jobs]
    finally:
        if killing is not None:
            killing.cancel()
        await opened.aclose()


async def kill_workers(every_s: float) -> None:
    """Kill a worker now and then."""
    generator = random.Random(7)  # not secret
    while True:
        await asyncio.sleep(generator.uniform(0.5, 1.5) * every_s)
        if workers := [pid for child in children(os.getpid()) for pid in children(child)]:
            os.kill(generator.choice(workers), signal.SIGKILL)


def children(pid: int) -> Sequence[int]:
    """Return the processes that a process has started."""
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def measure(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run all sessions in one way, check the log, and return figures."""
    with tempfile.TemporaryDirectory() as folder, model(options.calls) as url:
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        work.mkdir()
        overrides = (*_OVERRIDES, f'model_providers.loopback.base_url="{url}"')
        workplace = Workplace(cwd=str(work), overrides=overrides, environ={"CODEX_HOME": str(home), "HOME": str(home)})
        began = time.monotonic()
        if part == "bare":
            statuses = asyncio.run(run_bare(workplace, options.sessions, 16))
            more: dict[str, Any] = {}
        else:
            results = asyncio.run(run_launcher(part, workplace, options))
            statuses = [str(result.status) for result in results]
            attempts = [result.attempts for result in results]
            more = {"attempts": max(attempts), "continued": sum(count > 1 for count in attempts)}
            more |= {"failures": sorted({result.failure.fact for result in results if result.failure is not None})}
        seconds = time.monotonic() - began
        lines = (work / "log").read_text().splitlines()
    expected = {f"job {number} {line}" for number in range(options.sessions) for line in range(1, options.calls + 1)}
    return {
        "part": part,
        "sessions": options.sessions,
        "ms_per_session": round(1000 * seconds / options.sessions, 1),
        "completed": statuses.count("completed"),
        "missing": len(expected - set(lines)),
        "twice": len(lines) - len(set(lines)),
        **more,
    }


def main() -> None:
    """Measure the parts, and print a line of JSON for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=5.0)
    parser.add_argument("--parts", nargs="*", default=["bare", "in-process", "pool", "killed"])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        serve(options.calls)
        return
    figures: dict[str, list[float]] = {}
    for _ in range(options.repeat):
        for part in options.parts:
            found = measure(part, options)
            figures.setdefault(part, []).append(found["ms_per_session"])
            print(json.dumps(found), flush=True)
    if "bare" in figures:
        base = statistics.median(figures["bare"])
        print(json.dumps({part: round(statistics.median(found) / base, 2) for part, found in figures.items()}))


if __name__ == "__main__":
    main()
