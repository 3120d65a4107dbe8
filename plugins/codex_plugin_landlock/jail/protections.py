"""The enforcing layer of each protection, as expected on a machine and as reported by a sandbox.

The keys are the values of ``codex_framework.contract.permissions.file_access.Protection``, which this package does not import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["PARTLY", "missing", "protections"]

_ABI_NETWORK, _ABI_SCOPE = 4, 6


def protections(*, has_namespaces: bool, abi: int, bounded: str) -> dict[str, str]:
    """Return the enforcing layers of each protection. An empty text means that a protection is not enforced.

    Args:
        has_namespaces: Whether the sandbox has its own namespaces and mounts.
        abi: The ABI of Landlock.
        bounded: The mechanisms that limit the number of processes.
    """
    scopes, tcp = abi >= _ABI_SCOPE, abi >= _ABI_NETWORK
    sockets = _join_names("seccomp", "Landlock (abstract)" if scopes else "")
    resources = "resource limits of each process, where configured"
    if has_namespaces:
        return {
            "writing": "read-only mounts, Landlock",
            "metadata": "read-only mounts",
            "protected-names": "read-only mounts; missing names by placeholders while a sandbox exists",
            "reading": "mounts",
            "processes": "process namespace, own /proc",
            "signals": _join_names("process namespace", "Landlock" if scopes else ""),
            "shared-memory": "IPC namespace, own /dev/shm",
            "terminals": "own /dev/pts, seccomp",
            "network": _join_names("network namespace, seccomp", "Landlock (TCP)" if tcp else ""),
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
        "network": _join_names("seccomp", "Landlock (TCP)" if tcp else ""),
        "unix-sockets": sockets,
        "kernel": "seccomp, no_new_privs",
        "lifetime": "a supervisor that kills all descendants",
        "process-count": bounded,
        "resources": resources,
    }


PARTLY = {
    "protected-names": "Landlock, by allowing the entries next to them; missing names are not protected",
    "reading": "Landlock, by allowing the entries next to denied ones; names can be listed",
    "processes": "Landlock: no tracing; other processes stay visible",
    "shared-memory": "seccomp; /dev/shm is shared",
    "terminals": "seccomp: no injected input; other terminals of the user can be opened",
}
"""Protections that are only partly enforced without namespaces, with their gaps."""


def missing(enforced: Mapping[str, str], plan: Mapping[str, Any], *, has_namespaces: bool) -> dict[str, str]:
    """Return the protections of a plan's floor that are not enforced, each with a hint if the plan itself is the reason.

    Args:
        enforced: The enforced protections.
        plan: The data of a plan.
        has_namespaces: Whether the sandbox has its own namespaces and mounts.
    """
    limits = plan["limits"]
    hints = {
        "process-count": "set sandbox_limits.processes" if limits["processes"] is None else "",
        "resources": "set sandbox_limits.memory_mb and file_size_mb"
        if limits["memory_bytes"] is None or limits["file_bytes"] is None
        else "",
        "network": "choose a profile without allowed hosts, or allow user namespaces"
        if plan["network"] == "proxy" and not has_namespaces
        else "",
    }
    return {name: hints.get(name, "") for name in plan["floor"] if not enforced.get(name) or hints.get(name)}


def _join_names(*parts: str) -> str:
    return ", ".join(filter(None, parts))
