"""A plan of the ``seatbelt`` sandbox, and how commands are started under it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework import AccessMode, FileAccess, Launch, NetworkMode, SandboxError, Unconfined
from codex_framework.globs import TooManyMatches, expand
from codex_plugin_seatbelt.launching import TRIAL, check_program, try_out
from codex_plugin_seatbelt.process import SeatbeltProcess
from codex_plugin_seatbelt.profile import Profile
from codex_plugin_seatbelt.regions import Rules, mode_at

if TYPE_CHECKING:
    from codex_plugin_seatbelt.sandbox import SeatbeltSandbox

__all__ = ["SeatbeltConfinement"]

_MOST_PINNED = 1000
"""Folders around matches of patterns; their names have to fit among a process's arguments."""

_LIMITED = 'set +o posix; ulimit -f "$1" 2>/dev/null; shift; exec "$@"'
"""Run by ``bash -p``, which reads no start-up file and, so told, counts in KiB. It fails where the limit is lower already."""

_KIB = 1024


class SeatbeltConfinement:
    """A profile that is ready to start processes.

    Args:
        sandbox: Whose it is.
        access: What it was made from.
        profile: The profile, but for what belongs to a single command.
    """

    def __init__(self, sandbox: SeatbeltSandbox, access: FileAccess, profile: Profile) -> None:
        self._sandbox = sandbox
        self._access = access
        self.profile = profile
        self._tmp: str | None = None
        self._pinned: tuple[str, ...] = ()
        self._ready = False
        self._preparing = asyncio.Lock()

    @property
    def env(self) -> Mapping[str, str]:
        """``CODEX_SANDBOX=seatbelt``, and ``CODEX_SANDBOX_NETWORK_DISABLED=1`` where there is no way out of this machine."""
        env = {"CODEX_SANDBOX": self._sandbox.name}
        if self.profile.network in (NetworkMode.OFF, NetworkMode.LOOPBACK):
            env["CODEX_SANDBOX_NETWORK_DISABLED"] = "1"
        return env

    async def start(self, launch: Launch) -> SeatbeltProcess:
        """Start a process under the profile.

        Raises:
            SandboxError: The system does not take the profile; nothing of the command has run.
            CommandFailed: The program or folder does not exist or cannot be executed.
        """
        check_program(launch)
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
        """Try the profile with a program that does nothing. Errors are left to the first start."""
        with contextlib.suppress(SandboxError):
            await self._prepare()

    def argv(
        self, command: tuple[str, ...], *, ports: tuple[int, ...] = (), terminal: str | None = None
    ) -> tuple[str, ...]:
        """The command line that confines a command."""
        text, parameters = self.profile.completed(ports=ports, terminal=terminal, tmp=self._tmp, pinned=self._pinned)
        given = (f"-D{name}={value}" for name, value in parameters.items())
        return (self._sandbox.executable, "-p", text, *given, "--", *command)

    def _limited(self, command: tuple[str, ...]) -> tuple[str, ...]:
        most = self._access.limits.file_bytes
        if most is None:
            return command
        return ("/bin/bash", "-p", "-c", _LIMITED, "bash", str(-(-most // _KIB)), *command)

    async def _prepare(self) -> None:
        """Once: look for what must not be moved, make the temp folder, and see whether the system takes the profile.

        Raises:
            SandboxError: It does not, or there is too much to look after.
        """
        async with self._preparing:
            if self.profile.private_tmp and not (self._tmp and Path(self._tmp).is_dir()):
                self._tmp = self._sandbox.new_folder()  # the first one, or the sandbox has been closed meanwhile
            if self._ready:
                return
            rules = self.profile.rules
            if rules is not None and rules.globs and self._access.roots:
                self._pinned = await asyncio.to_thread(_around_matches, rules, self._access.glob_depth)
            await asyncio.to_thread(try_out, self.argv(TRIAL))
            self._ready = True


def _around_matches(rules: Rules, depth: int | None) -> tuple[str, ...]:
    """The writable folders around what patterns deny now: a pattern says nothing about a folder that is moved elsewhere.

    Raises:
        SandboxError: There are too many.
    """
    hint = "deny fewer files, or whole folders"
    try:
        found = expand(rules.globs, depth)
        inside = [path for path, _ in rules.modes if any(path.startswith(f"{match}/") for match in found)]
        if opened := [path for path in inside if os.path.lexists(path)]:
            found = expand(rules.globs, depth, reopened=opened)
    except TooManyMatches as error:
        raise SandboxError(f"the pattern {error} matches too many files", hint=hint) from error
    folders = dict.fromkeys(str(above) for path in found for above in Path(path).parents)
    pinned = tuple(folder for folder in folders if folder != "/" and mode_at(rules, folder) is AccessMode.WRITE)
    if len(pinned) > _MOST_PINNED:
        raise SandboxError(f"what patterns deny lies in {len(pinned)} folders, more than {_MOST_PINNED}", hint=hint)
    return pinned
