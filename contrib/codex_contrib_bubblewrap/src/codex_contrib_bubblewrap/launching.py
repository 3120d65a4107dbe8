"""The start of one command: checks in advance, then bubblewrap, which waits until everything is ready."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import NamedTuple

from codex_contrib_bubblewrap import seccomp
from codex_contrib_bubblewrap.bridge import PORTS, join
from codex_contrib_bubblewrap.layout import layout_of
from codex_contrib_bubblewrap.limits import limit
from codex_contrib_bubblewrap.options import MOST_OPTIONS, options_of
from codex_contrib_bubblewrap.process import BubblewrapProcess
from codex_contrib_bubblewrap.relay import Relay
from codex_framework import CommandFailed, FileAccess, Launch, NetworkMode, Protection, SandboxError
from codex_framework.toolkit.placeholders import Placeholders
from codex_framework.toolkit.signals import default_signals
from codex_lib_confinement.launching import check_start, check_text, start_error

__all__ = ["Launching", "Plan"]

_DIAGNOSIS_S = 10.0
_NOWHERE = "/proc/self/no-such-program"
"""The program for a diagnosis, which does not exist, so that bubblewrap executes nothing."""


class Plan(NamedTuple):
    """The common data of the starts of one plan.

    Attributes:
        program: bubblewrap's path.
        private_folder: The replacement for ``/tmp``; may be empty.
        began, ended: Inform the sandbox about its processes.
    """

    program: str
    access: FileAccess
    private_folder: str
    began: Callable[[BubblewrapProcess], None]
    ended: Callable[[BubblewrapProcess], None]


class Launching:
    """One start."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        self._plan = plan
        self._access = plan.access
        self._launch = launch
        self._process: BubblewrapProcess | None = None
        self._placeholders: Placeholders | None = None
        self._relay: Relay | None = None

    async def run(self) -> BubblewrapProcess:
        """Start the command. Raises the same errors as :meth:`codex_framework.Confinement.start`."""
        env = dict(self._launch.env)
        if self._access.network is NetworkMode.PROXY:
            if self._launch.gate is None:
                raise SandboxError(
                    "commands may use the network only through a proxy, and this command has none",
                    hint="enable a plugin that offers a network proxy (`codex-framework plugins` lists them)",
                )
            env |= self._launch.gate.environment(PORTS)
        check_text(self._launch.argv, env)
        check_start(self._launch)
        through = self._through()
        if self._access.denied_globs:  # folders must be searched
            layout = await asyncio.to_thread(layout_of, self._access)
        else:
            layout = layout_of(self._access)
        options = options_of(
            layout,
            self._access.network,
            cwd=os.path.realpath(self._launch.cwd),
            env=env,
            private=self._plan.private_folder,
        )
        if len(options) >= MOST_OPTIONS:
            raise SandboxError(
                f"bubblewrap accepts at most {MOST_OPTIONS} words, but {len(options)} would be needed",
                hint="deny folders instead of many single files, and pass fewer variables",
            )
        self._placeholders = Placeholders(layout.placeholders)
        try:
            return await self._started(options, through)
        except BaseException:
            if self._process is None:
                self._end()
            raise

    async def abandon(self) -> None:
        """End the unfinished start, because its result is no longer needed."""
        if self._process is not None:
            self._process.kill()

    def _through(self) -> tuple[str, ...]:
        """Return the program that makes the terminal the command's own before it runs the command."""
        if not self._launch.tty:
            return ()
        program = shutil.which("setsid", path=os.defpath + ":/usr/bin")
        if program is None:
            raise SandboxError("a terminal needs the program `setsid`", hint="install util-linux")
        return (program, "-c", "--")

    async def _started(self, options: tuple[str, ...], through: tuple[str, ...]) -> BubblewrapProcess:
        self._relay = Relay(self._launch.stdin, self._launch.stdout, self._launch.stderr)
        pause, go = os.pipe()
        try:
            process = self._spawn(options, (*through, *self._launch.argv), pause)
            self._relay.started()
            pid = await process.begun()
            if pid is not None:
                await self._prepare(process, pid)
        except asyncio.CancelledError:
            if self._process is not None:  # the waiting process must not continue before it is killed
                self._process.kill()
                await self._process.begun()
            raise
        finally:
            os.close(pause)
            os.close(go)  # this ends the wait
        if not await process.executed(b"\0".join(map(os.fsencode, through[:-1]))):
            await process.wait()
            raise await self._failure(options)
        return process

    def _spawn(self, options: tuple[str, ...], argv: tuple[str, ...], pause: int) -> BubblewrapProcess:
        relay = self._relay
        assert relay is not None
        read, write = os.pipe()
        with contextlib.ExitStack() as ours:
            ours.callback(os.close, write)
            words = [*options, "--block-fd", str(pause), "--json-status-fd", str(write)]
            passed = [pause, write]
            services = Protection.UNIX_SOCKETS not in self._access.floor
            rules = seccomp.filter_for(self._access.network, services=services)
            if rules:
                passed.append(_memory(ours, rules))
                words += ["--seccomp", str(passed[-1])]
            passed.append(_memory(ours, _pack_words(words)))
            try:
                with default_signals():
                    process = subprocess.Popen(  # below a millisecond, and atomic with respect to cancellation
                        [BubblewrapProcess.mark, "--args", str(passed[-1]), "--", *argv],
                        executable=self._plan.program,
                        cwd="/",
                        env={},  # nothing of the command's environment may change what bubblewrap does
                        stdin=relay.streams[0],
                        stdout=relay.streams[1],
                        stderr=relay.streams[2],
                        pass_fds=passed,
                        start_new_session=True,
                    )
            except OSError as error:
                os.close(read)
                if error.errno == errno.E2BIG:
                    raise start_error(errno.E2BIG, hint="Shorten the command line.") from error
                raise SandboxError(
                    f"{self._plan.program} cannot be started: {error.strerror}", hint="reinstall bubblewrap"
                ) from error
        self._process = started = BubblewrapProcess(process, read, own_session=self._launch.tty, ended=self._end)
        self._plan.began(started)
        return started

    async def _prepare(self, process: BubblewrapProcess, pid: int) -> None:
        """Set the limits and connect the gate while bubblewrap's child waits."""
        try:
            limit(pid, self._access.limits)
        except ProcessLookupError:
            return  # it has ended by itself; the reason is reported at its end
        except OSError as error:
            process.kill()
            raise SandboxError(
                f"the limits of `sandbox_limits` cannot be set: {error.strerror}", hint="raise or remove them"
            ) from error
        if self._access.network is NetworkMode.PROXY and self._launch.gate is not None:
            try:
                await join(self._launch.gate, pid)
            except SandboxError:
                process.kill()
                raise

    def _end(self) -> None:
        """Clean up after the end: pass on the rest of the output, and release the placeholders."""
        if self._process is not None:
            self._plan.ended(self._process)
        if self._relay is not None:
            self._relay.close()
            self._relay.finish()
        if self._placeholders is not None:
            self._placeholders.release()

    async def _failure(self, options: tuple[str, ...]) -> SandboxError | CommandFailed:
        """Find out why bubblewrap ended without a command, by running it again with the same options and nothing to execute."""
        said = await asyncio.to_thread(self._diagnosis, options)
        if _NOWHERE in said:
            program = self._launch.argv[0]
            return CommandFailed(
                f"{program} cannot be executed in the sandbox",
                hint="Check that the permissions allow it and the interpreter that it names to be read.",
            )
        if "chdir" in said:
            return start_error(errno.ENOENT, hint=f"Check that the permissions allow {self._launch.cwd!r} to be read.")
        return SandboxError(
            f"bubblewrap could not set up the sandbox: {said or 'it gave no reason'}",
            hint="check the writable folders and protected paths it names",
        )

    def _diagnosis(self, options: tuple[str, ...]) -> str:
        with contextlib.ExitStack() as ours:
            arguments = _memory(ours, _pack_words(options))
            try:
                done = subprocess.run(
                    [self._plan.program, "--args", str(arguments), "--", _NOWHERE],
                    check=False,
                    cwd="/",
                    env={},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    pass_fds=[arguments],
                    timeout=_DIAGNOSIS_S,
                )
            except subprocess.TimeoutExpired:
                return "it does not respond"
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return said[-1].removeprefix("bwrap: ") if said else ""


def _pack_words(words: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _memory(ours: contextlib.ExitStack, data: bytes) -> int:
    """Return a descriptor from which the data can be read."""
    descriptor = os.memfd_create("codex-bubblewrap")
    ours.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
