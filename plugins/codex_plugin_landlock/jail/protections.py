"""Which layer holds what back: said of a machine before anything was tried, and by a sandbox of itself.

The keys are the values of ``codex_framework.roles.sandboxes.Protection``, which this package does not import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["PARTLY", "missing", "protections"]

_ABI_NETWORK, _ABI_SCOPE = 4, 6


def protections(*, own: bool, abi: int, bounded: str) -> dict[str, str]:
    """What is held back, by which layer; an empty text: it is not.

    Args:
        own: With namespaces and mounts of its own.
        abi: Landlock's.
        bounded: What limits the number of processes.
    """
    scopes, tcp = abi >= _ABI_SCOPE, abi >= _ABI_NETWORK
    sockets = _joined("seccomp", "Landlock (abstract)" if scopes else "")
    resources = "resource limits of each process, where configured"
    if own:
        return {
            "writing": "read-only mounts, Landlock",
            "metadata": "read-only mounts",
            "protected-names": "read-only mounts; missing ones by a placeholder while a sandbox lives",
            "reading": "mounts",
            "processes": "process namespace, own /proc",
            "signals": _joined("process namespace", "Landlock" if scopes else ""),
            "shared-memory": "IPC namespace, own /dev/shm",
            "terminals": "own /dev/pts, seccomp",
            "network": _joined("network namespace, seccomp", "Landlock (TCP)" if tcp else ""),
            "unix-sockets": sockets,
            "kernel": "seccomp, no capabilities, no_new_privs",
            "lifetime": "process namespace",
            "process-count": bounded,
            "resources": resources,
        }
    return {
        "writing": "Landlock",
        "metadata": "",
        "protected-names": "",
        "reading": "",
        "processes": "",
        "signals": "Landlock" if scopes else "",
        "shared-memory": "",
        "terminals": "",
        "network": _joined("seccomp", "Landlock (TCP)" if tcp else ""),
        "unix-sockets": sockets,
        "kernel": "seccomp, no_new_privs",
        "lifetime": "a supervisor that kills all descendants",
        "process-count": bounded,
        "resources": resources,
    }


PARTLY = {
    "protected-names": "Landlock, by listing what stands beside them; missing ones are not protected",
    "reading": "Landlock, by listing what stands beside it; names can be listed",
    "processes": "Landlock: no tracing; they stay visible",
    "shared-memory": "seccomp; /dev/shm is shared",
    "terminals": "seccomp: no typing into them; other terminals of the user can be opened",
}
"""What of the rest is held back without namespaces of its own, and what is not."""


def missing(held: Mapping[str, str], plan: Mapping[str, Any], *, own: bool) -> dict[str, str]:
    """What a plan's floor asks for and is not held back; each with what would help, if it is in the plan's own hands.

    Args:
        held: What is held back in general.
        plan: A plan's data.
        own: With namespaces and mounts of its own.
    """
    limits = plan["limits"]
    without = {
        "process-count": "set sandbox_limits.processes" if limits["processes"] is None else "",
        "resources": "set sandbox_limits.memory_mb and file_size_mb"
        if limits["memory_bytes"] is None or limits["file_bytes"] is None
        else "",
        "network": "choose a profile without allowed hosts, or allow user namespaces"
        if plan["network"] == "proxy" and not own
        else "",
    }
    return {one: without.get(one, "") for one in plan["floor"] if not held.get(one) or without.get(one)}


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))
