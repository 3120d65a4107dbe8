"""Processes: start one in a session of its own, learn of its end, signal its group."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from codex_framework.errors import CommandFailed
from codex_framework.roles.sandboxes import Launch

__all__ = ["SpawnedProcess", "Unconfined", "os_error_text", "signal_group", "signal_session"]

_TAKE_TERMINAL = 'exec "$@" <>"$0" >&0 2>&0'
"""Run by ``/bin/sh`` as leader of a new session. The first terminal such a process opens becomes its controlling one:
no code is needed between fork and exec, which would rule out vfork and is unsafe beside threads."""

_PLAIN_ARGUMENTS = "Pass arguments and variables that are text without NUL bytes."


def os_error_text(error: OSError) -> str:
    """The system's words for an error, with its number: ``No such file or directory (os error 2)``."""
    if error.errno is None:
        return str(error)
    return f"{os.strerror(error.errno)} (os error {error.errno})"


def signal_group(pid: int, number: int) -> bool:
    """Send a signal to a process group; whether the group exists."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS answers so for a group of zombies; elsewhere a set-uid child, which cannot be signalled
        return number != 0
    return True


def signal_session(leader: int, number: int) -> None:
    """Send a signal to every process of a session, whatever its group: a shell with job control makes groups.

    Needs ``/proc``; elsewhere nothing happens.
    """
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(stat.parent.name), number)
        except OSError:
            continue  # it has just ended, or is not ours to see


class SpawnedProcess:
    """A :class:`~codex_framework.roles.sandboxes.ChildProcess` over :class:`subprocess.Popen`.

    Its end is noticed by a pidfd in the event loop, or by a thread where the system has none, and it is reaped at once.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._pidfd = _open_pidfd(process.pid)
        if self._pidfd is None:
            threading.Thread(target=self._wait_in_thread, name=f"wait-{process.pid}", daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """The process id, which is also its group's id."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group; nothing happens when it is gone."""
        signal_group(self._process.pid, number)

    async def wait(self) -> int:
        """The status, once it has ended (negative N: ended by signal N)."""
        await self._ended.wait()
        status = self._process.returncode
        assert status is not None
        return status

    def _reap(self) -> None:
        if self._process.poll() is None:
            return  # the descriptor is readable before the status is there only if something else traces the process
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._ended.set()

    def _wait_in_thread(self) -> None:
        self._process.wait()
        try:
            self._loop.call_soon_threadsafe(self._ended.set)
        except RuntimeError:
            return  # the loop has been closed: nobody waits any more


def _open_pidfd(pid: int) -> int | None:
    pidfd_open = getattr(os, "pidfd_open", None)
    if pidfd_open is None:
        return None
    try:
        return int(pidfd_open(pid))
    except OSError:
        return None  # an old kernel, or a seccomp filter that does not know the call


class Unconfined:
    """The confinement that confines nothing: a new session, a new process group, the environment as given."""

    @property
    def env(self) -> Mapping[str, str]:
        """No variables: the command is not confined."""
        return MappingProxyType({})

    async def start(self, launch: Launch) -> SpawnedProcess:
        """Start a process.

        Raises:
            CommandFailed: The program or the folder does not exist or cannot be used; the fact is the system's text.
        """
        argv = _with_terminal(launch) if launch.tty else launch.argv
        try:
            process = subprocess.Popen(  # noqa: ASYNC220  # a vfork: below a millisecond, and atomic with respect to cancellation
                argv,
                cwd=launch.cwd,
                env=launch.env,
                stdin=launch.stdin,
                stdout=launch.stdout,
                stderr=launch.stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandFailed(os_error_text(error), hint=_hint(launch)) from error
        except UnicodeError as error:  # half a surrogate pair in an argument or a variable
            raise CommandFailed("an argument is no text that can be encoded", hint=_PLAIN_ARGUMENTS) from error
        except ValueError as error:
            raise CommandFailed("nul byte found in provided data", hint=_PLAIN_ARGUMENTS) from error
        return SpawnedProcess(process)


def _with_terminal(launch: Launch) -> tuple[str, ...]:
    program = shutil.which(launch.argv[0], path=launch.env.get("PATH", os.defpath)) if launch.argv else None
    if program is None:
        raise CommandFailed("No such file or directory (os error 2)", hint=_hint(launch))
    return ("/bin/sh", "-c", _TAKE_TERMINAL, os.ttyname(launch.stdin), *launch.argv)


def _hint(launch: Launch) -> str:
    program = launch.argv[0] if launch.argv else ""
    return f"Check that {program!r} is on PATH and that {launch.cwd!r} is a folder."
