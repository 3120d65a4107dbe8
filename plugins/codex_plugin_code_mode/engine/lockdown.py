"""The program's confinement of itself: a list of the few system calls that it still needs, and limits."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
import sys

from codex_lib_confinement.seccomp import Instruction, packed

__all__ = ["limit_cpu", "lock_down"]

_X86_64 = {
    "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12,
    "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "select": 23, "sched_yield": 24, "mremap": 25, "madvise": 28,
    "getpid": 39, "exit": 60, "gettimeofday": 96, "getrusage": 98, "sigaltstack": 131, "gettid": 186, "futex": 202,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "pselect6": 270,
    "ppoll": 271, "prlimit64": 302, "getrandom": 318, "membarrier": 324,
}  # fmt: skip
_AARCH64 = {
    "close": 57, "lseek": 62, "read": 63, "write": 64, "pselect6": 72, "ppoll": 73, "fstat": 80, "exit": 93, "exit_group": 94,
    "futex": 98, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115, "sched_yield": 124, "restart_syscall": 128,
    "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "getrusage": 165, "gettimeofday": 169,
    "getpid": 172, "gettid": 178, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233,
    "prlimit64": 261, "getrandom": 278, "membarrier": 283,
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
"""The calls of an interpreter that computes, reads its input and writes its output (numbers of Linux's ``asm/unistd``)."""

_LOAD, _JUMP_EQ, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_NR, _ARCH, _FIRST, _THIRD = 0, 4, 16, 32
_PROT_EXEC = 4

_SET_NO_NEW_PRIVS, _SET_DUMPABLE = 38, 4
_MODE_FILTER, _ALL_THREADS = 1, 1
_SECCOMP = {"x86_64": 317, "aarch64": 277}
"""The call that sets a filter. The engine's package has a thread that needs the filter too."""

_ADDRESS_SPACE = 1 << 30
"""Maximum memory of the process, in bytes. Scripts have a smaller limit."""


def lock_down() -> bool:
    """Permanently give up everything but computing and the open descriptors.

    Return whether the system enforces it. Limits are always set. On systems without system-call filters, the process must be
    confined from outside.
    """
    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, _ADDRESS_SPACE), (resource.RLIMIT_FSIZE, 0)):
        with contextlib.suppress(OSError, ValueError):  # a smaller limit is in force
            resource.setrlimit(kind, (most, most))
    machine = os.uname().machine
    if not sys.platform.startswith("linux") or machine not in _MACHINES or sys.maxsize < 2**32:
        return False
    architecture, numbers = _MACHINES[machine]
    program = packed(_filter(architecture, numbers))
    libc = ctypes.CDLL(None, use_errno=True)
    instructions = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.syscall(_SECCOMP[machine], _MODE_FILTER, _ALL_THREADS, described) == 0)


def _filter(architecture: int, numbers: dict[str, int]) -> list[Instruction]:
    """Return a filter that refuses every call that is not in a list, and memory for new machine code."""
    checked = {
        "mmap": (_THIRD, _JUMP_SET, _PROT_EXEC),
        "mprotect": (_THIRD, _JUMP_SET, _PROT_EXEC),
        "prlimit64": (_FIRST, _JUMP_EQ, 0),
    }
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQ, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NR),
    ]
    for name, number in sorted(numbers.items(), key=lambda item: item[1]):
        if name not in checked:
            program += [(_JUMP_EQ, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
            continue
        offset, jump, value = checked[name]
        holds, otherwise = (_ALLOW, _REFUSE) if jump == _JUMP_EQ else (_REFUSE, _ALLOW)
        program += [
            (_JUMP_EQ, 0, 4, number),
            (_LOAD, 0, 0, offset),
            (jump, 0, 1, value),
            (_RETURN, 0, 0, holds),
            (_RETURN, 0, 0, otherwise),
        ]
    return [*program, (_RETURN, 0, 0, _REFUSE)]


def limit_cpu(seconds: int) -> None:
    """Let the process use only so much more processor time, in seconds. Then the system ends it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + seconds
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
