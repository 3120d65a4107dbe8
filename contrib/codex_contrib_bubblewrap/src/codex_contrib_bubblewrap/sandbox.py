"""The sandbox ``bubblewrap``, with one bwrap process per command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from codex_contrib_bubblewrap.settings import BubblewrapSettings
from codex_framework import (
    Confinement,
    FileAccess,
    Launch,
    NetworkMode,
    Protection,
    Sandbox,
    SandboxError,
    SandboxReport,
)

if TYPE_CHECKING:
    from codex_contrib_bubblewrap.process import BubblewrapProcess

__all__ = ["BubblewrapConfinement", "BubblewrapSandbox"]

LEVEL = "namespaces+seccomp"


class BubblewrapSandbox(Sandbox):
    """Confines commands on Linux with the program bubblewrap.

    Args:
        settings: The settings of the plugin.
        search: The search path for ``bwrap``, instead of ``PATH``.
    """

    name = "bubblewrap"

    def __init__(self, settings: BubblewrapSettings | None = None, *, search: str | None = None) -> None:
        self._settings = settings or BubblewrapSettings()
        self._search = search
        self._report: SandboxReport | None = None
        self._folder: Path | None = None
        self._running: set[BubblewrapProcess] = set()

    def probe(self) -> SandboxReport:
        """Report what works here, by running ``true`` in a sandbox."""
        if self._report is None:
            self._report = self._probed()
        return self._report

    def confine(self, access: FileAccess, cwd: Path) -> BubblewrapConfinement:
        """Return the plan for an access.

        Raises:
            SandboxError: It cannot be enforced here.
        """
        from codex_contrib_bubblewrap.program import choose, trial
        from codex_lib_confinement.launching import check_floor

        report = self.probe()
        if not report.available:
            raise SandboxError(f"bubblewrap does not work here: {report.reason}", slug="no-sandbox", hint=report.hint)
        check_floor("bubblewrap", report, access)
        program = choose(self._settings.path, self._path, access, cwd)
        reason, hint = trial(program)
        if reason:
            raise SandboxError(f"bubblewrap does not work here: {reason}", slug="no-sandbox", hint=hint)
        return BubblewrapConfinement(self, program, access)

    def folder(self) -> Path:
        """Return the folder for private folders, created at first use.

        It is in /tmp, which a private folder covers, so commands with a private folder cannot access it.
        """
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="codex-bubblewrap-"))  # made safely
        return self._folder

    def began(self, process: BubblewrapProcess) -> None:
        """Note a process, to end it with the sandbox."""
        self._running.add(process)

    def ended(self, process: BubblewrapProcess) -> None:
        """Forget a process."""
        self._running.discard(process)

    async def aclose(self) -> None:
        """End running processes, and remove our folder. Safe to call twice."""
        running = list(self._running)
        for process in running:
            process.kill()
        for process in running:
            await process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def _path(self) -> str:
        return os.environ.get("PATH", os.defpath) if self._search is None else self._search

    def _probed(self) -> SandboxReport:
        if sys.platform != "linux":
            return SandboxReport(
                available=False,
                reason=f"bubblewrap is a program for Linux, and this is {sys.platform}",
                hint="use the sandbox of this system (`codex-framework sandbox doctor` lists them)",
            )
        from codex_contrib_bubblewrap.program import HINT, candidates, trial

        program = next(candidates(self._settings.path, self._path), None)
        if program is None:
            where = f"at {self._settings.path}" if self._settings.path is not None else "on PATH"
            return SandboxReport(available=False, reason=f"there is no bwrap {where}", hint=HINT)
        reason, hint = trial(program)
        return SandboxReport(available=False, reason=reason, hint=hint) if reason else _report()


def _report() -> SandboxReport:
    from codex_contrib_bubblewrap import seccomp

    filtered = seccomp.supported()
    return SandboxReport(
        available=True,
        level=LEVEL if filtered else "namespaces",
        protections={
            Protection.WRITING: "read-only mounts",
            Protection.METADATA: "read-only mounts",
            Protection.PROTECTED_NAMES: "read-only mounts; missing ones by a placeholder while a command runs",
            Protection.READING: "mounts",
            Protection.PROCESSES: "process namespace, own /proc",
            Protection.SIGNALS: "process namespace",
            Protection.SHARED_MEMORY: "IPC namespace, own /dev/shm",
            Protection.TERMINALS: "its own /dev/pts, its own session, seccomp" if filtered else "",
            Protection.NETWORK: "network namespace" + (", seccomp" if filtered else ""),
            Protection.UNIX_SOCKETS: "seccomp" if filtered else "",
            Protection.KERNEL: "seccomp, no capabilities, no_new_privs" if filtered else "",
            Protection.LIFETIME: "process namespace",
            Protection.PROCESS_COUNT: "resource limit, counted by user namespace" if _counts_processes() else "",
            Protection.RESOURCES: "resource limits of each process, where configured",
        },
        reason="" if filtered else f"no system-call filter is known for {platform.machine()}",
        hint="" if filtered else "use an x86_64 or aarch64 machine",
    )


def _counts_processes() -> bool:
    """Return whether a process limit applies to one sandbox alone: since Linux 5.14, and never for the machine's root."""
    from codex_contrib_bubblewrap.limits import counts_by_namespace

    return os.geteuid() != 0 and counts_by_namespace()


class BubblewrapConfinement(Confinement):
    """A plan that is ready to start processes."""

    def __init__(self, sandbox: BubblewrapSandbox, program: str, access: FileAccess) -> None:
        self.sandbox = sandbox
        self.program = program
        self.access = access
        self._private: Path | None = None

    @property
    def env(self) -> Mapping[str, str]:
        """``CODEX_SANDBOX_NETWORK_DISABLED=1`` unless the network is on."""
        return {} if self.access.network is NetworkMode.ON else {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}

    @property
    def private_folder(self) -> str:
        """The replacement for ``/tmp``, which all commands of the plan share."""
        if not self.access.private_tmp:
            return ""
        if self._private is None or not self._private.is_dir():
            self._private = Path(tempfile.mkdtemp(dir=self.sandbox.folder(), prefix="tmp-"))
            self._private.chmod(0o1777)
        return str(self._private)

    async def start(self, launch: Launch) -> BubblewrapProcess:
        """Start a process under the plan.

        Raises:
            SandboxError: It cannot be confined. It was not started.
            CommandFailed: The program or folder does not exist or cannot be executed.
        """
        from codex_contrib_bubblewrap.launching import Launching, Plan

        plan = Plan(self.program, self.access, self.private_folder, self.sandbox.began, self.sandbox.ended)
        launching = Launching(plan, launch)
        try:
            return await launching.run()
        except asyncio.CancelledError:
            await launching.abandon()
            raise

    async def warm(self) -> None:
        """Import the modules for the first command. There is nothing else to prepare."""
        with contextlib.suppress(ImportError):
            import codex_contrib_bubblewrap.launching  # noqa: F401
