"""Reports on what this machine can enforce, without starting a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from codex_framework import SandboxError, SandboxReport
from codex_framework.contract.permissions.file_access import Protection
from codex_framework.contract.roles.sandboxes import SandboxLayer
from codex_plugin_landlock.plan import Plan

__all__ = [
    "FULL_LEVEL",
    "HINT_FOR_NAMESPACES",
    "REDUCED_LEVEL",
    "below_floor",
    "floor_error",
    "full_report",
    "layers_of",
    "probe",
    "reduced_report",
    "with_enforced",
]

FULL_LEVEL = "namespaces+landlock+seccomp"
REDUCED_LEVEL = "landlock+seccomp"

HINT_FOR_NAMESPACES = "allow user namespaces (in a container: its seccomp and AppArmor profiles)"
HINT_FOR_FLOOR = (
    "remove it from sandbox_floor, or use a machine that can enforce it (see `codex-framework sandbox doctor`)"
)
_HINT_FOR_MOUNTS = "allow mounts in user namespaces (in a container: its seccomp and AppArmor profiles)"
_HINT_FOR_LANDLOCK = "use Linux 6.2 or newer with `landlock` in the `lsm=` boot parameter"
_HINT_FOR_SECCOMP = "use a kernel with CONFIG_SECCOMP_FILTER"
_HINTS = {
    "process namespace": "allow mounts in user namespaces, and a /proc without masked parts (in a container: unmask it)",
    "network namespace": "allow network namespaces (CONFIG_NET_NS; in a container: its seccomp profile)",
    "IPC namespace": "allow IPC namespaces (CONFIG_IPC_NS; in a container: its seccomp profile)",
    "limit on processes": "use Linux 6.14 or newer, or run as an ordinary user",
    "Landlock": _HINT_FOR_LANDLOCK,
    "seccomp": _HINT_FOR_SECCOMP,
}
"""Hints for failed layers. Layers that are not listed depend on mounts."""

_SWITCHES = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns`",
    ),
}
"""Kernel settings that can forbid user namespaces: the path, the forbidding value, and a hint with the command to allow them."""


def probe() -> SandboxReport:
    """Return a report based on system information. Only the first sandbox shows whether namespaces really work."""
    if sys.platform != "linux":
        return SandboxReport(available=False, reason=f"Landlock requires Linux, and this system is {sys.platform}")
    from codex_lib_confinement.syscall_numbers import ARCHITECTURE
    from codex_plugin_landlock.jail import landlock, system
    from codex_plugin_landlock.jail.syscalls import MACHINE

    if not ARCHITECTURE:
        return SandboxReport(
            available=False,
            reason=f"no system-call filter is known for {MACHINE}",
            hint="use an x86_64 or aarch64 machine",
        )
    if not system.has_seccomp():
        return SandboxReport(
            available=False,
            reason="the kernel has no seccomp filters",
            hint=_HINT_FOR_SECCOMP,
        )
    abi = landlock.abi_version()
    if abi < landlock.MINIMUM_ABI:
        return SandboxReport(
            available=False,
            reason=f"Landlock has ABI {abi} here, but at least {landlock.MINIMUM_ABI} is required"
            if abi
            else "Landlock is not enabled",
            hint=_HINT_FOR_LANDLOCK,
        )
    reason, hint = _refusal()
    return reduced_report(abi, reason, hint) if reason else full_report(abi)


def full_report(abi: int) -> SandboxReport:
    """Return the report for a sandbox with all layers."""
    return SandboxReport(available=True, level=FULL_LEVEL, protections=_protections(has_namespaces=True, abi=abi))


def reduced_report(abi: int, reason: str, hint: str) -> SandboxReport:
    """Return the report for a sandbox without namespaces, including its weaknesses."""
    from codex_plugin_landlock.jail.protections import PARTLY

    return SandboxReport(
        available=True,
        level=REDUCED_LEVEL,
        protections=_protections(has_namespaces=False, abi=abi),
        partly={Protection(word): means for word, means in PARTLY.items()},
        reason=f"namespaces are unavailable: {reason}",
        hint=hint,
    )


def _protections(*, has_namespaces: bool, abi: int) -> dict[Protection, str]:
    from codex_plugin_landlock.jail import system
    from codex_plugin_landlock.jail.protections import protections

    bounds = {
        "process namespace": has_namespaces and system.namespaces_can_be_bounded(),
        "resource limit": system.counts_processes(),
    }
    bounded = ", ".join(means for means, works in bounds.items() if works)
    return {
        Protection(word): means
        for word, means in protections(has_namespaces=has_namespaces, abi=abi, bounded=bounded).items()
    }


def with_enforced(report: SandboxReport, enforced: Mapping[str, str]) -> SandboxReport:
    """Return the report, updated with the protections that a running sandbox enforces."""
    corrections = {Protection(word): means for word, means in enforced.items()}
    return report.evolve(protections={**report.protections, **corrections})


def floor_error(plan: Plan, report: SandboxReport) -> SandboxError | None:
    """Return an error if this machine cannot enforce a plan's floor, or None if it can."""
    from codex_plugin_landlock.jail.protections import missing

    enforced = {protection.value: means for protection, means in report.protections.items()}
    lacking = missing(enforced, plan.data, has_namespaces=report.level == FULL_LEVEL)
    if not lacking:
        return None
    hints = dict.fromkeys(filter(None, lacking.values()))
    if not all(lacking.values()):
        hints[report.hint or HINT_FOR_FLOOR] = None
    return below_floor(", ".join(lacking), "; ".join(hints))


def below_floor(lacking: str, hint: str) -> SandboxError:
    """Return the error for protections of the floor that are not enforced."""
    fact = f"`[framework] sandbox_floor` requires protections that the landlock sandbox cannot enforce here: {lacking}"
    return SandboxError(fact, slug="sandbox-floor", hint=hint)


def layers_of(tried: Iterable[tuple[str, str]]) -> tuple[SandboxLayer, ...]:
    """Convert the results of trials to layers with hints."""
    _, switch = _refusal()
    hints = {"user namespace": switch or HINT_FOR_NAMESPACES, **_HINTS}
    return tuple(SandboxLayer(name, fault, hints.get(name, _HINT_FOR_MOUNTS) if fault else "") for name, fault in tried)


def _refusal() -> tuple[str, str]:
    """Return why user namespaces will be refused, and a hint. Both are empty if nothing indicates a refusal."""
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
