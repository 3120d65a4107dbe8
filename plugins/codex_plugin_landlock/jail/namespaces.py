"""Creation of a sandbox's namespaces, and removal of all privileges in them."""

from __future__ import annotations

import struct

from .syscalls import MACHINE, NEW_CGROUP, NEW_IPC, NEW_NET, NEW_NS, NEW_PID, NEW_USER, NEW_UTS, call, clone, prctl

__all__ = ["drop_privileges", "enter", "map_identity", "rule_out_privileges", "set_dumpable"]

_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_SECUREBITS = 28
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_LOCKED_SECUREBITS = 0xEF
"""Locked settings: uid 0 has no privileges, a change of ids keeps none, and there are no ambient ones."""

_CAPSET = 126 if MACHINE == "x86_64" else 91
_CAP_VERSION_3 = 0x20080522
_MAX_CAPABILITIES = 64


def enter(*, network: bool) -> int:
    """Fork into new user, mount, process, IPC, host-name and cgroup namespaces.

    Unless ``network`` is true, the child also gets a new network namespace.

    Returns 0 in the child and the child's id in the parent.

    Raises:
        OSError: The namespaces are unavailable here.
    """
    flags = NEW_USER | NEW_NS | NEW_PID | NEW_IPC | NEW_UTS | NEW_CGROUP
    return clone(flags if network else flags | NEW_NET)


def set_dumpable(*, dumpable: bool) -> None:
    """Set whether other processes of this user may inspect this one."""
    prctl(_PR_SET_DUMPABLE, int(dumpable))


def map_identity(uid: int, gid: int) -> None:
    """Keep the user's ids in the new user namespace.

    The process is dumpable meanwhile, because otherwise it could not open its own maps.

    Raises:
        OSError: The system refused it.
    """
    set_dumpable(dumpable=True)
    try:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    finally:
        set_dumpable(dumpable=False)


def drop_privileges() -> None:
    """Drop all capabilities permanently.

    Raises:
        OSError: One of the steps failed; some privileges may remain.
    """
    prctl(_PR_SET_SECUREBITS, _LOCKED_SECUREBITS)
    for capability in range(_MAX_CAPABILITIES):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            break  # the kernel has fewer capabilities
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("II", _CAP_VERSION_3, 0)
    call("capset", _CAPSET, header, bytes(24))
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def rule_out_privileges() -> None:
    """Drop privileges without namespaces. With ``no_new_privs``, a process without capabilities cannot get any.

    Raises:
        OSError: The capabilities could not be dropped.
    """
    if _has_capabilities():
        drop_privileges()
    else:
        prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _has_capabilities() -> bool:
    with open("/proc/self/status") as status:
        return any(line.startswith("CapPrm:") and int(line.split()[1], 16) for line in status)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:  # pathlib would add 2 ms to the launcher's start
        file.write(text)
