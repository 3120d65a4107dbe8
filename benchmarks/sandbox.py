"""What confining a command costs: /bin/true bare and in every form of sandbox, interleaved, on this machine.

python benchmarks/sandbox.py [ROUNDS] [--fat MB]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from codex_framework.commands.access import file_access
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_framework.contract.roles.sandboxes import Confinement, Launch
from codex_plugin_landlock.sandbox import LandlockSandbox

Starter = Callable[[], Awaitable[None]]
PROGRAM = "/bin/true"


def bare() -> Starter:
    async def run() -> None:
        subprocess.Popen(  # noqa: ASYNC220
            [PROGRAM], stdin=-3, stdout=-3, stderr=-3, start_new_session=True
        ).wait()

    return run


def by(confinement: Confinement, folder: str) -> Starter:
    null = os.open(os.devnull, os.O_RDWR)
    env = dict(os.environ)

    async def run() -> None:
        launch = Launch(argv=(PROGRAM,), cwd=folder, env=env, stdin=null, stdout=null, stderr=null)
        child = await confinement.start(launch)
        status = await child.wait()
        assert status == 0, status

    return run


def from_cold(level: str, folder: Path) -> Starter:
    """A launcher started for one command and ended again: what a command-line call pays."""
    access = file_access(permissions_of(WorkspaceWrite()), folder, os.environ)

    async def run() -> None:
        sandbox = LandlockSandbox(level)
        try:
            await by(sandbox.confine(access, folder), str(folder))()
        finally:
            await sandbox.aclose()

    return run


async def measure(rounds: int) -> None:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    access = file_access(permissions_of(WorkspaceWrite()), folder, os.environ)
    sandboxes = {level: LandlockSandbox(level) for level in ("namespaces", "landlock")}
    starters: dict[str, Starter] = {
        "bare subprocess.Popen": bare(),
        "kernel, not confined": by(Unconfined(), str(folder)),
    }
    for level, sandbox in sandboxes.items():
        if sandbox.probe().available:
            starters[f"launcher, {sandbox.probe().level}"] = by(sandbox.confine(access, folder), str(folder))
            starters[f"launcher from cold, {level}"] = from_cold(level, folder)
    times: dict[str, list[float]] = {name: [] for name in starters}
    try:
        for number in range(rounds + 3):
            for name, start in starters.items():
                if "cold" in name and number % 10:
                    continue
                began = time.perf_counter()
                await start()
                times[name].append(time.perf_counter() - began)
    finally:
        for sandbox in sandboxes.values():
            await sandbox.aclose()
        folder.rmdir()
    base = statistics.median(times["bare subprocess.Popen"][3:])
    print(f"{'variant':<48}{'median ms':>10}{'p95':>8}{'x bare':>8}")
    for name, values in times.items():
        kept = sorted(values[3:] or values)
        median = statistics.median(kept)
        print(f"{name:<48}{median * 1000:>10.2f}{kept[int(len(kept) * 0.95)] * 1000:>8.2f}{median / base:>8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=200)
    parser.add_argument("--fat", type=int, default=0, metavar="MB", help="let this process use that much memory first")
    options = parser.parse_args()
    ballast = bytearray(os.urandom(1 << 20) * options.fat)
    print(
        f"Python {sys.version.split()[0]}, {os.uname().sysname} {os.uname().release}, {len(ballast) >> 20} MB of ballast"
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(measure(options.rounds))


if __name__ == "__main__":
    main()
