"""A seccomp filter: rules for system calls, assembled into a binary tree over their numbers."""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from .syscall_numbers import ARCHITECTURE, NUMBERS
from .syscalls import prctl

__all__ = ["Rule", "assemble", "available", "install", "rules_for"]

_LOAD_WORD, _JUMP, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _AND, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_NR, _ARCH, _ARGS = 0, 4, 16
_X32_BIT = 0x40000000

Instruction: TypeAlias = tuple[int, int, int, int]
"""Code, jump offset if true, jump offset if false, constant."""


class Check(NamedTuple):
    """A condition on an argument. It holds if ``(low word of the argument & mask)`` is (or is not) in ``values``.

    If ``mask`` is None, all 64 bits are checked, and the condition holds if the argument is not zero.
    """

    argument: int
    mask: int | None
    values: tuple[int, ...] = ()
    among: bool = True


class Rule(NamedTuple):
    """Refuse a call with ``error`` if all conditions in ``when`` hold. Without conditions, always refuse."""

    error: int
    when: tuple[Check, ...] = ()


_REFUSED = Rule(errno.EPERM)
_UNKNOWN = Rule(errno.ENOSYS)

_NAMESPACES = 0x7E020080
"""All ``CLONE_NEW*`` flags of ``clone`` and ``unshare``."""

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _DGRAM, _SEQPACKET = 1, 2, 5
_TYPE = 0xF
_TCP = 6
_MSG_FASTOPEN = 0x20000000
_WORD = 0xFFFFFFFF
_SET_UID = 0o4000
_CREATES = 0o100 | 0o20000000  # O_CREAT, and the bit that distinguishes O_TMPFILE from O_DIRECTORY
_TERMINAL_REQUESTS = (0x5412, 0x541C, 0x5423, 0x541D)  # TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS
_DEVICE_KINDS = (0o020000, 0o060000)
_KIND = 0o170000

_ALWAYS_REFUSED = """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    io_uring_setup io_uring_enter io_uring_register
    bpf perf_event_open userfaultfd add_key request_key keyctl fanotify_init lookup_dcookie
    open_by_handle_at name_to_handle_at
    mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr setns
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog
    quotactl quotactl_fd nfsservctl sethostname setdomainname vhangup iopl ioperm
    settimeofday clock_settime clock_adjtime adjtimex
""".split()  # noqa: SIM905

_REFUSED_WITHOUT_IPC_NAMESPACE = """
    shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink
""".split()  # noqa: SIM905

_ON_OTHERS = {
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setscheduler": 0,
    "sched_setparam": 0,
    "sched_setattr": 0,
    "setpriority": 1,
    "ioprio_set": 1,
    "migrate_pages": 0,
    "move_pages": 0,
}
"""Calls that take the id of another process, with the position of this argument."""


def rules_for(*, network: str, has_namespaces: bool) -> dict[str, tuple[Rule, ...]]:
    """Return the rules of a sandbox by system call. The first rule that applies is used.

    Args:
        network: The network access: ``off``, ``loopback``, ``proxy`` or ``on``.
        has_namespaces: Whether the sandbox has its own namespaces.
    """
    rules: dict[str, tuple[Rule, ...]] = dict.fromkeys(_ALWAYS_REFUSED, (_REFUSED,))
    rules.update(
        dict.fromkeys(("clone3", "openat2"), (_UNKNOWN,))
    )  # their flags are in memory, so libc must use the older call
    rules["clone"] = rules["unshare"] = (_if(Check(0, _NAMESPACES, (0,), among=False)),)
    rules["ioctl"] = (_if(Check(1, _WORD, _TERMINAL_REQUESTS)),)
    rules["mknod"] = (_if(Check(1, _KIND, _DEVICE_KINDS)), _set_uid(1))
    rules["mknodat"] = (_if(Check(2, _KIND, _DEVICE_KINDS)), _set_uid(2))
    rules["chmod"] = rules["fchmod"] = rules["creat"] = (_set_uid(1),)
    rules["fchmodat"] = rules["fchmodat2"] = (_set_uid(2),)
    rules["open"] = (_if(Check(1, _CREATES, (0,), among=False), Check(2, _SET_UID, (_SET_UID,))),)
    rules["openat"] = (_if(Check(2, _CREATES, (0,), among=False), Check(3, _SET_UID, (_SET_UID,))),)
    rules.update(_SOCKETS[network if has_namespaces or network != "proxy" else "ports"])
    if not has_namespaces:
        rules.update(dict.fromkeys(_REFUSED_WITHOUT_IPC_NAMESPACE, (_REFUSED,)))
        rules.update({name: (_if(Check(position, None)),) for name, position in _ON_OTHERS.items()})
    return rules


def _if(*when: Check) -> Rule:
    return Rule(errno.EPERM, when)


def _set_uid(argument: int) -> Rule:
    return _if(Check(argument, _SET_UID, (_SET_UID,)))


def _opens_fast(argument: int) -> Check:
    """Check for data in a connection's first packet, which connects without asking Landlock."""
    return Check(argument, _MSG_FASTOPEN, (_MSG_FASTOPEN,))


_PAIR = (
    _if(Check(0, _WORD, (_AF_UNIX,), among=False)),
    _if(Check(1, _TYPE, (_STREAM, _SEQPACKET), among=False)),
)
"""Socket pairs within a command always work. Datagram pairs never do, because they can be re-addressed by path."""

_UNADDRESSED = _if(Check(4, None))
_INTERNET = _if(Check(0, _WORD, (_AF_INET, _AF_INET6), among=False))
_STREAM_OR_DATAGRAM = _if(Check(1, _TYPE, (_STREAM, _DGRAM), among=False))
_OFF: dict[str, tuple[Rule, ...]] = {
    "socketpair": _PAIR,
    "socket": _PAIR,
    "sendto": (_UNADDRESSED,),
    **dict.fromkeys(("connect", "bind", "listen", "accept", "accept4"), (_REFUSED,)),
}
_OWN_NETWORK: dict[str, tuple[Rule, ...]] = {"socketpair": _PAIR, "socket": (_INTERNET, _STREAM_OR_DATAGRAM)}
_SOCKETS: dict[str, dict[str, tuple[Rule, ...]]] = {
    "off": _OFF,
    "loopback": _OWN_NETWORK,
    "proxy": _OWN_NETWORK,
    "ports": {
        "socketpair": _PAIR,
        "socket": (
            _INTERNET,
            _if(Check(1, _TYPE, (_STREAM,), among=False)),
            _if(Check(2, _WORD, (0, _TCP), among=False)),  # Landlock does not cover MPTCP and SCTP
        ),
        "sendto": (_UNADDRESSED, _if(_opens_fast(3))),
        "sendmsg": (_if(_opens_fast(2)),),
        "sendmmsg": (_if(_opens_fast(3)),),
        **dict.fromkeys(("bind", "listen", "accept", "accept4"), (_REFUSED,)),
    },
    "on": {
        "socketpair": _PAIR,
        "socket": (
            _if(Check(0, _WORD, (_AF_INET, _AF_INET6, _AF_NETLINK), among=False)),
            _if(Check(0, _WORD, (_AF_NETLINK,), among=False), Check(1, _TYPE, (_STREAM, _DGRAM), among=False)),
            _if(Check(0, _WORD, (_AF_NETLINK,)), Check(2, _WORD, (0,), among=False)),  # anything but route
        ),
    },
}
"""Rules for sockets by network mode. ``ports`` applies if the machine's network is shared and Landlock allows TCP connections only
to some ports."""


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
    """Return code that continues after itself if the check holds, and ``skip`` instructions further if not."""
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


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_GET_SECCOMP = 22, 38, 21
_MODE_FILTER = 2


def available() -> bool:
    """Return whether this kernel supports seccomp and the architecture is known."""
    if not ARCHITECTURE:
        return False
    try:
        prctl(_PR_GET_SECCOMP)
    except OSError:
        return False
    return True


def install(program: Sequence[Instruction]) -> None:
    """Apply the filter to this process permanently.

    Raises:
        OSError: The kernel refused it.
    """
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    argument = _Program(len(program), code)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(argument))
