"""What this machine can enforce, found out without starting anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from codex_framework import SandboxError, SandboxReport
from codex_framework.roles.sandboxes import Protection, SandboxLayer
from codex_plugin_landlock.plan import Plan

__all__ = [
    "CURE_OF_NAMESPACES",
    "FULL_LEVEL",
    "REDUCED_LEVEL",
    "below_floor",
    "floor_error",
    "full_report",
    "layers_of",
    "learned",
    "probe",
    "reduced_report",
]

FULL_LEVEL = "namespaces+landlock+seccomp"
REDUCED_LEVEL = "landlock+seccomp"

CURE_OF_NAMESPACES = "allow user namespaces (in a container: its seccomp and AppArmor profiles)"
CURE_OF_FLOOR = (
    "take it out of sandbox_floor, or use a machine that can hold it back (`codex-framework sandbox doctor`)"
)
_CURE_OF_MOUNTS = "allow mounts in user namespaces (in a container: its seccomp and AppArmor profiles)"
_CURE_OF_LANDLOCK = "use Linux 6.2 or newer with `landlock` in the `lsm=` boot parameter"
_CURE_OF_SECCOMP = "use a kernel with CONFIG_SECCOMP_FILTER"
_CURES = {
    "process namespace": "allow mounts in user namespaces, and a /proc without masked parts (in a container: unmask it)",
    "network namespace": "allow network namespaces (CONFIG_NET_NS; in a container: its seccomp profile)",
    "IPC namespace": "allow IPC namespaces (CONFIG_IPC_NS; in a container: its seccomp profile)",
    "limit on processes": "use Linux 6.14 or newer, or run as an ordinary user",
    "Landlock": _CURE_OF_LANDLOCK,
    "seccomp": _CURE_OF_SECCOMP,
}
"""By layer, where it is not the mounts."""

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
            cure=_CURE_OF_SECCOMP,
        )
    abi = landlock.abi_version()
    if abi < landlock.MINIMUM_ABI:
        return SandboxReport(
            available=False,
            reason=f"Landlock's ABI is {abi} here, at least {landlock.MINIMUM_ABI} is needed"
            if abi
            else "Landlock is not enabled",
            cure=_CURE_OF_LANDLOCK,
        )
    reason, cure = _refusal()
    return reduced_report(abi, reason, cure) if reason else full_report(abi)


def full_report(abi: int) -> SandboxReport:
    """All layers."""
    return SandboxReport(available=True, level=FULL_LEVEL, protections=_protections(own=True, abi=abi))


def reduced_report(abi: int, reason: str, cure: str) -> SandboxReport:
    """Without namespaces: weaker, and it says where."""
    from codex_plugin_landlock.jail.protections import PARTLY

    return SandboxReport(
        available=True,
        level=REDUCED_LEVEL,
        protections=_protections(own=False, abi=abi),
        partly={Protection(word): means for word, means in PARTLY.items()},
        reason=f"namespaces are not to be had: {reason}",
        cure=cure,
    )


def _protections(*, own: bool, abi: int) -> dict[Protection, str]:
    from codex_plugin_landlock.jail import limits
    from codex_plugin_landlock.jail.protections import protections

    bounds = {
        "process namespace": own and limits.namespaces_can_be_bounded(),
        "resource limit": limits.counts_processes(),
    }
    bounded = ", ".join(means for means, works in bounds.items() if works)
    return {Protection(word): means for word, means in protections(own=own, abi=abi, bounded=bounded).items()}


def learned(report: SandboxReport, enforced: Mapping[str, str]) -> SandboxReport:
    """The report, corrected by what a running sandbox says of itself."""
    held = {Protection(word): means for word, means in enforced.items()}
    return report.evolve(protections={**report.protections, **held})


def floor_error(plan: Plan, report: SandboxReport) -> SandboxError | None:
    """Why a plan's floor does not stand on this machine, if it does not."""
    from codex_plugin_landlock.jail.protections import missing

    held = {one.value: means for one, means in report.protections.items()}
    lacking = missing(held, plan.data, own=report.level == FULL_LEVEL)
    if not lacking:
        return None
    cures = dict.fromkeys(filter(None, lacking.values()))
    if not all(lacking.values()):
        cures[report.cure or CURE_OF_FLOOR] = None
    return below_floor(", ".join(lacking), "; ".join(cures))


def below_floor(lacking: str, cure: str) -> SandboxError:
    """Says what is not held back."""
    fact = f"`[framework] sandbox_floor` demands what the landlock sandbox does not hold back here: {lacking}"
    return SandboxError(fact, slug="sandbox-floor", hint=cure)


def layers_of(tried: Iterable[tuple[str, str]]) -> tuple[SandboxLayer, ...]:
    """The outcome of trials, each with its cure."""
    _, switch = _refusal()
    cures = {"user namespace": switch or CURE_OF_NAMESPACES, **_CURES}
    return tuple(SandboxLayer(name, fault, cures.get(name, _CURE_OF_MOUNTS) if fault else "") for name, fault in tried)


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
