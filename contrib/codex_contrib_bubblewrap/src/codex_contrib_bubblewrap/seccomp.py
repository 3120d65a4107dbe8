"""The system-call filter: what a command is refused besides what mounts and namespaces keep from it. Given to ``--seccomp``.

A list of what is refused, with ``EPERM``; all else passes. What it leaves is named in the README.
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
from typing import NamedTuple

from codex_contrib_bubblewrap.syscall_numbers import AARCH64, X86_64
from codex_framework import NetworkMode

__all__ = ["filter_for", "instructions", "supported"]

_LOAD, _AND, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in ``struct seccomp_data``."""

_X32 = 0x40000000
_MACHINES = {"x86_64": (0xC000003E, X86_64), "aarch64": (0xC00000B7, AARCH64)}
"""``AUDIT_ARCH_*`` and the numbers, by machine."""

_REFUSED = """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    io_uring_setup io_uring_enter io_uring_register
    bpf perf_event_open userfaultfd add_key request_key keyctl fanotify_init lookup_dcookie
    open_by_handle_at name_to_handle_at
    mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr setns
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog
    quotactl quotactl_fd nfsservctl sethostname setdomainname vhangup iopl ioperm
    settimeofday clock_settime clock_adjtime adjtimex
""".split()  # noqa: SIM905

_NEW_NAMESPACES = 0x7E020080
"""All ``CLONE_NEW*`` flags of ``clone`` and ``unshare``."""

_TERMINAL_REQUESTS = (0x5412, 0x541C, 0x5423, 0x541D)
"""``TIOCSTI``, ``TIOCLINUX``, ``TIOCSETD``, ``TIOCCONS``: typing for somebody else, and the like."""

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _PACKETS = 1, 2, 5
_TYPE = 0xF


class _Look(NamedTuple):
    """One look at an argument's low word: it holds if, masked, it is (or is not) among the values."""

    argument: int
    values: tuple[int, ...]
    among: bool = True
    mask: int = 0xFFFFFFFF


class _NotNull(NamedTuple):
    """Holds if a pointer is not null."""

    argument: int


_Rule = tuple[_Look | _NotNull, ...]
"""Refuses if all of its looks hold; without any: always."""

_Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def supported() -> bool:
    """Whether the system-call numbers of this machine are known."""
    return platform.machine() in _MACHINES


@functools.lru_cache(maxsize=8)
def filter_for(network: NetworkMode) -> bytes:
    """The program for this machine, as ``--seccomp`` wants it; empty where its numbers are not known."""
    if not supported():
        return b""
    return b"".join(struct.pack("=HBBI", *one) for one in instructions(network, platform.machine()))


def instructions(network: NetworkMode, machine: str) -> list[_Instruction]:
    """The program: one block for each refused system call that the machine has."""
    architecture, numbers = _MACHINES[machine]
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQ, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_GE, 0, 1, _X32),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    # clone3 keeps its flags in memory, where a filter cannot look: without it, libc takes clone.
    program += [(_JUMP_EQ, 0, 1, numbers["clone3"]), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for name, rules in _rules(network).items():
        if name in numbers:
            block = _block(rules)
            program += [(_JUMP_EQ, 0, len(block), numbers[name]), *block]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _rules(network: NetworkMode) -> dict[str, tuple[_Rule, ...]]:
    new_namespaces = (_Look(0, (0,), among=False, mask=_NEW_NAMESPACES),)
    return {
        **dict.fromkeys(_REFUSED, ((),)),
        "clone": (new_namespaces,),
        "unshare": (new_namespaces,),
        "ioctl": ((_Look(1, _TERMINAL_REQUESTS),),),
        **_socket_rules(network),
    }


def _socket_rules(network: NetworkMode) -> dict[str, tuple[_Rule, ...]]:
    """Pairs for talking within a command always work; datagram pairs never, since each message may name another receiver."""
    pair = ((_Look(0, (_UNIX,), among=False),), (_Look(1, (_STREAM, _PACKETS), among=False, mask=_TYPE),))
    if network is not NetworkMode.OFF:
        routes = (
            (_NETLINK,) if network is NetworkMode.ON else ()
        )  # elsewhere there is nothing to learn, but much to configure
        families = (_Look(0, (_INET, _INET6, *routes), among=False),)
        raw = (_Look(0, (_INET, _INET6)), _Look(1, (_STREAM, _DATAGRAM), among=False, mask=_TYPE))
        not_routes = (_Look(0, (_NETLINK,)), _Look(2, (0,), among=False))
        return {"socketpair": pair, "socket": (families, raw, not_routes)}
    always = dict.fromkeys(("connect", "bind", "listen", "accept", "accept4"), ((),))
    return {"socketpair": pair, "socket": pair, "sendto": ((_NotNull(4),),), **always}


def _block(rules: tuple[_Rule, ...]) -> list[_Instruction]:
    """Code that always returns."""
    program: list[_Instruction] = []
    for rule in rules:
        refusal: list[_Instruction] = [(_RETURN, 0, 0, _ERRNO | errno.EPERM)]
        for look in reversed(rule):
            refusal = [*_looked(look, len(refusal)), *refusal]
        program += refusal
        if not rule:
            return program
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _looked(look: _Look | _NotNull, skip: int) -> list[_Instruction]:
    """Code that goes on behind itself if the look holds, and ``skip`` instructions further if not."""
    offset = _ARGUMENTS + 8 * look.argument
    if isinstance(look, _NotNull):
        return [(_LOAD, 0, 0, offset), (_JUMP_EQ, 0, 2, 0), (_LOAD, 0, 0, offset + 4), (_JUMP_EQ, skip, 0, 0)]
    program: list[_Instruction] = [(_LOAD, 0, 0, offset), (_AND, 0, 0, look.mask)]
    for index, value in enumerate(look.values):
        rest = len(look.values) - 1 - index
        if look.among:
            program.append((_JUMP_EQ, rest, skip if rest == 0 else 0, value))
        else:
            program.append((_JUMP_EQ, rest + skip, 0, value))
    return program
