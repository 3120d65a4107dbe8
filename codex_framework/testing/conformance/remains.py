"""Attacks on the next command: traces that one command leaves in its sandbox or in the process that starts commands.

Each is done in two steps. The first command changes something, and the second one, with the same permissions, looks for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from codex_framework.contract.permissions.file_access import Protection
from codex_framework.testing.conformance.attempts import Attack, Attempt, Scene

__all__ = ["PARENT", "remaining_attacks"]

PARENT = f"import os; PARENT = os.getppid(); assert PARENT not in (0, {os.getpid()})"
"""The start of a program that is about the process that starts commands. It spares this one, which starts them without a sandbox."""

_FOUND = "LEFT OVER"

_STATE = (
    "repr((resource.getrlimit(resource.RLIMIT_SIGPENDING), os.getpriority(os.PRIO_PROCESS, 0),"
    " sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0)))"
)
"""The inherited attributes of a process. Changes are meant to be small, in case they succeed outside of a sandbox."""

_CHANGES = {
    "limits": "resource.prlimit(PARENT, resource.RLIMIT_SIGPENDING, tuple(max(0, x - 1) for x in"
    " resource.getrlimit(resource.RLIMIT_SIGPENDING)))",
    "priority": "os.setpriority(os.PRIO_PROCESS, PARENT, os.getpriority(os.PRIO_PROCESS, 0) + 1)",
    "group's priority": "os.setpriority(os.PRIO_PGRP, os.getpgid(PARENT), os.getpriority(os.PRIO_PROCESS, 0) + 1)",
    "processors": "os.sched_setaffinity(PARENT, sorted(os.sched_getaffinity(0))[:-1])",
    "scheduler": "os.sched_setscheduler(PARENT, os.SCHED_BATCH, os.sched_param(0))",
}


def remaining_attacks(scene: Scene) -> Iterator[Attack]:
    """Yield the attacks. They need Linux."""
    if not sys.platform.startswith("linux"):
        return
    yield from _parent_attacks(scene)
    yield from _memory_attacks()
    yield _stop_attack()


def _parent_attacks(scene: Scene) -> Iterator[Attack]:
    noted = scene.work / "folder" / "noted"
    head = f"import os, resource; NOTED = {str(noted)!r}"
    look = f"{head}; print({_FOUND!r} if {_STATE} != open(NOTED).read() else 'as before')"
    for what, change in _CHANGES.items():
        code = f"{head}; open(NOTED, 'w').write({_STATE}); {PARENT}; {change}"
        yield _two_step_attack(f"change the {what} of later commands", code, look)


def _memory_attacks() -> Iterator[Attack]:
    """Return attacks on memory, semaphores and queues.

    Objects that succeed are removed, because they may belong to the machine.
    """
    name = f"check-sandbox-{os.getpid()}"
    key = 0x4C0D0000 | (os.getpid() & 0xFFFF)
    libc = f"import ctypes, os; libc = ctypes.CDLL(None); NAME = {name.encode()!r}; KEY = {key}"
    shared = Path("/dev/shm", name)  # noqa: S108  # a file of this check's own
    ways = {
        "a file in shared memory": (
            f"open({str(shared)!r}, 'w')",
            f"os.path.exists({str(shared)!r})",
            f"os.unlink({str(shared)!r})",
        ),
        "a segment of shared memory": (
            "libc.shmget(KEY, 64, 0o1666)",
            "libc.shmget(KEY, 64, 0) >= 0",
            "libc.shmctl(libc.shmget(KEY, 64, 0), 0, None)",
        ),
        "a semaphore": (
            "libc.semget(KEY, 1, 0o1666)",
            "libc.semget(KEY, 1, 0) >= 0",
            "libc.semctl(libc.semget(KEY, 1, 0), 0, 0)",
        ),
        "a message queue": (
            "libc.msgget(KEY, 0o1666)",
            "libc.msgget(KEY, 0) >= 0",
            "libc.msgctl(libc.msgget(KEY, 0), 0, None)",
        ),
        "a POSIX message queue": (
            "libc.mq_open(b'/' + NAME, os.O_CREAT | os.O_RDWR, 0o600, None)",
            "libc.mq_unlink(b'/' + NAME) == 0",
            "0",
        ),
    }
    for what, (leave, found, remove) in ways.items():
        look = f"{libc}; found = {found}; print({_FOUND!r} if found else 'nothing'); found and {remove}"
        yield _two_step_attack(f"leave {what} to the next command", f"{libc}; {leave}", look, Protection.SHARED_MEMORY)


def _stop_attack() -> Attack:
    """Stop the process that would end the command when its time is over."""
    code = (
        f"{PARENT}; import signal, time; os.kill(PARENT, signal.SIGSTOP); time.sleep(0.3);"
        " state = open(f'/proc/{PARENT}/stat').read().rpartition(')')[2].split()[0];"
        f" print({_FOUND!r} if state == 'T' else 'it runs')"
    )
    attempt = Attempt(what="stop the process that confines it", argv=_python_argv(code), succeeded=_is_found)
    return Attack(attempt, Protection.LIFETIME)


def _two_step_attack(what: str, first: str, second: str, danger: Protection | None = None) -> Attack:
    attempt = Attempt(what=what, argv=_python_argv(first), succeeded=_is_found)
    return Attack(attempt, danger, then=_python_argv(second))


def _python_argv(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


def _is_found(said: str) -> bool:
    return _FOUND in said
