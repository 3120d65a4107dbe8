"""The ``seatbelt`` sandbox: ``sandbox-exec`` starts every command with a generated profile."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework import FileAccess, NetworkMode, Protection, Sandbox, SandboxError, SandboxReport
from codex_framework.contract.roles.sandboxes import SandboxLayer

if TYPE_CHECKING:
    from codex_plugin_seatbelt.confinement import SeatbeltConfinement
    from codex_plugin_seatbelt.process import SeatbeltProcess

__all__ = ["SANDBOX_EXEC", "SeatbeltSandbox"]

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
"""The path of ``sandbox-exec``. ``PATH`` is not searched, because it could contain any program."""

_SEATBELT = "Seatbelt"

_PROTECTIONS = {
    Protection.WRITING: _SEATBELT,
    Protection.METADATA: _SEATBELT,
    Protection.PROTECTED_NAMES: f"{_SEATBELT}, names in either case",
    Protection.READING: _SEATBELT,
    Protection.SIGNALS: f"{_SEATBELT}, the same sandbox only",
    Protection.TERMINALS: f"{_SEATBELT}, sessions",
    Protection.NETWORK: _SEATBELT,
    Protection.UNIX_SOCKETS: _SEATBELT,
}

_PARTLY = {
    Protection.PROCESSES: f"{_SEATBELT}: no tracing and no environment; names and parents can be queried by number",
    Protection.SHARED_MEMORY: f"{_SEATBELT}: named semaphores of other processes can be opened",
    Protection.KERNEL: f"{_SEATBELT}: IOKit, Mach services, sysctl, set-uid programs; system calls are not filtered",
    Protection.LIFETIME: "process groups and descent; daemons that quickly detach themselves escape",
    Protection.RESOURCES: "ulimit: file sizes; memory is not limited",
}

_WEAK = "daemons that quickly detach themselves may outlive their command; processes and memory are not limited"


class SeatbeltSandbox(Sandbox):
    """A sandbox for macOS.

    Args:
        executable: The program to use instead of ``/usr/bin/sandbox-exec``, on any system. For tests and special systems.
        real: Resolves the symlinks in a path. None if the file system is used.
    """

    name = "seatbelt"

    def __init__(self, executable: str | None = None, *, real: Callable[[str], str] | None = None) -> None:
        self._executable = executable
        self._real = real
        self._report: SandboxReport | None = None
        self._running: set[SeatbeltProcess] = set()
        self._folders: list[str] = []

    def probe(self) -> SandboxReport:
        """Report whether this is a Mac with ``sandbox-exec``. Only the first command shows whether it accepts a profile."""
        if self._report is None:
            self._report = self._new_report()
        return self._report

    def confine(self, access: FileAccess, cwd: Path) -> SeatbeltConfinement:  # noqa: ARG002  # unused
        """Return a confinement that enforces ``access``. This reads only the symlinks in its paths.

        Raises:
            SandboxError: Seatbelt is unavailable, or cannot enforce the floor (slug ``sandbox-floor``).
        """
        report = self.probe()
        if not report.available:
            raise SandboxError(f"the seatbelt sandbox does not work here: {report.reason}", hint=report.hint)
        missing = report.missing(access.floor)
        if missing:
            raise SandboxError(
                f"the seatbelt sandbox cannot enforce: {', '.join(missing)}",
                slug="sandbox-floor",
                hint="remove these values from `[framework] sandbox_floor`, or run the agent in a virtual machine",
            )
        from codex_plugin_seatbelt.canonical import real_path
        from codex_plugin_seatbelt.confinement import SeatbeltConfinement
        from codex_plugin_seatbelt.profile import profile_for

        try:
            profile = profile_for(access, self._real or real_path)
        except ValueError as error:  # half a surrogate pair, or a NUL byte
            raise SandboxError(f"a path in the permissions is invalid: {error}", hint="fix the permissions") from error
        return SeatbeltConfinement(self, access, profile)

    async def examine(self) -> tuple[SandboxLayer, ...]:
        """Run a program that does nothing under one profile of each kind. The result is empty if this is not a Mac."""
        from codex_plugin_seatbelt.kinds import KINDS
        from codex_plugin_seatbelt.launching import TRIAL, try_out

        if not self.probe().available:
            return ()
        layers = []
        for name, access in KINDS.items():
            ports = (1,) if access.network is NetworkMode.PROXY else ()
            argv = self.confine(access, Path("/")).argv(TRIAL, ports=ports)
            try:
                await asyncio.to_thread(try_out, argv)
            except SandboxError as error:
                layers.append(SandboxLayer(name, str(error), error.hint))
            else:
                layers.append(SandboxLayer(name))
        return tuple(layers)

    @property
    def executable(self) -> str:
        """The program that confines itself and then becomes the command."""
        return self._executable or SANDBOX_EXEC

    def started(self, process: SeatbeltProcess) -> None:
        """Track a process, so that it is ended with the sandbox."""
        self._running.add(process)

    def ended(self, process: SeatbeltProcess) -> None:
        """Stop tracking a process."""
        self._running.discard(process)

    def new_folder(self) -> str:
        """Create a temp folder for the commands of one plan. It is removed with the sandbox."""
        import tempfile

        folder = os.path.realpath(tempfile.mkdtemp(prefix="codex-tmp-"))
        self._folders.append(folder)
        return folder

    async def aclose(self) -> None:
        """End all commands with their descendants, and remove their temp folders. May be called more than once."""
        import shutil

        for process in tuple(self._running):
            await process.end()
        while self._folders:
            await asyncio.to_thread(shutil.rmtree, self._folders.pop(), ignore_errors=True)

    def _new_report(self) -> SandboxReport:
        if self._executable is None and sys.platform != "darwin":
            return SandboxReport(
                available=False,
                reason=f"Seatbelt requires macOS, and this system is {sys.platform}",
                hint="use the sandbox of this system (`landlock` on Linux)",
            )
        if not os.access(self.executable, os.X_OK):
            return SandboxReport(
                available=False,
                reason=f"there is no executable {self.executable}",
                hint="restore it; it is part of macOS",
            )
        return SandboxReport(available=True, level="seatbelt", protections=_PROTECTIONS, partly=_PARTLY, reason=_WEAK)
