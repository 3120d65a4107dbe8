"""Which sandbox confines a command, and whether it seems to have refused something."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from codex_framework.errors import SandboxError
from codex_framework.process.login import LoginEnvironments
from codex_framework.process.spawn import Unconfined
from codex_framework.roles.networks import NetworkGate, NetworkProxy, NetworkRules, NetworkTarget
from codex_framework.roles.sandboxes import (
    Confinement,
    FileAccess,
    NetworkMode,
    Protection,
    Sandbox,
    SandboxReport,
    Warms,
)

__all__ = ["Confinements", "choose", "denied", "gate_for"]

_KEYWORDS = (
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "seccomp",
    "sandbox",
    "landlock",
    "failed to write file",
)
"""What programs print when a sandbox stops them, in lower case (Codex: ``is_likely_sandbox_denied``)."""

_MOST_PLANS = 256
"""Plans that are kept; a session makes another one with each set of additional permissions."""

_SIGNALLED = 128
"""What is added to a signal's number to make an exit code."""


class _Ended(Protocol):
    @property
    def exit_code(self) -> int: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def output(self) -> str: ...


class Confinements:
    """Plans by access, made once. One for each kernel, so that threads of one policy share a plan."""

    def __init__(self, sandboxes: Mapping[str, Sandbox], wanted: str | None) -> None:
        self._sandboxes = sandboxes
        self._wanted = wanted
        self._plans: dict[tuple[FileAccess, Path], Confinement] = {}
        self.unconfined = Unconfined()
        self.logins = LoginEnvironments()

    def plan(self, access: FileAccess, cwd: Path) -> Confinement:
        """The plan for this access.

        Raises:
            SandboxError: There is no sandbox here that can enforce it.
        """
        if not access.confines:
            return self.unconfined
        plan = self._plans.get((access, cwd))
        if plan is None:
            sandbox = choose(self._sandboxes, self._wanted, access)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[access, cwd] = sandbox.confine(access, cwd)
        return plan

    def plan_for_profile(self, access: FileAccess, cwd: Path) -> Confinement:
        """The plan under which the person's shell profile is read: as for commands, without a way to hosts. Raises as above."""
        if access.network is NetworkMode.PROXY:
            access = access.evolve(network=NetworkMode.OFF, network_rules=None)
        return self.plan(access, cwd)

    async def warm(self, access: FileAccess, cwd: Path) -> None:
        """Let the sandbox get ready for its first command. Errors are left to that command, which can report them."""
        with contextlib.suppress(SandboxError):
            plan = self.plan(access, cwd)
            if isinstance(plan, Warms):
                await plan.warm()

    async def aclose(self) -> None:
        """End the helper processes of all sandboxes."""
        await self.logins.aclose()
        for sandbox in self._sandboxes.values():
            await sandbox.aclose()


def choose(sandboxes: Mapping[str, Sandbox], wanted: str | None, access: FileAccess) -> Sandbox:
    """The sandbox for commands with this access: the one named in config, else the first that holds all of the floor here.

    Args:
        sandboxes: By name, in order of preference.
        wanted: ``[framework] sandbox``, if set. Nothing else is taken then.
        access: What has to be enforced; its floor is looked at, the rest is named in errors.

    Raises:
        SandboxError: There is none that could be used.
    """
    if wanted is not None:
        sandbox = _named(sandboxes, wanted)
        check_floor(wanted, sandbox.probe(), access.floor)
        return sandbox
    reports: dict[str, SandboxReport] = {}
    for name, sandbox in sandboxes.items():
        reports[name] = sandbox.probe()
        if reports[name].available and not reports[name].missing(access.floor):
            return sandbox
    for name, report in reports.items():
        if report.available:
            check_floor(name, report, access.floor)
    if not reports:
        raise SandboxError(
            f"commands have to be confined ({_limits(access)}), but no sandbox plugin is loaded",
            slug="no-sandbox",
            hint="enable one (`codex-framework plugins` lists them), or choose sandbox_mode danger-full-access where something"
            " else confines the agent",
        )
    reasons = "; ".join(f"{name}: {report.reason or 'not available'}" for name, report in reports.items())
    cures = "; ".join(dict.fromkeys(report.cure for report in reports.values() if report.cure))
    raise SandboxError(
        f"commands have to be confined ({_limits(access)}), but no sandbox works here ({reasons})",
        slug="no-sandbox",
        hint=cures or "choose sandbox_mode danger-full-access where something else confines the agent",
    )


def check_floor(name: str, report: SandboxReport, floor: Iterable[Protection]) -> None:
    """Refuse a sandbox that holds back less than it has to.

    Raises:
        SandboxError: As said; it names what is missing, and the cure.
    """
    missing = report.missing(floor)
    if missing:
        raise SandboxError(
            f"the sandbox {name!r} cannot hold back here what `framework.sandbox_floor` wants: {', '.join(missing)}"
            + (f" ({report.reason})" if report.reason else ""),
            slug="sandbox-floor",
            hint=report.cure or "take it out of `framework.sandbox_floor`, or use a sandbox that can",
        )


def _named(sandboxes: Mapping[str, Sandbox], wanted: str) -> Sandbox:
    sandbox = sandboxes.get(wanted)
    if sandbox is None:
        names = ", ".join(sorted(sandboxes)) or "none"
        raise SandboxError(
            f"there is no sandbox named {wanted!r} (loaded: {names})",
            slug="no-sandbox",
            hint="correct `[framework] sandbox` in config.toml, or enable the plugin that offers it",
        )
    report = sandbox.probe()
    if not report.available:
        raise SandboxError(
            f"the sandbox {wanted!r} does not work here: {report.reason or 'no reason given'}",
            slug="no-sandbox",
            hint=report.cure,
        )
    return sandbox


def _limits(access: FileAccess) -> str:
    files = "" if access.full else "writing limited" if access.roots else "read-only"
    network = {NetworkMode.ON: "", NetworkMode.PROXY: "some hosts only"}.get(access.network, "no network")
    return ", ".join(limit for limit in (files, network) if limit) or "no limits"


def gate_for(
    access: FileAccess,
    proxy: NetworkProxy | None,
    ask: Callable[[NetworkTarget], Awaitable[bool]] | None = None,
) -> NetworkGate | None:
    """A command's own way to the hosts that it may reach; None where it may reach all of them, or none.

    Args:
        ask: Called for hosts that the rules do not speak of.

    Raises:
        SandboxError: No plugin offers a proxy, or the rules contradict themselves.
    """
    if access.network is not NetworkMode.PROXY:
        return None
    if proxy is None:
        raise SandboxError(
            "only some hosts may be reached, but no network proxy is loaded",
            slug="no-network-proxy",
            hint="Enable the plugin `network_proxy`, or set `enabled = false` for the profile's network.",
        )
    return proxy.gate(access.network_rules or NetworkRules(), ask)


def denied(result: _Ended, *, confined: bool) -> bool:
    """Whether the sandbox is the likely reason why a command failed: by the words it printed, or death by ``SIGSYS``."""
    if not confined or result.exit_code == 0:
        return False
    if any(_speaks_of_denial(text) for text in (result.stderr, result.stdout, result.output)):
        return True
    return sys.platform == "linux" and result.exit_code == _SIGNALLED + signal.SIGSYS


def _speaks_of_denial(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _KEYWORDS)
