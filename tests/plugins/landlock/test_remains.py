"""A command finds the sandbox as the first one did, whatever the command before it has done."""

from __future__ import annotations

import os

import pytest

from codex_plugin_landlock.sandbox import LandlockSandbox

_SCHED = "os.sched_setscheduler(FIRST, os.SCHED_BATCH, os.sched_param(0))"
_NUMBERS = {"x86_64": {"ioprio_set": 251, "ioprio_get": 252}, "aarch64": {"ioprio_set": 30, "ioprio_get": 31}}
CALLS = _NUMBERS.get(os.uname().machine, {})

ON_ITS_STARTER = {
    "limits": (
        "resource.prlimit(FIRST, resource.RLIMIT_NOFILE, (40, 40))",
        "resource.getrlimit(resource.RLIMIT_NOFILE)",
    ),
    "priority": ("os.setpriority(os.PRIO_PROCESS, FIRST, 7)", "os.getpriority(os.PRIO_PROCESS, 0)"),
    "priority of its group": (
        "os.setpriority(os.PRIO_PGRP, os.getpgid(FIRST), 8)",
        "os.getpriority(os.PRIO_PROCESS, 0)",
    ),
    "affinity": ("os.sched_setaffinity(FIRST, {min(os.sched_getaffinity(0))})", "sorted(os.sched_getaffinity(0))"),
    "scheduler": (_SCHED, "os.sched_getscheduler(0)"),
    "priority of input and output": (
        f"refused(libc.syscall({CALLS.get('ioprio_set')}, 1, FIRST, 3 << 13))",
        f"libc.syscall({CALLS.get('ioprio_get')}, 1, 0)",
    ),
}
"""What a command tries to change of the process that starts commands, and how the next one sees it."""

IN_ITS_NAMESPACES = {
    "priority of its user": ("os.setpriority(os.PRIO_USER, 0, 9)", "os.getpriority(os.PRIO_PROCESS, 0)"),
    "a file in /dev/shm": ("open('/dev/shm/left', 'w')", "os.listdir('/dev/shm')"),
    "an attribute of /dev/shm": ("os.setxattr('/dev/shm', 'user.left', b'x')", "os.listxattr('/dev/shm')"),
    "the mode of /dev/shm": ("os.chmod('/dev/shm', 0o700)", "os.stat('/dev/shm').st_mode"),
    "the mode of terminals": ("os.chmod('/dev/pts/ptmx', 0)", "os.stat('/dev/pts/ptmx').st_mode"),
    "a segment": ("refused(libc.shmget(4711, 100, 0o1666))", "libc.shmget(4711, 100, 0o666)"),
    "a semaphore": ("refused(libc.semget(4711, 1, 0o1666))", "libc.semget(4711, 1, 0o666)"),
    "a queue": ("refused(libc.msgget(4711, 0o1666))", "libc.msgget(4711, 0o666)"),
    "a POSIX queue": (
        "refused(libc.mq_open(b'/left', os.O_CREAT | os.O_RDWR, 0o666, None))",
        "libc.mq_unlink(b'/left')",
    ),
}

_HEAD = (
    "import ctypes, os, resource\nlibc = ctypes.CDLL(None, use_errno=True)\nFIRST = os.getppid()\n"
    "def refused(result):\n if result < 0: raise OSError(ctypes.get_errno(), 'refused')\n"
)


def as_found(harness, level, user, tricks):
    """By trick: whether it was refused, and what commands before and after it have found."""
    if reason := harness.reason_to_skip(level, user):
        pytest.skip(reason)
    place = harness.make_place(harness.ORDINARY_UID if user == "ordinary" and os.geteuid() == 0 else os.geteuid())
    commands = {}
    for name, (act, see) in tricks.items():
        commands[f"{name}: before"] = commands[f"{name}: after"] = _python(harness, f"print({see})")
        tried = f"try:\n {act}; print('done')\nexcept OSError: print('refused')"
        commands |= {f"{name}: act": _python(harness, tried), f"{name}: after": commands.pop(f"{name}: after")}
    try:
        ended = harness.run_all(level, user, place.access(), place.work, commands)
    finally:
        import shutil

        shutil.rmtree(place.base)
    assert {name: one for name, one in ended.items() if one.exit_code} == {}
    return {name: tuple(ended[f"{name}: {step}"].output for step in ("act", "before", "after")) for name in tricks}


def _python(harness, code):
    return (harness.PYTHON, "-I", "-S", "-c", _HEAD + code)


@pytest.mark.skipif(not CALLS, reason="the numbers of system calls are unknown here")
@pytest.mark.parametrize("user", ["root", "ordinary"])
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_the_process_that_starts_commands_cannot_be_changed(harness, level, user):
    found = as_found(harness, level, user, ON_ITS_STARTER)
    assert {name: (act, before == after) for name, (act, before, after) in found.items()} == dict.fromkeys(
        ON_ITS_STARTER, ("refused\n", True)
    )


@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_nothing_outlives_a_command_in_its_namespaces(harness, user):
    found = as_found(harness, "namespaces", user, IN_ITS_NAMESPACES)
    assert {name: before for name, (_, before, after) in found.items() if before != after} == {}
    refused = {name for name, (act, *_) in found.items() if act == "refused\n"}
    assert refused <= {"priority of its user", "a POSIX queue", "an attribute of /dev/shm", "the mode of terminals"}


def test_a_sandbox_is_used_again_unless_a_command_has_left_something(confined_pids):
    plain = confined_pids("true", "touch /dev/shm/x; rm /dev/shm/x")
    assert len(set(plain)) == 1
    left = confined_pids("touch /dev/shm/x")
    assert len(set(left)) == 2


@pytest.fixture
def confined_pids(harness, place):
    """``confined_pids("script", ...)``: the processes outside that confined the scripts, and one command after them."""
    import asyncio

    from codex_framework.testing import run_confined

    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)

    def run(*scripts):
        async def main():
            sandbox = LandlockSandbox("namespaces")
            pids = []
            try:
                confinement = sandbox.confine(place.access(), place.work)
                for script in (*scripts, "true"):
                    await run_confined(confinement, ("sh", "-c", script), place.work)
                    await asyncio.sleep(0.05)  # it looks for what was left after it has reported the end
                    pids += [instance._pid for idle in sandbox._idle.values() for instance in idle]
            finally:
                await sandbox.aclose()
            return pids

        return asyncio.run(main())

    return run
