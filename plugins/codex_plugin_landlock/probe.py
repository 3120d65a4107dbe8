"""What this machine can enforce, found out without starting anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from codex_framework import SandboxReport
from codex_framework.roles.sandboxes import Protection

__all__ = ["FULL_LEVEL", "REDUCED_LEVEL", "full_report", "probe", "reduced_report"]

FULL_LEVEL = "namespaces+landlock+seccomp"
REDUCED_LEVEL = "landlock+seccomp"

_SWITCHES = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns`",
    ),
}
"""Files that, with this content, say that user namespaces are refused to ordinary users, and the cure."""


def probe() -> SandboxReport:
    """The report by what the system says of itself. Whether namespaces really work shows when the first sandbox starts."""
    if sys.platform != "linux":
        return SandboxReport(available=False, reason=f"Landlock is a part of Linux, and this is {sys.platform}")
    from codex_plugin_landlock.jail import landlock, seccomp
    from codex_plugin_landlock.jail.syscall_numbers import ARCHITECTURE
    from codex_plugin_landlock.jail.syscalls import MACHINE

    if not ARCHITECTURE:
        return SandboxReport(
            available=False,
            reason=f"no system-call filter is known for {MACHINE}",
            cure="use an x86_64 or aarch64 machine",
        )
    if not seccomp.available():
        return SandboxReport(
            available=False,
            reason="the kernel has no seccomp filters",
            cure="use a kernel with CONFIG_SECCOMP_FILTER",
        )
    abi = landlock.abi_version()
    if abi < landlock.MINIMUM_ABI:
        return SandboxReport(
            available=False,
            reason=f"Landlock's ABI is {abi} here, at least {landlock.MINIMUM_ABI} is needed"
            if abi
            else "Landlock is not enabled",
            cure="use Linux 6.2 or newer with `landlock` in the `lsm=` boot parameter",
        )
    reason, cure = _refusal()
    return reduced_report(abi, reason, cure) if reason else full_report(abi)


def full_report(abi: int) -> SandboxReport:
    """All layers."""
    return SandboxReport(
        available=True,
        level=FULL_LEVEL,
        protections={
            Protection.WRITING: "read-only mounts, Landlock",
            Protection.METADATA: "read-only mounts",
            Protection.PROTECTED_NAMES: "read-only mounts; missing ones by a placeholder while a sandbox lives",
            Protection.READING: "mounts",
            Protection.PROCESSES: "process namespace, own /proc",
            Protection.SIGNALS: "process namespace" + _from(abi, 6, ", Landlock"),
            Protection.SHARED_MEMORY: "IPC namespace, own /dev/shm",
            Protection.TERMINALS: "own /dev/pts, seccomp",
            Protection.NETWORK: "network namespace, seccomp" + _from(abi, 4, ", Landlock (TCP)"),
            Protection.UNIX_SOCKETS: "seccomp" + _from(abi, 6, ", Landlock (abstract)"),
            Protection.KERNEL: "seccomp, no capabilities, no_new_privs",
            Protection.LIFETIME: "process namespace",
        },
    )


def reduced_report(abi: int, reason: str, cure: str) -> SandboxReport:
    """Without namespaces: weaker, and it says where."""
    return SandboxReport(
        available=True,
        level=REDUCED_LEVEL,
        protections={
            Protection.WRITING: "Landlock",
            Protection.METADATA: "",
            Protection.PROTECTED_NAMES: "Landlock, by listing what stands beside them; missing ones are not protected",
            Protection.READING: "",
            Protection.PROCESSES: "Landlock (no tracing); they stay visible",
            Protection.SIGNALS: _from(abi, 6, "Landlock"),
            Protection.SHARED_MEMORY: "seccomp; /dev/shm is shared",
            Protection.TERMINALS: "seccomp; other terminals of the user stay open",
            Protection.NETWORK: "seccomp" + _from(abi, 4, ", Landlock (TCP)"),
            Protection.UNIX_SOCKETS: "seccomp" + _from(abi, 6, ", Landlock (abstract)"),
            Protection.KERNEL: "seccomp, no_new_privs",
            Protection.LIFETIME: "a supervisor that kills all descendants",
        },
        reason=f"namespaces are not to be had: {reason}",
        cure=cure,
    )


def _from(abi: int, first: int, words: str) -> str:
    return words if abi >= first else ""


def _refusal() -> tuple[str, str]:
    """Why user namespaces will be refused, and the cure; empty texts where nothing speaks against them."""
    if not Path("/proc/self/ns/user").exists():
        return "the kernel has no user namespaces", "use a kernel with CONFIG_USER_NS"
    for path, (refusing, command) in _SWITCHES.items():
        if "max_user" not in path and os.geteuid() == 0:
            continue
        try:
            content = Path(path).read_text().strip()
        except OSError:
            continue
        if content == refusing:
            return f"{path} is {refusing}", command
    return "", ""
