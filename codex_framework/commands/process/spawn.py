"""Start processes in their own sessions, detect their ends, and signal their groups."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from pathlib import Path

from codex_framework.commands.process.watcher import WATCHER
from codex_framework.contract.errors import CommandFailed
from codex_framework.contract.roles.sandboxes import ChildProcess, Confinement, Launch
from codex_framework.toolkit.os_errors import start_error_text
from codex_framework.toolkit.signals import default_signals, signals_are_default, with_default_signals

__all__ = [
    "SpawnedProcess",
    "Unconfined",
    "exit_code",
    "group_lives",
    "signal_group",
    "signal_session",
    "wait_for_group_end",
]

_TAKE_TERMINAL = 'exec "$@" <>"$0" >&0 2>&0'
"""A script for ``/bin/sh`` as the leader of a new session. The first terminal that it opens becomes its controlling terminal.
No code is needed between fork and exec, which would prevent vfork and is unsafe with threads."""

_GONE_CHECKS_S = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032)
"""Pauses in seconds between checks whether the group is gone after SIGKILL."""

_PLAIN_ARGUMENTS = "Pass arguments and variables that are text without NUL bytes."

_TIMED_OUT = 124
"""Exit code after a timeout (as in Codex and ``timeout(1)``)."""

_SIGNAL_BASE = 128


def exit_code(status: int | None, *, timed_out: bool) -> int:
    """Return the exit code for a status, in which -N means ended by signal N."""
    if timed_out or status is None:
        return _TIMED_OUT
    return status if status >= 0 else _SIGNAL_BASE - status


def signal_group(pid: int, number: int) -> bool:
    """Send a signal to a process group. Return whether the group exists."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS reports this for a group of zombies; other systems for a set-uid child, which cannot be signalled.
        return number != 0
    return True


def group_lives(pid: int) -> bool:
    """Return whether a process group has a member that is not a zombie. Without ``/proc``, zombies count too.

    Nothing is known about processes on other machines, whose ``pid`` is 0.
    """
    if not pid or not signal_group(pid, 0):
        return False
    members = False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended, or we may not inspect it
        if int(fields[2]) == pid:
            if fields[0] != b"Z":
                return True
            members = True
    return not members


async def wait_for_group_end(pid: int) -> None:
    """Wait briefly until a process group is gone after SIGKILL."""
    for pause in _GONE_CHECKS_S:
        if not group_lives(pid):
            return
        await asyncio.sleep(pause)


def signal_session(leader: int, number: int) -> None:
    """Send a signal to every process of a session, because a shell with job control uses several groups.

    This requires ``/proc``; without it, nothing happens. Session 0 is ignored, because processes on other machines have this id.
    """
    if not leader:
        return
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(stat.parent.name), number)
        except OSError:
            continue  # it has just ended, or we may not inspect it


class SpawnedProcess(ChildProcess):
    """A :class:`~codex_framework.contract.roles.sandboxes.ChildProcess` based on :class:`subprocess.Popen`.

    A pidfd in the event loop detects its end, or a thread if the system has no pidfds. The process is then reaped immediately.
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
        """The process id, which is also the id of its process group."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group. Nothing happens if it is gone."""
        signal_group(self._process.pid, number)

    def end_group(self) -> None:
        """Kill the remaining processes of the group. Processes that left it with ``setsid`` continue."""
        try:
            os.kill(self._process.pid, 0)  # by now, the id may be that of another process
        except ProcessLookupError:
            signal_group(self._process.pid, signal.SIGKILL)
        except PermissionError:
            return

    async def wait(self) -> int:
        """Wait for the end and return the status (negative N: ended by signal N)."""
        await self._ended.wait()
        status = self._process.returncode
        assert status is not None
        return status

    def _reap(self) -> None:
        if self._process.poll() is None:
            return  # readable without a status; this happens only if another process traces it
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        WATCHER.forget(self._process.pid)
        self._ended.set()

    def _wait_in_thread(self) -> None:
        self._process.wait()
        WATCHER.forget(self._process.pid)
        try:
            self._loop.call_soon_threadsafe(self._ended.set)
        except RuntimeError:
            return  # the loop is closed, so nobody is waiting


def _open_pidfd(pid: int) -> int | None:
    pidfd_open = getattr(os, "pidfd_open", None)
    if pidfd_open is None:
        return None
    try:
        return int(pidfd_open(pid))
    except OSError:
        return None  # an old kernel, or a seccomp filter without this call


class Unconfined(Confinement):
    """A confinement without restrictions: a new session, a new process group, and the environment as given.

    Commands end with this process, even if it is killed.
    """

    async def start(self, launch: Launch) -> SpawnedProcess:
        """Start a process.

        Raises:
            CommandFailed: The program or the folder does not exist or is unusable; the fact is the system's text.
        """
        argv = _with_terminal(launch) if launch.tty else launch.argv
        WATCHER.ensure()
        slot = WATCHER.announce(launch.stdout if launch.may_replace_terminal else None)
        try:
            process = _start_process(launch, argv)
        except BaseException:
            WATCHER.withdraw(slot)
            raise
        WATCHER.note(slot, process.pid)
        return SpawnedProcess(process)

    async def warm(self) -> None:
        """Start the process that ends commands if this one is killed."""
        WATCHER.ensure()


def _start_process(launch: Launch, argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    try:
        if signals_are_default():
            return _process(launch, argv)
        with default_signals() as reset:
            if not reset:
                _check_program(launch)
                argv = with_default_signals(argv)
            return _process(launch, argv)
    except OSError as error:
        program, search = launch.argv[0] if launch.argv else "", launch.env.get("PATH", os.defpath)
        raise CommandFailed(start_error_text(error, program, launch.cwd, search), hint=_hint(launch)) from error
    except UnicodeError as error:  # half a surrogate pair in an argument or variable
        raise CommandFailed("an argument cannot be encoded as text", hint=_PLAIN_ARGUMENTS) from error
    except ValueError as error:
        raise CommandFailed("nul byte found in provided data", hint=_PLAIN_ARGUMENTS) from error


def _process(launch: Launch, argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # a vfork takes less than a millisecond and cannot be cancelled
        argv,
        cwd=launch.cwd,
        env=launch.env,
        stdin=launch.stdin,
        stdout=launch.stdout,
        stderr=launch.stderr,
        start_new_session=True,
    )


def _check_program(launch: Launch) -> None:
    """Refuse a program that does not exist, if it is started by another program whose message would look like the command's."""
    import shutil

    program = shutil.which(launch.argv[0], path=launch.env.get("PATH", os.defpath)) if launch.argv else None
    if program is None:
        raise CommandFailed("No such file or directory (os error 2)", hint=_hint(launch))


def _with_terminal(launch: Launch) -> tuple[str, ...]:
    _check_program(launch)
    return ("/bin/sh", "-c", _TAKE_TERMINAL, os.ttyname(launch.stdin), *launch.argv)


def _hint(launch: Launch) -> str:
    program = launch.argv[0] if launch.argv else ""
    return f"Check that {program!r} is on PATH and that {launch.cwd!r} is a folder."
