"""The ``seatbelt`` sandbox: every command is started by ``sandbox-exec`` with a profile of its own making."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework import FileAccess, NetworkMode, Protection, SandboxError, SandboxReport
from codex_framework.roles.sandboxes import SandboxLayer

if TYPE_CHECKING:
    from codex_plugin_seatbelt.confinement import SeatbeltConfinement
    from codex_plugin_seatbelt.process import SeatbeltProcess

__all__ = ["SANDBOX_EXEC", "SeatbeltSandbox"]

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
"""The only path it is taken from: what ``PATH`` says might be anybody's."""

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
    Protection.PROCESSES: f"{_SEATBELT}: no tracing and no environment; names and parents can be asked for by number",
    Protection.SHARED_MEMORY: f"{_SEATBELT}: named semaphores of others can be opened",
    Protection.KERNEL: f"{_SEATBELT}: IOKit, Mach services, sysctl, set-uid programs; system calls are not filtered",
    Protection.LIFETIME: "process groups and descent; daemons that leave their command quickly get away",
    Protection.RESOURCES: "ulimit: the size of files; memory is not limited",
}

_WEAK = "daemons that leave their command quickly may outlive it; processes and memory are not limited"


class SeatbeltSandbox:
    """Confines commands on macOS.

    Args:
        executable: Takes the place of ``/usr/bin/sandbox-exec``, on any system. For tests and systems of a special kind.
        real: Resolves the links in a path; None asks the file system.
    """

    name = "seatbelt"

    def __init__(self, executable: str | None = None, *, real: Callable[[str], str] | None = None) -> None:
        self._executable = executable
        self._real = real
        self._report: SandboxReport | None = None
        self._running: set[SeatbeltProcess] = set()
        self._folders: list[str] = []

    def probe(self) -> SandboxReport:
        """Whether this is a Mac with ``sandbox-exec``. Whether that takes a profile shows when the first command starts."""
        if self._report is None:
            self._report = self._probed()
        return self._report

    def confine(self, access: FileAccess, cwd: Path) -> SeatbeltConfinement:  # noqa: ARG002  # nothing depends on it
        """The plan for an access. Looks at links in its paths and at nothing else.

        Raises:
            SandboxError: Seatbelt is not there, or does not hold what has to be held (slug ``sandbox-floor``).
        """
        report = self.probe()
        if not report.available:
            raise SandboxError(f"the seatbelt sandbox does not work here: {report.reason}", hint=report.cure)
        missing = report.missing(access.floor)
        if missing:
            raise SandboxError(
                f"the seatbelt sandbox does not hold back: {', '.join(missing)}",
                slug="sandbox-floor",
                hint="take these words out of `[framework] sandbox_floor`, or run the agent in a virtual machine",
            )
        from codex_plugin_seatbelt.canonical import real_path
        from codex_plugin_seatbelt.confinement import SeatbeltConfinement
        from codex_plugin_seatbelt.profile import profile_for

        try:
            profile = profile_for(access, self._real or real_path)
        except ValueError as error:  # half a surrogate pair, or a NUL byte
            raise SandboxError(
                f"a path in the permissions is no path: {error}", hint="correct the permissions"
            ) from error
        return SeatbeltConfinement(self, access, profile)

    async def examine(self) -> tuple[SandboxLayer, ...]:
        """Let a program that does nothing run under one profile of each kind; none where this is no Mac."""
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
        """Remember a process, to end it with the sandbox."""
        self._running.add(process)

    def ended(self, process: SeatbeltProcess) -> None:
        """Forget it."""
        self._running.discard(process)

    def new_folder(self) -> str:
        """A temp folder for the commands of one plan; it goes with the sandbox."""
        import tempfile

        folder = os.path.realpath(tempfile.mkdtemp(prefix="codex-tmp-"))
        self._folders.append(folder)
        return folder

    async def aclose(self) -> None:
        """End all commands with their descendants, and remove their temp folders. Safe to call twice."""
        import shutil

        for process in tuple(self._running):
            await process.end()
        while self._folders:
            await asyncio.to_thread(shutil.rmtree, self._folders.pop(), ignore_errors=True)

    def _probed(self) -> SandboxReport:
        if self._executable is None and sys.platform != "darwin":
            return SandboxReport(
                available=False,
                reason=f"Seatbelt is a part of macOS, and this is {sys.platform}",
                cure="use the sandbox of this system (`landlock` on Linux)",
            )
        if not os.access(self.executable, os.X_OK):
            return SandboxReport(
                available=False,
                reason=f"there is no executable {self.executable}",
                cure="restore it; it is a part of macOS",
            )
        return SandboxReport(available=True, level="seatbelt", protections=_PROTECTIONS, partly=_PARTLY, reason=_WEAK)
