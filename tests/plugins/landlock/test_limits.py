"""How much a command may use: processes, memory and file size. Bombs go off for real, and end with their command."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # an ordinary user may not be able to read it later
import os
import resource
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.file_access import Protection, ResourceLimits
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.slow

MOST = 200
"""Processes in these tests: a bomb of so many is kind to the machine."""

SPARE = 300
"""A process namespace may hold so many more."""

WITHIN_S = 60
MODES = [(level, user) for level in ("namespaces", "landlock") for user in ("root", "ordinary")]
ROOT_IS_THOROUGH = [
    pytest.param(mode, marks=pytest.mark.thorough if mode[1] == "root" else (), id="-".join(mode)) for mode in MODES
]
"""For tests that take seconds, and are as hard for an ordinary user."""

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture(params=MODES, ids="-".join)
def mode(request, harness):
    level, user = request.param
    reason = harness.reason_to_skip(level, user)
    if reason:
        pytest.skip(reason)
    uid = harness.ORDINARY_UID if user == "ordinary" and os.geteuid() == 0 else os.geteuid()
    place = harness.make_place(uid)
    yield level, user, place
    shutil.rmtree(place.base)


def run_commands(harness, mode, limits, work):
    """``work(start)`` as that user, with commands under these limits."""
    level, user, place = mode

    async def main():
        sandbox = LandlockSandbox(level, python=harness.PYTHON if user == "ordinary" else sys.executable)
        confinement = sandbox.confine(place.access().evolve(limits=limits), place.work)

        def start(*argv, env=ENV, **options):
            return start_command(confinement, argv=argv, cwd=str(place.work), env=env, **options)

        try:
            async with asyncio.timeout(WITHIN_S):
                return await work(sandbox, start)
        finally:
            await sandbox.aclose()

    return harness.as_user(user, lambda: asyncio.run(main()))


async def output_of(started):
    return (await (await started).wait()).output


def alive(marker):
    """Processes with this word in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


FORKS = (
    "import os, time\n"
    "made = 0\n"
    "try:\n"
    "    while made < 5000:\n"
    "        if os.fork() == 0:\n"
    "            time.sleep(100)\n"
    "            os._exit(0)\n"
    "        made += 1\n"
    "except BlockingIOError:\n"
    "    print(made)\n"
)


def test_the_number_of_processes_is_bounded_where_the_report_says_so(harness, mode):
    limits = ResourceLimits(processes=MOST)

    async def work(sandbox, start):
        first = await output_of(start("true"))
        bounded = sandbox.probe().protections[Protection.PROCESS_COUNT]
        if not bounded:
            return first, bounded, 0
        return first, bounded, int(await output_of(start(harness.PYTHON, "-S", "-c", FORKS)))

    _, bounded, made = run_commands(harness, mode, limits, work)
    level, user, _ = mode
    if not bounded:
        assert (level, user) == ("landlock", "root") or user == "root"
        pytest.skip("nothing bounds the number of processes here, and the report says so")
    most = MOST + (
        SPARE if level == "namespaces" else int(Path("/proc/loadavg").read_text().split("/")[1].split()[0]) * 2
    )
    assert MOST - 2 <= made < most


@pytest.mark.parametrize("mode", ROOT_IS_THOROUGH, indirect=True)
def test_so_many_are_to_be_had_however_often_process_ids_have_gone_round(harness, mode):
    """It takes seconds: process ids go round after so many processes."""

    async def work(sandbox, start):
        script = "for i in $(seq 1200); do (:) ; done; for i in $(seq 150); do sleep 60 & done; jobs -r | wc -l"
        return [await output_of(start("bash", "-c", script)) for _ in range(2)]

    assert run_commands(harness, mode, ResourceLimits(processes=MOST), work) == ["150\n", "150\n"]


BOMBS = {
    "shell": ("bash", "-c", "bomb() { bomb | bomb & }; bomb; wait; sleep 100"),
    "python": (
        "/usr/bin/python3",
        "-S",
        "-c",
        "import os\nwhile True:\n try: os.fork()\n except OSError: pass",
    ),
    "sessions": (
        "/usr/bin/python3",
        "-S",
        "-c",
        "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nwhile True:\n try: os.fork() or os.setsid()\n except OSError: pass",
    ),
}


# What leaves its session is the hardest to end; the others are tried beside it in a thorough run.
@pytest.mark.parametrize(
    "bomb", [pytest.param(bomb, marks=() if bomb == "sessions" else pytest.mark.thorough) for bomb in BOMBS]
)
@pytest.mark.parametrize("mode", ROOT_IS_THOROUGH, indirect=True)
def test_a_fork_bomb_ends_when_its_time_is_up(harness, mode, bomb):
    marker = uuid.uuid4().hex

    async def work(sandbox, start):
        await output_of(start("true"))
        if not sandbox.probe().protections[Protection.PROCESS_COUNT]:
            return "unbounded"
        ended = await (await start(*BOMBS[bomb], env={**ENV, "MARKER": marker}, timeout_ms=250, drain_ms=0)).wait()
        return ended.exit_code, await output_of(start("echo", "next"))

    found = run_commands(harness, mode, ResourceLimits(processes=MOST), work)
    if found == "unbounded":
        pytest.skip("nothing bounds the number of processes here")
    assert tuple(found) == (124, "next\n")
    assert alive(marker) == []


def test_memory_is_bounded(harness, mode):
    limits = ResourceLimits(memory_bytes=200 << 20)
    code = "x = bytearray(50 << 20); print('some')\ntry: bytearray(400 << 20)\nexcept MemoryError: print('not more')"

    async def work(sandbox, start):
        own = await output_of(start(harness.PYTHON, "-S", "-c", code))
        child = await output_of(start("sh", "-c", f'{harness.PYTHON} -S -c "$0"', code))
        return own, child

    assert list(run_commands(harness, mode, limits, work)) == ["some\nnot more\n"] * 2


def test_a_memory_limit_below_the_sandboxs_own_need_is_the_commands_alone(harness, mode):
    async def work(sandbox, start):
        return [await output_of(start("sh", "-c", "ulimit -v; ulimit -Hv")) for _ in range(3)]

    limits = ResourceLimits(memory_bytes=6 << 20)
    assert run_commands(harness, mode, limits, work) == [f"{6 << 10}\n{6 << 10}\n"] * 3


def test_a_memory_limit_holds_on_a_terminal_too(harness, mode):
    async def work(sandbox, start):
        return await output_of(start("sh", "-c", "test -t 0 && ulimit -v", tty=True))

    assert run_commands(harness, mode, ResourceLimits(memory_bytes=100 << 20), work) == f"{100 << 10}\r\n"


def test_file_size_is_bounded(harness, mode):
    async def work(sandbox, start):
        ended = await (
            await start("sh", "-c", "head -c 3000000 /dev/zero > file; head -c 1000 /dev/zero > other")
        ).wait()
        return ended.exit_code

    level, user, place = mode
    (place.work / "other").touch()
    os.chown(place.work / "other", (place.work / "file").stat().st_uid, -1)
    run_commands(harness, mode, ResourceLimits(file_bytes=1 << 20), work)
    assert [(place.work / name).stat().st_size for name in ("file", "other")] == [1 << 20, 1000], (level, user)


def test_limits_cannot_be_lifted(harness, mode):
    limits = ResourceLimits(processes=MOST, memory_bytes=300 << 20, file_bytes=1 << 20)
    code = (
        "import resource\n"
        "for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):\n"
        "    try: resource.setrlimit(kind, (1 << 40, 1 << 40)); print('without_sandbox')\n"
        "    except (ValueError, OSError): pass\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE))"
    )

    async def work(sandbox, start):
        return await output_of(start(harness.PYTHON, "-S", "-c", code))

    assert run_commands(harness, mode, limits, work) == "(0, 0)\n"


def test_without_limits_there_are_none_but_on_core_dumps(harness, mode):
    code = "import resource as r; print(*[r.getrlimit(k) for k in (r.RLIMIT_AS, r.RLIMIT_FSIZE, r.RLIMIT_NPROC, r.RLIMIT_CORE)])"
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC)

    async def work(sandbox, start):
        return await output_of(start(harness.PYTHON, "-S", "-c", code))

    expected = " ".join(map(str, (*map(resource.getrlimit, kinds), (0, 0))))
    assert run_commands(harness, mode, ResourceLimits(processes=None), work) == expected + "\n"


@pytest.mark.parametrize(
    ("floor", "limits", "hint"),
    [
        (Protection.RESOURCES, ResourceLimits(), "memory_mb"),
        (Protection.RESOURCES, ResourceLimits(memory_bytes=1 << 30), "file_size_mb"),
        (Protection.PROCESS_COUNT, ResourceLimits(processes=None), "sandbox_limits.processes"),
    ],
)
def test_a_floor_on_what_is_not_limited_is_refused(harness, mode, floor, limits, hint):
    level, _, place = mode
    access = place.access().evolve(limits=limits, floor=frozenset({floor}))
    with pytest.raises(SandboxError) as caught:
        LandlockSandbox(level).confine(access, place.work)
    assert caught.value.slug == "sandbox-floor"
    assert hint in caught.value.hint


def test_a_floor_on_resources_stands_with_both_limits(harness, mode):
    level, _, place = mode
    limits = ResourceLimits(memory_bytes=1 << 30, file_bytes=1 << 30)
    access = place.access().evolve(limits=limits, floor=frozenset({Protection.RESOURCES}))
    assert LandlockSandbox(level).confine(access, place.work)


ENDED = (
    "import os, resource, subprocess, sys, time\n"
    "sys.path.append(sys.argv[1])\n"
    "from jail.ending import Ending\n"
    "from jail.syscalls import prctl\n"
    "prctl(36, 1)\n"
    "resource.setrlimit(resource.RLIMIT_NPROC, (200, 200))\n"
    "subprocess.Popen([sys.executable, '-S', '-c', sys.argv[2]])\n"
    "time.sleep(0.3)\n"
    "Ending().end_descendants()\n"
    "print('ended')\n"
)


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user of its own, whose processes can be counted")
@pytest.mark.parametrize("bomb", ["python", "sessions"])
def test_what_multiplies_is_ended_without_a_signal_to_everybody_too(harness, bomb):
    """As older kernels need it. It takes seconds: two hundred processes run until they are ended."""
    import codex_plugin_landlock

    marker = uuid.uuid4().hex
    folder = str(Path(codex_plugin_landlock.__file__).parent)

    def work():
        argv = [harness.PYTHON, "-I", "-S", "-c", ENDED, folder, BOMBS[bomb][-1]]
        done = subprocess.run(
            argv, env={"MARKER": marker}, cwd="/", capture_output=True, text=True, check=False, timeout=WITHIN_S
        )
        return done.stdout + done.stderr

    assert harness.as_user("ordinary", work) == "ended\n"
    assert alive(marker) == []


def test_a_limit_beyond_all_numbers_is_none(harness, mode):
    limits = ResourceLimits(processes=1 << 70, memory_bytes=1 << 70, file_bytes=1 << 70)

    async def work(sandbox, start):
        return await output_of(start("sh", "-c", "ulimit -f; ulimit -v"))

    assert run_commands(harness, mode, limits, work) == "unlimited\nunlimited\n"


def test_one_process_is_enough_for_a_command_of_one(harness, mode):
    async def work(sandbox, start):
        return [await output_of(start("echo", "alone")) for _ in range(3)]

    assert run_commands(harness, mode, ResourceLimits(processes=1), work) == ["alone\n"] * 3
