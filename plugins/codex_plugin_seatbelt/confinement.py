"""The confinement of the ``seatbelt`` sandbox, which starts commands under a profile."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from codex_framework import AccessMode, Confinement, FileAccess, Launch, NetworkMode, SandboxError, Unconfined
from codex_framework.contract.permissions.globs import expand
from codex_lib_confinement.launching import check_start
from codex_plugin_seatbelt.launching import TRIAL, try_out
from codex_plugin_seatbelt.process import SeatbeltProcess
from codex_plugin_seatbelt.profile import Profile
from codex_plugin_seatbelt.regions import Rules, mode_at

__all__ = ["SeatbeltConfinement"]

_MAX_PINNED = 1000
"""Maximum number of folders that contain matches of patterns. Their names must fit in a process's arguments."""

_LIMIT_SCRIPT = 'set +o posix; ulimit -f "$1" 2>/dev/null; shift; exec "$@"'
"""The script that limits file sizes. It is run by ``bash -p``, which reads no start-up file and counts in KiB in this mode.

The script fails if the current limit is already lower.
"""

_KIB = 1024


class Owner(Protocol):
    """The sandbox to which a confinement belongs. It tracks processes and temporary folders."""

    name: str

    @property
    def executable(self) -> str:
        """The path of ``sandbox-exec``."""
        ...

    def started(self, process: SeatbeltProcess) -> None:
        """Track a process until it has ended."""
        ...

    def ended(self, process: SeatbeltProcess) -> None:
        """Stop tracking a process."""
        ...

    def new_folder(self) -> str:
        """Create a temporary folder that is removed with the sandbox."""
        ...


class SeatbeltConfinement(Confinement):
    """A confinement that starts processes under a profile.

    Args:
        sandbox: The sandbox to which it belongs.
        access: The access that the profile enforces.
        profile: The profile, without the parts that differ between commands.
    """

    def __init__(self, sandbox: Owner, access: FileAccess, profile: Profile) -> None:
        self._sandbox = sandbox
        self._access = access
        self.profile = profile
        self._tmp: str | None = None
        self._pinned: tuple[str, ...] = ()
        self._ready = False
        self._preparing = asyncio.Lock()

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables for commands.

        ``CODEX_SANDBOX=seatbelt`` is always set. ``CODEX_SANDBOX_NETWORK_DISABLED=1`` means that nothing outside of this machine
        can be reached.
        """
        env = {"CODEX_SANDBOX": self._sandbox.name}
        if self.profile.network in (NetworkMode.OFF, NetworkMode.LOOPBACK):
            env["CODEX_SANDBOX_NETWORK_DISABLED"] = "1"
        return env

    async def start(self, launch: Launch) -> SeatbeltProcess:
        """Start a process under the profile.

        Raises:
            SandboxError: The system does not accept the profile. The command was not started.
            CommandFailed: The program or folder does not exist, or the program cannot be executed.
        """
        check_start(launch)
        await self._prepare()
        env = dict(launch.env)
        ports: tuple[int, ...] = ()
        if self.profile.network is NetworkMode.PROXY and launch.gate is not None:
            listening = await launch.gate.listen()
            env.update(launch.gate.environment(listening))
            ports = tuple(listening)
        if self._tmp is not None:
            env["TMPDIR"] = self._tmp
        terminal = os.ttyname(launch.stdin) if launch.tty else None
        argv = self.argv(self._limited(launch.argv), ports=ports, terminal=terminal)
        child = await Unconfined().start(launch.evolve(argv=argv, env=env))
        process = SeatbeltProcess(child, self._sandbox.ended)
        self._sandbox.started(process)
        return process

    async def warm(self) -> None:
        """Try the profile with a program that does nothing. Errors are ignored; the first command reports them."""
        with contextlib.suppress(SandboxError):
            await self._prepare()

    def argv(
        self, command: tuple[str, ...], *, ports: tuple[int, ...] = (), terminal: str | None = None
    ) -> tuple[str, ...]:
        """Return the command line that confines a command."""
        text, parameters = self.profile.completed(ports=ports, terminal=terminal, tmp=self._tmp, pinned=self._pinned)
        given = (f"-D{name}={value}" for name, value in parameters.items())
        return (self._sandbox.executable, "-p", text, *given, "--", *command)

    def _limited(self, command: tuple[str, ...]) -> tuple[str, ...]:
        limit = self._access.limits.file_bytes
        if limit is None:
            return command
        return ("/bin/bash", "-p", "-c", _LIMIT_SCRIPT, "bash", str(-(-limit // _KIB)), *command)

    async def _prepare(self) -> None:
        """Prepare the first start: find folders that must not be moved, create the temp folder, and try the profile.

        Raises:
            SandboxError: The system does not accept the profile, or there are too many folders.
        """
        async with self._preparing:
            if self.profile.private_tmp and not (self._tmp and Path(self._tmp).is_dir()):
                self._tmp = self._sandbox.new_folder()  # on first use, or after the sandbox was closed
            if self._ready:
                return
            rules = self.profile.rules
            if rules is not None and rules.globs and self._access.roots:
                self._pinned = await asyncio.to_thread(_around_matches, rules, self._access.glob_depth)
            await asyncio.to_thread(try_out, self.argv(TRIAL))
            self._ready = True


def _around_matches(rules: Rules, depth: int | None) -> tuple[str, ...]:
    """Return the writable folders that contain current matches of denied patterns.

    They must not be moved, because a pattern does not follow a moved folder.

    Raises:
        SandboxError: There are too many matches or folders.
    """
    matches = expand(rules.globs, depth, reopened=[path for path, _ in rules.modes])
    folders = dict.fromkeys(str(parent) for path in matches for parent in Path(path).parents)
    pinned = tuple(folder for folder in folders if folder != "/" and mode_at(rules, folder) is AccessMode.WRITE)
    if len(pinned) > _MAX_PINNED:
        raise SandboxError(
            f"the matches of denied patterns are in {len(pinned)} folders, more than {_MAX_PINNED}",
            hint="deny fewer files, or whole folders",
        )
    return pinned
