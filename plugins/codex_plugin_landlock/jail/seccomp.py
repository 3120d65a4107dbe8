"""The system-call filter of the jail: the common rules, the rules for resources shared with the system, and the installation."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

from codex_lib_confinement.seccomp import (
    REFUSED,
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

_REFUSED_WITHOUT_IPC_NAMESPACE = """
    shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
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
"""System calls that take the id of another process, with the position of this argument."""

_ON_USERS = {"setpriority": 2, "ioprio_set": 3}
"""System calls whose first argument can select all processes of a user, with the value that selects them."""

_FIRST_PROCESS = 1
"""The id of the process that starts the commands of a sandbox with namespaces. Later commands inherit its attributes."""


def rules_for(*, network: str, has_namespaces: bool, services: bool = True) -> Rules:
    """Return the rules of a sandbox by system call. The first rule that applies is used.

    Args:
        network: The network access: ``off``, ``loopback``, ``proxy`` or ``on``.
        has_namespaces: Whether the sandbox has its own namespaces.
        services: Whether the network access ``on`` includes unix sockets with a name.
    """
    rules = common_rules(network, services=services)
    rules["mq_open"] = rules["mq_unlink"] = (REFUSED,)  # Landlock refuses to open a queue, but not to create it
    rules |= {name: tuple(_on_others(name, has_namespaces=has_namespaces)) for name in _ON_OTHERS}
    if not has_namespaces:
        if network == "proxy":
            rules |= _to_ports()
        rules |= dict.fromkeys(_REFUSED_WITHOUT_IPC_NAMESPACE, (REFUSED,))
    return rules


def _on_others(name: str, *, has_namespaces: bool) -> Iterator[Rule]:
    """Yield the rules for a call that can change another process. With namespaces, only the first process must be protected."""
    position = _ON_OTHERS[name]
    other = Check(position, _WORD, (_FIRST_PROCESS,)) if has_namespaces else Check(position, None)
    yield refused_if(
        other, *([Check(2, None)] if has_namespaces and name == "prlimit64" else [])
    )  # reading is harmless
    if name in _ON_USERS:
        yield refused_if(Check(0, _WORD, (_ON_USERS[name],)))


def _to_ports() -> Rules:
    """Return the rules for sockets if the machine's network is shared and Landlock allows TCP connections only to some ports."""
    own = socket_rules("proxy")
    return {
        "socket": (
            own["socket"][0],  # only internet sockets
            refused_if(Check(1, _TYPE, (_STREAM,), among=False)),
            refused_if(Check(2, _WORD, (0, _TCP), among=False)),  # Landlock does not cover MPTCP and SCTP
        ),
        "sendto": (*socket_rules("off")["sendto"], refused_if(_opens_fast(3))),
        "sendmsg": (refused_if(_opens_fast(2)),),
        "sendmmsg": (refused_if(_opens_fast(3)),),
        **dict.fromkeys(("bind", "listen", "accept", "accept4"), (REFUSED,)),
    }


def _opens_fast(argument: int) -> Check:
    """Return a check for data in a connection's first packet (TCP Fast Open), which connects without a Landlock check."""
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
