"""What a thread costs: instructions of its start and of its turns, and bytes.

    python benchmarks/threads.py
    python benchmarks/threads.py --python other/checkout/.venv/bin/python --python .venv/bin/python
    python benchmarks/threads.py --plugins 200
    python benchmarks/threads.py --long
    python benchmarks/threads.py --each
    python benchmarks/threads.py --functions further
    python benchmarks/threads.py --json

Instructions are counted by valgrind (callgrind), with the model in process: they are equal on a busy and on an idle machine, within
about 1 %. They hold for one build of Python. Each ``--python`` is a Python into which a version of the package is installed; the
versions are printed beside each other.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_JOBS = Path(__file__).with_name("thread_jobs.py")
_THREADS, _TURNS = 20, 3
_KINDS = ("empty", "request")


def run(python: str, *arguments: str) -> str:
    """Run a job without valgrind, and return its output."""
    done = subprocess.run([python, _JOBS, *arguments], capture_output=True, text=True, check=False, env=_environ())
    if done.returncode:
        raise SystemExit(f"{python} {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def count_parts(python: str, *arguments: str) -> list[int]:
    """Run a job under callgrind, and return the instructions between its marks."""
    valgrind = shutil.which("valgrind")
    if not valgrind:
        raise SystemExit("Install valgrind: nothing else counts instructions on every machine.")
    with tempfile.TemporaryDirectory() as folder:
        options = [f"--callgrind-out-file={folder}/out", "--dump-before=getpriority"]
        command = [valgrind, "--tool=callgrind", *options, python, str(_JOBS), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environ())
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr[-2000:]}")
        dumps = sorted(Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:]))
        sums = [int(line.split()[1]) for path in dumps for line in path.open() if line.startswith("summary:")]
    return sums[
        2::2
    ]  # what lies before the first mark, and the collections of garbage within the marks, is of no interest


def count_thread(python: str, *arguments: str) -> dict[str, float]:
    """Return the instructions of a kernel, a start, a first and a further turn, in millions."""
    sizes = ("--threads", str(_THREADS), "--turns", str(_TURNS))
    kernel, _warm_up, starts, firsts, furthers = count_parts(python, "count", *sizes, *arguments)
    each = {"start": starts / _THREADS, "first turn": firsts / _THREADS, "further turn": furthers / _THREADS / _TURNS}
    return {what: value / 1e6 for what, value in {"kernel": kernel, **each}.items()}


def measure_memory(python: str, *arguments: str, threads: int = 1000) -> dict[str, float]:
    """Return the bytes of a thread, by the process's resident memory and by what Python has allocated, in KB."""
    job = ("memory", "--threads", str(threads), *arguments)
    idle, used = json.loads(run(python, *job, "--resident"))
    allocated_idle, allocated_used = json.loads(run(python, *job))
    figures = {"idle, resident": idle, "after a turn, resident": used}
    return {
        what: value / 1000
        for what, value in {**figures, "idle": allocated_idle, "after a turn": allocated_used}.items()
    }


def compare(pythons: Sequence[str]) -> None:
    rows: dict[str, list[float]] = {}
    for python in pythons:
        for what, value in count_thread(python).items():
            rows.setdefault(f"{what} (M instructions)", []).append(value)
        for what, value in measure_memory(python).items():
            rows.setdefault(f"{what} (KB)", []).append(value)
    print_rows(rows)


def compare_idle_plugins(pythons: Sequence[str], plugins: int, rounds: int = 5) -> None:
    """Print what plugins that do nothing add to a further turn."""
    rows: dict[str, list[float]] = {}
    for kind in _KINDS:
        for python in pythons:
            added = ("--plugins", str(plugins), "--kind", kind)
            without, with_them = count_thread(python), count_thread(python, *added)
            for part in ("start", "further turn"):
                rows.setdefault(f"{plugins} {kind}: {part} (M instructions)", []).append(
                    with_them[part] - without[part]
                )
            times = []
            for _ in range(rounds):
                turn, longer = (float(run(python, "wall", "--turns", "60", *options)) for options in ((), added))
                times.append(longer - turn)
            rows.setdefault(f"{plugins} {kind}: further turn (ms, least of {rounds})", []).append(min(times))
    print_rows(rows)


def compare_long(pythons: Sequence[str]) -> None:
    rows: dict[str, list[float]] = {}
    for python in pythons:
        early, _between, late = count_parts(python, "long_thread")[-3:]
        for what, value in (("turn 100 (M)", early / 20e6), ("turn 3,000 (M)", late / 20e6), ("ratio", late / early)):
            rows.setdefault(what, []).append(value)
    print_rows(rows)


def show_each_plugin(python: str, only: Sequence[str]) -> None:
    """Print what a kernel with all plugins saves without each one.

    A kernel with one plugin alone would say less: most plugins need others, and what several use would count for each of them.
    """
    names = only or json.loads(run(python, "names"))
    whole, memory = count_thread(python), measure_memory(python, threads=200)
    print(f"{'':22}{'M instructions':>46}{'KB':>22}")
    print(f"{'without':22}{'kernel':>10}{'start':>12}{'first turn':>12}{'further':>12}{'idle':>11}{'after a turn':>15}")
    print(f"{'(all plugins)':22}" + _figures(whole, memory))
    for name in names:
        try:
            counted, used = (
                count_thread(python, "--without", name),
                measure_memory(python, "--without", name, threads=200),
            )
        except SystemExit as error:
            print(f"{name:22}  not without it: {str(error).strip().splitlines()[-1][:120]}", flush=True)
            continue
        saved = {what: whole[what] - value for what, value in counted.items()}
        print(f"{name:22}" + _figures(saved, {what: memory[what] - value for what, value in used.items()}), flush=True)


def _figures(counted: dict[str, float], memory: dict[str, float]) -> str:
    values = [counted[what] for what in ("kernel", "start", "first turn", "further turn")]
    return (
        f"{values[0]:10.1f}"
        + "".join(f"{value:12.3f}" for value in values[1:])
        + f"{memory['idle']:11.2f}{memory['after a turn']:15.2f}"
    )


def print_json(python: str, idle: int = 100) -> None:
    """Print the figures that tests/limits compares with recorded ones."""
    figures = {what.replace(" ", "_"): value for what, value in count_thread(python).items() if what != "kernel"}
    burdened = count_thread(python, "--plugins", str(idle))["further turn"]
    print(json.dumps({**figures, f"further_turn_with_{idle}_idle_plugins": burdened}))


def print_rows(rows: dict[str, list[float]]) -> None:
    for what, values in rows.items():
        print(f"{what:48}" + "".join(f"{value:12.3f}" for value in values))


def _environ() -> dict[str, str]:
    # Without a fixed seed, sets and dictionaries of strings have another order each time, and counts differ by some per cent.
    return {"PATH": os.environ.get("PATH", os.defpath), "PYTHONHASHSEED": "0"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", action="append", help="a Python with the package (default: this one); may be repeated"
    )
    views = parser.add_mutually_exclusive_group()
    views.add_argument("--plugins", type=int, metavar="N", help="what N plugins that do nothing add")
    views.add_argument(
        "--long", action="store_true", help="a further turn at turn 3,000 beside turn 100 (some minutes)"
    )
    views.add_argument(
        "--each", nargs="*", metavar="PLUGIN", help="what each bundled plugin costs (half an hour), or these"
    )
    views.add_argument("--functions", choices=("start", "first", "further"), help="the functions that do the work")
    views.add_argument("--json", action="store_true", help="the instructions as JSON, for tests")
    options = parser.parse_args()
    pythons = options.python or [sys.executable]
    for python in pythons:
        run(python, "wall", "--turns", "6")  # the first run compiles modules
    with contextlib.suppress(BrokenPipeError):
        if options.plugins is not None:
            compare_idle_plugins(pythons, options.plugins)
        elif options.long:
            compare_long(pythons)
        elif options.each is not None:
            show_each_plugin(pythons[0], options.each)
        elif options.functions:
            print(run(pythons[0], "functions", "--part", options.functions), end="")
        elif options.json:
            print_json(pythons[0])
        else:
            compare(pythons)


if __name__ == "__main__":
    main()
