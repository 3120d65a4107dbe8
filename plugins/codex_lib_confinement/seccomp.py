"""A system-call filter (seccomp): rules for system calls, assembled into a binary tree over their numbers."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from codex_lib_confinement.syscall_numbers import ARCHITECTURE, NUMBERS

__all__ = [
    "REFUSED",
    "UNKNOWN",
    "Check",
    "Instruction",
    "Rule",
    "Rules",
    "assemble",
    "common_rules",
    "packed",
    "refused_if",
    "socket_rules",
]

_LOAD_WORD, _JUMP, _JUMP_EQ, _JUMP_GE, _AND, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x54, 0x06
_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_NR, _ARCH, _ARGS = 0, 4, 16
_X32_BIT = 0x40000000

Instruction: TypeAlias = tuple[int, int, int, int]
"""Code, jump offset if true, jump offset if false, constant."""


class Check(NamedTuple):
    """A condition on an argument. It is true if ``(low word of the argument & mask)`` is (or is not) in ``values``.

    If ``mask`` is None, all 64 bits are checked, and the condition is true if the argument is not zero.
    """

    argument: int
    mask: int | None
    values: tuple[int, ...] = ()
    among: bool = True


class Rule(NamedTuple):
    """Refuse a call with ``error`` if all conditions in ``when`` are true. Without conditions, always refuse."""

    error: int
    when: tuple[Check, ...] = ()


Rules: TypeAlias = dict[str, tuple[Rule, ...]]
"""The rules by system call. The first rule that applies is used; without one, the call is allowed."""

REFUSED = Rule(errno.EPERM)
"""Refuse a call whatever its arguments are."""

UNKNOWN = Rule(errno.ENOSYS)
"""Answer as if the kernel lacked the call. Programs then use an older one."""

_NAMESPACES = 0x7E020080
"""All ``CLONE_NEW*`` flags of ``clone`` and ``unshare``."""

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _DGRAM, _SEQPACKET = 1, 2, 5
_TYPE = 0xF
_WORD = 0xFFFFFFFF
_TERMINAL_REQUESTS = (0x5412, 0x541C, 0x5423, 0x541D)  # TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS

_SET_ID = 0o6000  # set-uid and set-gid
_CREATES = 0o100 | 0o20000000  # O_CREAT, and the bit that distinguishes O_TMPFILE from O_DIRECTORY
_DEVICE_KINDS = (0o020000, 0o060000)
_KIND = 0o170000

_TRACING = ("ptrace", "process_vm_readv", "process_vm_writev")
"""System calls of debuggers. They are allowed if the network is on, as in Codex; they reach only processes of the same sandbox."""

_ALWAYS_REFUSED = """
    process_madvise kcmp pidfd_getfd
    io_uring_setup io_uring_enter io_uring_register
    bpf perf_event_open userfaultfd add_key request_key keyctl fanotify_init lookup_dcookie
    open_by_handle_at name_to_handle_at
    mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr setns
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog
    quotactl quotactl_fd nfsservctl sethostname setdomainname vhangup iopl ioperm
    settimeofday clock_settime clock_adjtime adjtimex
""".split()  # noqa: SIM905


def refused_if(*when: Check) -> Rule:
    """Return the rule that refuses a call if all conditions are true."""
    return Rule(errno.EPERM, when)


def common_rules(network: str, *, services: bool = True) -> Rules:
    """Return the rules of every sandbox that has its own namespaces.

    Args:
        network: The network access: ``off``, ``loopback``, ``proxy`` or ``on``.
        services: Whether unix sockets with a name are part of the network ``on``, and with them the services of this machine.
    """
    rules: Rules = dict.fromkeys(_ALWAYS_REFUSED, (REFUSED,))
    if network != "on":
        rules |= dict.fromkeys(_TRACING, (REFUSED,))
    rules["clone3"] = (UNKNOWN,)  # its flags are in memory, so libc must use the older call
    rules["clone"] = rules["unshare"] = (refused_if(Check(0, _NAMESPACES, (0,), among=False)),)
    rules["ioctl"] = (refused_if(Check(1, _WORD, _TERMINAL_REQUESTS)),)
    rules |= _mode_rules()
    return rules | socket_rules(network if services or network != "on" else "on without services")


def _mode_rules() -> Rules:
    """Return the rules against device nodes, and against modes that make a program run as its owner or with its group.

    A filter cannot tell a folder from a file, so the set-gid bit cannot be given to a folder either. A new folder still
    inherits it.
    """

    def sets_id(argument: int) -> Check:
        return Check(argument, _SET_ID, (0,), among=False)

    chmod, at = (refused_if(sets_id(1)),), (refused_if(sets_id(2)),)
    return {
        "openat2": (UNKNOWN,),  # its flags are in memory, so libc must use the older call
        "mknod": (refused_if(Check(1, _KIND, _DEVICE_KINDS)), refused_if(sets_id(1))),
        "mknodat": (refused_if(Check(2, _KIND, _DEVICE_KINDS)), refused_if(sets_id(2))),
        "chmod": chmod,
        "fchmod": chmod,
        "creat": chmod,
        "fchmodat": at,
        "fchmodat2": at,
        "open": (refused_if(Check(1, _CREATES, (0,), among=False), sets_id(2)),),
        "openat": (refused_if(Check(2, _CREATES, (0,), among=False), sets_id(3)),),
    }


_PAIR = (
    refused_if(Check(0, _WORD, (_AF_UNIX,), among=False)),
    refused_if(Check(1, _TYPE, (_STREAM, _SEQPACKET), among=False)),
)
"""Socket pairs within a command always work. Datagram pairs only do with the network on, because they can be re-addressed by path."""

_INTERNET = refused_if(Check(0, _WORD, (_AF_INET, _AF_INET6), among=False))
_STREAM_OR_DATAGRAM = refused_if(Check(1, _TYPE, (_STREAM, _DGRAM), among=False))
_TYPES_AND_PROTOCOLS = (
    refused_if(Check(0, _WORD, (_AF_INET, _AF_INET6)), Check(1, _TYPE, (_STREAM, _DGRAM), among=False)),
    refused_if(Check(0, _WORD, (_AF_NETLINK,)), Check(2, _WORD, (0,), among=False)),  # anything but route
)
_OWN_NETWORK: Rules = {"socketpair": _PAIR, "socket": (_INTERNET, _STREAM_OR_DATAGRAM)}
_SOCKETS: dict[str, Rules] = {
    "off": {
        "socketpair": _PAIR,
        "socket": _PAIR,
        "sendto": (refused_if(Check(4, None)),),
        **dict.fromkeys(("connect", "bind", "listen", "accept", "accept4"), (REFUSED,)),
    },
    "loopback": _OWN_NETWORK,
    "proxy": _OWN_NETWORK,
    "on without services": {
        "socketpair": _PAIR,
        "socket": (
            refused_if(Check(0, _WORD, (_AF_INET, _AF_INET6, _AF_NETLINK), among=False)),
            *_TYPES_AND_PROTOCOLS,
        ),
    },
    "on": {
        "socketpair": (refused_if(Check(0, _WORD, (_AF_UNIX,), among=False)),),
        "socket": (
            refused_if(Check(0, _WORD, (_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK), among=False)),
            *_TYPES_AND_PROTOCOLS,
        ),
    },
}


def socket_rules(network: str) -> Rules:
    """Return the rules for sockets in a sandbox that has its own network unless the access is ``on``."""
    return _SOCKETS[network]


def assemble(
    rules: Mapping[str, Sequence[Rule]], numbers: Mapping[str, int] = NUMBERS, architecture: int = ARCHITECTURE
) -> list[Instruction]:
    """Assemble the program for ``rules``. Calls that this architecture lacks are omitted."""
    blocks = sorted((numbers[name], _block(rule)) for name, rule in rules.items() if name in numbers)
    return [
        (_LOAD_WORD, 0, 0, _ARCH),
        (_JUMP_EQ, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD_WORD, 0, 0, _NR),
        (_JUMP_GE, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        *_tree(blocks),
    ]


def _tree(blocks: Sequence[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Select a block by the number in the accumulator, by binary search."""
    if not blocks:
        return [(_RETURN, 0, 0, _ALLOW)]
    if len(blocks) == 1:
        number, body = blocks[0]
        return [(_JUMP_EQ, 1, 0, number), (_RETURN, 0, 0, _ALLOW), *body]
    middle = len(blocks) // 2
    lower, upper = _tree(blocks[:middle]), _tree(blocks[middle:])
    # A conditional jump reaches 255 instructions, an unconditional one any distance.
    return [(_JUMP_GE, 0, 1, blocks[middle][0]), (_JUMP, 0, 0, len(lower)), *lower, *upper]


def _block(rules: Sequence[Rule]) -> list[Instruction]:
    program: list[Instruction] = []
    for rule in rules:
        program += _rule(rule)
        if not rule.when:
            return program
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _rule(rule: Rule) -> list[Instruction]:
    """Return code that returns the rule's error, or continues after itself."""
    program: list[Instruction] = [(_RETURN, 0, 0, _ERRNO | rule.error)]
    for check in reversed(rule.when):
        program = [*_check(check, len(program)), *program]
    return program


def _check(check: Check, skip: int) -> list[Instruction]:
    """Return code that continues after itself if the check is true, and ``skip`` instructions further otherwise."""
    offset = _ARGS + 8 * check.argument
    if check.mask is None:
        return [
            (_LOAD_WORD, 0, 0, offset),
            (_JUMP_EQ, 0, 2, 0),
            (_LOAD_WORD, 0, 0, offset + 4),
            (_JUMP_EQ, skip, 0, 0),
        ]
    program: list[Instruction] = [(_LOAD_WORD, 0, 0, offset), (_AND, 0, 0, check.mask)]
    for index, value in enumerate(check.values):
        behind = len(check.values) - 1 - index
        last = behind == 0
        if check.among:
            program.append((_JUMP_EQ, behind, skip if last else 0, value))
        else:
            program.append((_JUMP_EQ, behind + skip, 0, value))
    return program


def packed(program: Sequence[Instruction]) -> bytes:
    """Return the program as the kernel reads it (an array of ``struct sock_filter``)."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
