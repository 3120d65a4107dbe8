"""What ``exec`` spends on a command, a turn and a patch, in instructions and in CPU time of its own process.

    python benchmarks/commands.py
    python benchmarks/commands.py --python other/checkout/.venv/bin/python --python .venv/bin/python
    python benchmarks/commands.py --job patch --rounds 0

Each ``--python`` is a Python into which a version of the package is installed; the versions are printed beside each other, with the
ratios of the others to the first. Both figures are of the process itself: neither the commands nor the model server count, and the
start is subtracted. Instructions are counted by valgrind (callgrind), in one run each: they are equal on a busy and on an idle
machine, but contain no work of the operating system. CPU time contains it; it is the median over interleaved rounds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from client import command_turns, idle_turns, patch

from codex_framework.testing.replies import call, reply, say
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ResponsesServer


def parallel_turns(count: int) -> list[Reply]:
    """``count`` turns of eight calls at once, and a last word."""
    calls = [call("exec_command", cmd="true", login=False, call_id=f"c{number}").items[0] for number in range(8)]
    return [*(reply(*calls) for _ in range(count)), say("done")]


JOBS: dict[str, tuple[str, int, Callable[[int], list[Reply]], str]] = {
    "command": ("a turn with `true`", 100, command_turns, "danger-full-access"),
    "confined": ("a turn with `true` in workspace-write", 100, command_turns, "workspace-write"),
    "parallel": ("a turn with 8 at once", 25, parallel_turns, "danger-full-access"),
    "turns": ("each of 500 turns, tool without a process", 500, idle_turns, "danger-full-access"),
    "patch": ("a patch of 200 files", 1, lambda _: patch(200), "danger-full-access"),
}
"""The jobs: what one unit is, how many units are in a run, the replies for so many, and the sandbox."""


def run_exec(python: str, home: Path, replies: list[Reply], sandbox: str, prefix: tuple[str, ...] = ()) -> float:
    """Run ``exec`` against a server with these replies, and return the CPU time of its process in milliseconds."""
    with ResponsesServer(replies) as server, tempfile.TemporaryDirectory() as work:
        argv = [
            *prefix, python, str(Path(python).with_name("codex-framework")), "exec", "--json", "--skip-git-repo-check",
            "-C", work, "-s", sandbox, "-m", "gpt-5.5", "-c", "model_provider=bench",
            "-c", f'model_providers.bench={{name="bench",base_url="{server.url}",request_max_retries=0}}', "go on",
        ]  # fmt: skip
        # Without a fixed seed, sets and dictionaries of strings have another order each time.
        env = {"PATH": os.environ.get("PATH", os.defpath), "CODEX_HOME": str(home), "HOME": str(home)}
        env |= {"PYTHONHASHSEED": "0"}
        with (home / "output").open("w+b") as output:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
            if child.wait():
                output.seek(0)
                sys.exit(f"{argv} failed with {child.returncode}:\n{output.read().decode()[-2000:]}")
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def count_instructions(python: str, home: Path, replies: list[Reply], sandbox: str) -> float:
    """Return the instructions of a run, in millions."""
    valgrind = shutil.which("valgrind")
    if not valgrind:
        sys.exit("Install valgrind: nothing else counts instructions on every machine.")
    with tempfile.TemporaryDirectory() as folder:
        prefix = (valgrind, "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/%p")
        run_exec(python, home, replies, sandbox, prefix)
        counts = [
            int(line.split()[1])
            for path in Path(folder).iterdir()
            for line in path.open()
            if line.startswith("totals:")
        ]
    return max(counts) / 1e6  # forks that have not yet become a command write files too


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="a Python with the package (default: this one); repeatable")
    parser.add_argument("--job", action="append", choices=JOBS, help="only this job; repeatable")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of CPU times; 0 leaves them out")
    options = parser.parse_args()
    pythons = options.python or [sys.executable]
    with tempfile.TemporaryDirectory() as temporary:
        homes = [Path(temporary, str(number)) for number in range(len(pythons))]
        for home in homes:
            home.mkdir()
        for name in options.job or JOBS:
            unit, units, replies, sandbox = JOBS[name]
            job = (pythons, homes, replies(units), sandbox)
            measure(run_exec, *job)  # the first run of a job compiles the modules that only it imports
            if sandbox != "workspace-write":  # valgrind does not know the system calls of sandboxes
                print_row(f"{unit} (M instructions)", [value / units for value in measure(count_instructions, *job)])
            rounds = [measure(run_exec, *job) for _ in range(options.rounds)]
            if rounds:
                columns = zip(*rounds, strict=True)
                print_row(f"{unit} (CPU ms)", [statistics.median(column) / units for column in columns])


def measure(
    figure: Callable[..., float], pythons: list[str], homes: list[Path], replies: list[Reply], sandbox: str
) -> list[float]:
    """Return a figure of a run with these replies, less that of a run that only starts, for each version."""
    return [
        figure(python, home, replies, sandbox) - figure(python, home, [say("done")], sandbox)
        for python, home in zip(pythons, homes, strict=True)
    ]


def print_row(what: str, values: list[float]) -> None:
    ratios = "".join(f"{value / values[0]:9.2f}x" for value in values[1:])
    print(f"{what:56}" + "".join(f"{value:10.2f}" for value in values) + ratios, flush=True)


if __name__ == "__main__":
    main()
