"""The choice of the sandbox for a command, and the detection of commands that the sandbox refused."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from codex_framework.commands.process.login import LoginEnvironments
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode, Protection
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.roles.networks import NetworkGate, NetworkProxy, NetworkTarget
from codex_framework.contract.roles.sandboxes import Confinement, Sandbox, SandboxReport
from codex_framework.toolkit.roles import completed

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
"""Texts that programs print when a sandbox stops them, in lower case (Codex: ``is_likely_sandbox_denied``)."""

_MAX_PLANS = 256
"""Maximum number of cached plans. Each set of additional permissions in a session needs another plan."""

_SIGNALLED = 128
"""The number added to a signal's number to get the exit code."""


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
    """The cached plans by access. There is one cache per kernel, so that threads with the same policy share their plans."""

    def __init__(self, sandboxes: Mapping[str, Sandbox], wanted: str | None) -> None:
        self._sandboxes = sandboxes
        self._wanted = wanted
        self._plans: dict[tuple[FileAccess, Path], Confinement] = {}
        self.unconfined = Unconfined()
        self.logins = LoginEnvironments()

    def plan(self, access: FileAccess, cwd: Path) -> Confinement:
        """Return the plan for this access.

        Raises:
            SandboxError: No sandbox here can enforce it.
        """
        if not access.confines:
            return self.unconfined
        plan = self._plans.get((access, cwd))
        if plan is None:
            sandbox = choose(self._sandboxes, self._wanted, access)
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[access, cwd] = completed(sandbox.confine(access, cwd), Confinement)
        return plan

    def plan_for_profile(self, access: FileAccess, cwd: Path) -> Confinement:
        """Return the plan for reading the user's shell profile: the plan for commands, but without a network proxy.

        Raises:
            SandboxError: As for :meth:`plan`.
        """
        if access.network is NetworkMode.PROXY:
            access = access.evolve(network=NetworkMode.OFF, network_rules=None)
        return self.plan(access, cwd)

    async def warm(self, access: FileAccess, cwd: Path) -> None:
        """Prepare the sandbox for its first command. Errors are ignored here, because that command will report them."""
        with contextlib.suppress(SandboxError):
            await self.plan(access, cwd).warm()

    async def aclose(self) -> None:
        """End the helper processes of all sandboxes."""
        await self.logins.aclose()
        for sandbox in self._sandboxes.values():
            await sandbox.aclose()


def choose(sandboxes: Mapping[str, Sandbox], wanted: str | None, access: FileAccess) -> Sandbox:
    """Return the sandbox for commands with this access.

    This is the sandbox named in the configuration, or else the first that enforces the whole floor here.

    Args:
        sandboxes: The sandboxes by name, in order of preference.
        wanted: ``[framework] sandbox``. If it is set, no other sandbox is used. None means that it is not set.
        access: The access to enforce. Its floor is checked, and the rest is named in errors.

    Raises:
        SandboxError: No suitable sandbox is available.
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
            f"commands must be confined ({_limits(access)}), but no sandbox plugin is loaded",
            slug="no-sandbox",
            hint="enable one (`codex-framework plugins` lists them), or set sandbox_mode to danger-full-access if something"
            " else confines the agent",
        )
    reasons = "; ".join(f"{name}: {report.reason or 'not available'}" for name, report in reports.items())
    hints = "; ".join(dict.fromkeys(report.hint for report in reports.values() if report.hint))
    raise SandboxError(
        f"commands must be confined ({_limits(access)}), but no sandbox works here ({reasons})",
        slug="no-sandbox",
        hint=hints or "set sandbox_mode to danger-full-access if something else confines the agent",
    )


def check_floor(name: str, report: SandboxReport, floor: Iterable[Protection]) -> None:
    """Refuse a sandbox that does not enforce the whole floor.

    Raises:
        SandboxError: Some of the floor is missing; the fact and the hint name it.
    """
    missing = report.missing(floor)
    if missing:
        raise SandboxError(
            f"the sandbox {name!r} cannot enforce all of `framework.sandbox_floor` here; missing: {', '.join(missing)}"
            + (f" ({report.reason})" if report.reason else ""),
            slug="sandbox-floor",
            hint=report.hint or "remove it from `framework.sandbox_floor`, or use a sandbox that can enforce it",
        )


def _named(sandboxes: Mapping[str, Sandbox], wanted: str) -> Sandbox:
    sandbox = sandboxes.get(wanted)
    if sandbox is None:
        names = ", ".join(sorted(sandboxes)) or "none"
        raise SandboxError(
            f"there is no sandbox named {wanted!r} (loaded: {names})",
            slug="no-sandbox",
            hint="fix `[framework] sandbox` in config.toml, or enable the plugin that offers it",
        )
    report = sandbox.probe()
    if not report.available:
        raise SandboxError(
            f"the sandbox {wanted!r} does not work here: {report.reason or 'no reason given'}",
            slug="no-sandbox",
            hint=report.hint,
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
    """Return a network gate for a command, or None if the command may reach all hosts or none.

    Args:
        access: The access of the command.
        proxy: The network proxy, or None if no plugin offers one.
        ask: Called for hosts that no rule matches. None refuses these hosts.

    Raises:
        SandboxError: No plugin offers a proxy, or the rules contradict each other.
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
    """Return whether the sandbox is the likely reason for a failure, judged by the output or by death from ``SIGSYS``."""
    if not confined or result.exit_code == 0:
        return False
    if any(_speaks_of_denial(text) for text in (result.stderr, result.stdout, result.output)):
        return True
    return sys.platform == "linux" and result.exit_code == _SIGNALLED + signal.SIGSYS


def _speaks_of_denial(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _KEYWORDS)
