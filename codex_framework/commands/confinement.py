"""The choice of the sandbox for a command, and the detection of commands that the sandbox refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from codex_framework.commands.process.login import LoginEnvironments
from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.file_access import PROTECTED_NAMES, FileAccess, NetworkMode, Protection
from codex_framework.contract.roles.sandboxes import Confinement, Sandbox, SandboxReport
from codex_framework.toolkit.faults import Label, WrongValue, check_type, fact_of, kind_of
from codex_framework.toolkit.roles import add_defaults

__all__ = ["Confinements", "choose", "is_sandbox_denial", "make_plan", "probe_sandbox"]

_NOBODY: Mapping[tuple[str, str], str] = MappingProxyType({})

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

_SWEEP_AFTER_S = 0.2
"""Delay of the search for abandoned placeholders, in seconds. The model takes longer to respond."""

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

    def __init__(
        self, sandboxes: Mapping[str, Sandbox], wanted: str | None, owners: Mapping[tuple[str, str], str] = _NOBODY
    ) -> None:
        self._owners = owners
        self._sandboxes = sandboxes
        self._wanted = wanted
        self._plans: dict[tuple[FileAccess, Path], Confinement] = {}
        self._swept: set[Path] = set()
        self.logins = LoginEnvironments()

    @cached_property
    def unconfined_plan(self) -> Confinement:
        """The plan of commands that no sandbox confines."""
        from codex_framework.commands.process.spawn import (
            Unconfined,  # not before the first request, which it would delay
        )

        return Unconfined()

    def plan(self, access: FileAccess, cwd: Path) -> Confinement:
        """Return the plan for this access.

        Raises:
            SandboxError: No sandbox here can enforce it.
        """
        if access.elsewhere:
            raise SandboxError(
                "these are permissions of another environment",
                slug="environment",
                hint="Start the command in that environment, through the context of a call.",
            )
        if not access.confines:
            return self.unconfined_plan
        plan = self._plans.get((access, cwd))
        if plan is None:
            sandbox = choose(self._sandboxes, self._wanted, access, self._owners)
            plan = make_plan(partial(sandbox.confine, access, cwd), _label(sandbox, self._owners))
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[access, cwd] = plan
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
        """Prepare the sandbox for its first command. Errors are ignored here, because that command will report them.

        A little later, when the first request has been sent, placeholders that killed sandboxes have left are removed.
        """
        if cwd not in self._swept:
            self._swept.add(cwd)
            asyncio.get_running_loop().call_later(_SWEEP_AFTER_S, _sweep, cwd)
        with contextlib.suppress(SandboxError):
            await self.plan(access, cwd).warm()

    def closing(self) -> tuple[list[tuple[Label, LoginEnvironments]], list[tuple[Label, Sandbox]]]:
        """Return what to close, with names: first the login shells, then the sandboxes with their helper processes.

        Login shells run in sandboxes, which close quickly only when nothing runs in them.
        """
        sandboxes = [(_label(sandbox, self._owners), sandbox) for sandbox in self._sandboxes.values()]
        return [(Label("command", "login shell", ""), self.logins)], sandboxes


def _sweep(cwd: Path) -> None:
    """Remove the placeholders that killed sandboxes have left in a workspace and in the folders shared by all of them.

    The next sandbox with the same paths would remove them too, but this session may not use one. Until then, an empty ``.git``
    of a shared folder misleads other programs.
    """
    from codex_framework.commands.access import CREDENTIALS
    from codex_framework.toolkit.placeholders import remove_abandoned

    folders = {str(cwd), "/tmp", os.environ.get("TMPDIR", "")}  # noqa: S108
    names = (*PROTECTED_NAMES, CREDENTIALS)
    remove_abandoned(f"{folder}/{name}" for folder in folders if folder.startswith("/") for name in names)


def choose(
    sandboxes: Mapping[str, Sandbox],
    wanted: str | None,
    access: FileAccess,
    owners: Mapping[tuple[str, str], str] = _NOBODY,
) -> Sandbox:
    """Return the sandbox for commands with this access.

    This is the sandbox named in the configuration, or else the first that enforces the whole floor here.

    Args:
        sandboxes: The sandboxes by name, in order of preference.
        wanted: ``[framework] sandbox``. If it is set, no other sandbox is used. None if it is not set.
        access: The access to enforce. Its floor is checked, and the rest is named in errors.
        owners: The plugin of each offer, by role and name.

    Raises:
        SandboxError: No suitable sandbox is available.
    """
    if wanted is not None:
        sandbox = _find_sandbox(sandboxes, wanted, owners)
        check_floor(wanted, probe_sandbox(sandbox, owners), access.floor)
        return sandbox
    reports: dict[str, SandboxReport] = {}
    for name, sandbox in sandboxes.items():
        reports[name] = probe_sandbox(sandbox, owners)
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


def probe_sandbox(sandbox: Sandbox, owners: Mapping[tuple[str, str], str] = _NOBODY) -> SandboxReport:
    """Return the capabilities of a sandbox. One that fails is not available, and the reason is why."""
    try:
        return check_type(sandbox.probe(), SandboxReport, "it", sandbox.probe)
    except (Exception, SystemExit) as error:  # a plugin may raise anything; another sandbox may work
        label = _label(sandbox, owners)
        reason = f"{label}: probe() failed: {fact_of(error, sandbox.probe)}"
        return SandboxReport(available=False, reason=reason, hint=label.advice(error))


def make_plan(confine: partial[Any], label: Label) -> Confinement:
    """Have a plugin make a plan.

    Args:
        label: The name of the plugin's object, for messages.

    Raises:
        SandboxError: The access cannot be enforced, or the plugin failed.
    """
    try:
        plan: Any = confine()
        if not callable(getattr(plan, "start", None)):
            hint = "Return a Confinement, or raise SandboxError."
            raise WrongValue(f"it returned {kind_of(plan)}, not a Confinement", confine.func, hint=hint)
        whole: Confinement = add_defaults(plan, Confinement)
        return whole
    except SandboxError:
        raise
    except (Exception, SystemExit) as error:  # a plugin may raise anything, and then nothing is confined
        fact = f"{label}: confine() failed: {fact_of(error, confine.func)}"
        raise SandboxError(fact, slug="plugin", hint=label.advice(error)) from error


def _label(sandbox: Sandbox, owners: Mapping[tuple[str, str], str]) -> Label:
    return Label("sandbox", sandbox.name, owners.get(("sandboxes", sandbox.name), ""))


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


def _find_sandbox(sandboxes: Mapping[str, Sandbox], wanted: str, owners: Mapping[tuple[str, str], str]) -> Sandbox:
    sandbox = sandboxes.get(wanted)
    if sandbox is None:
        names = ", ".join(sorted(sandboxes)) or "none"
        raise SandboxError(
            f"there is no sandbox named {wanted!r} (loaded: {names})",
            slug="no-sandbox",
            hint="fix `[framework] sandbox` in config.toml, or enable the plugin that offers it",
        )
    report = probe_sandbox(sandbox, owners)
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


def is_sandbox_denial(result: _Ended, *, confined: bool) -> bool:
    """Return whether the sandbox is the likely reason for a failure, judged by the output or by death from ``SIGSYS``."""
    if not confined or result.exit_code == 0:
        return False
    if any(_speaks_of_denial(text) for text in (result.stderr, result.stdout, result.output)):
        return True
    return sys.platform == "linux" and result.exit_code == _SIGNALLED + signal.SIGSYS


def _speaks_of_denial(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _KEYWORDS)
