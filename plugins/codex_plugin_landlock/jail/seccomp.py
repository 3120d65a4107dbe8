"""The system-call filter of the jail: the common rules, those for what it shares with the system, and its installation."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from codex_framework.toolkit.confinement.seccomp import (
    REFUSED,
    UNKNOWN,
    Check,
    Instruction,
    Rule,
    Rules,
    common_rules,
    packed,
    refused_if,
    socket_rules,
)

from .syscalls import prctl

__all__ = ["install", "rules_for"]

_STREAM, _TYPE = 1, 0xF
_TCP = 6
_MSG_FASTOPEN = 0x20000000
_WORD = 0xFFFFFFFF
_SET_UID = 0o4000
_CREATES = 0o100 | 0o20000000  # O_CREAT, and the bit that distinguishes O_TMPFILE from O_DIRECTORY
_DEVICE_KINDS = (0o020000, 0o060000)
_KIND = 0o170000

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


def rules_for(*, network: str, has_namespaces: bool) -> Rules:
    """Return the rules of a sandbox by system call. The first rule that applies is used.

    Args:
        network: The network access: ``off``, ``loopback``, ``proxy`` or ``on``.
        has_namespaces: Whether the sandbox has its own namespaces.
    """
    rules = common_rules(network)
    rules["openat2"] = (UNKNOWN,)  # its flags are in memory, so libc must use the older call
    rules["mknod"] = (refused_if(Check(1, _KIND, _DEVICE_KINDS)), _set_uid(1))
    rules["mknodat"] = (refused_if(Check(2, _KIND, _DEVICE_KINDS)), _set_uid(2))
    rules["chmod"] = rules["fchmod"] = rules["creat"] = (_set_uid(1),)
    rules["fchmodat"] = rules["fchmodat2"] = (_set_uid(2),)
    rules["open"] = (refused_if(Check(1, _CREATES, (0,), among=False), Check(2, _SET_UID, (_SET_UID,))),)
    rules["openat"] = (refused_if(Check(2, _CREATES, (0,), among=False), Check(3, _SET_UID, (_SET_UID,))),)
    if not has_namespaces:
        if network == "proxy":
            rules |= _to_ports()
        rules |= dict.fromkeys(_REFUSED_WITHOUT_IPC_NAMESPACE, (REFUSED,))
        rules |= {name: (refused_if(Check(position, None)),) for name, position in _ON_OTHERS.items()}
    return rules


def _set_uid(argument: int) -> Rule:
    return refused_if(Check(argument, _SET_UID, (_SET_UID,)))


def _to_ports() -> Rules:
    """Return the rules for sockets if the machine's network is shared and Landlock allows TCP connections only to some ports."""
    own = socket_rules("proxy")
    return {
        "socket": (
            own["socket"][0],  # only the internet
            refused_if(Check(1, _TYPE, (_STREAM,), among=False)),
            refused_if(Check(2, _WORD, (0, _TCP), among=False)),  # Landlock does not cover MPTCP and SCTP
        ),
        "sendto": (*socket_rules("off")["sendto"], refused_if(_opens_fast(3))),
        "sendmsg": (refused_if(_opens_fast(2)),),
        "sendmmsg": (refused_if(_opens_fast(3)),),
        **dict.fromkeys(("bind", "listen", "accept", "accept4"), (REFUSED,)),
    }


def _opens_fast(argument: int) -> Check:
    """Check for data in a connection's first packet, which connects without asking Landlock."""
    return Check(argument, _MSG_FASTOPEN, (_MSG_FASTOPEN,))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_MODE_FILTER = 2


def install(program: Sequence[Instruction]) -> None:
    """Apply the filter to this process permanently.

    Raises:
        OSError: The kernel refused it.
    """
    code = packed(program)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    argument = _Program(len(program), code)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(argument))
