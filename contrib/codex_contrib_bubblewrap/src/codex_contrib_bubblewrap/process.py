"""A command under bubblewrap: its start, its end, its signals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from codex_framework import ChildProcess

__all__ = ["BubblewrapProcess"]

_MARK = "codex-bubblewrap"
"""The name of bubblewrap in the process list. A process with another name there is the started command."""

_SIGNALLED = 128
_FIRST_LOOK_S, _LONGEST_PAUSE_S = 0.0005, 0.01
"""First and maximum pause between checks whether the command has been started, in seconds. The pause doubles."""


class BubblewrapProcess(ChildProcess):
    """A running bubblewrap, which reports the state of its command on a pipe.

    The tree is: bubblewrap; its child, first process and init of the process namespace, leader of a new session and group; the
    command, in that group. Only SIGKILL reaches an init from outside, so a signal to the group reaches exactly the command and
    its descendants. ``setsid`` puts a command on a terminal into its own session.

    Args:
        process: The process, just started with :attr:`mark` as its first word.
        status: The reading end of ``--json-status-fd``; closed here.
        own_session: Whether the command leads its own session, because it has a terminal.
        ended: Called once, when everything has ended.
    """

    mark = _MARK

    def __init__(
        self, process: subprocess.Popen[bytes], status: int, *, own_session: bool, ended: Callable[[], None]
    ) -> None:
        self._process = process
        self._status = status
        self._own_session = own_session
        self._on_end = ended
        self._loop = asyncio.get_running_loop()
        self._text = b""
        self._told = asyncio.Event()
        self._ended = asyncio.Event()
        self._init: int | None = None
        self._command: int | None = None
        self._exit_code: int | None = None
        self._doomed = False
        self._waiting = _pidfd(process.pid)
        os.set_blocking(status, False)
        self._loop.add_reader(status, self._read)
        if self._waiting is None:
            threading.Thread(target=self._wait_in_thread, name=f"wait-{process.pid}", daemon=True).start()
        else:
            self._loop.add_reader(self._waiting, self._reap)

    @property
    def pid(self) -> int:
        """The leader of the command's session and group."""
        leader = self._command if self._own_session else self._init
        return self._process.pid if leader is None else leader

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group. Nothing happens if it is gone."""
        if self._ended.is_set():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """End everything in the sandbox as soon as possible.

        This kills the init, because bubblewrap's child only ends with its parent once it is about to start the command. If its
        parent was killed earlier, it would continue alone.
        """
        self._doomed = True
        if self._init is not None and not self._ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._init, signal.SIGKILL)

    async def wait(self) -> int:
        """Return the status (negative N: ended by signal N).

        Bubblewrap reports both ``exit 137`` and SIGKILL as 137; here both are -9.
        """
        await self._ended.wait()
        status = self._process.returncode if self._exit_code is None else self._exit_code
        ended_by = status - _SIGNALLED
        return -ended_by if ended_by in signal.valid_signals() else status

    async def begun(self) -> int | None:
        """Wait for bubblewrap's child. Return its process id, or None if bubblewrap has ended before."""
        await self._told.wait()
        return self._init

    async def executed(self, through: bytes = b"") -> bool:
        """Wait until the command has been started or bubblewrap has ended. Return whether it has been started.

        Args:
            through: The start of the command line of an intermediate program that starts the command.
        """
        pause = _FIRST_LOOK_S
        while not self._ended.is_set():
            if self._started(through):
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._ended.wait()
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return self._exit_code is not None

    def _started(self, through: bytes) -> bool:
        try:
            children = Path(f"/proc/{self._init}/task/{self._init}/children").read_bytes().split()
        except FileNotFoundError:
            return not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()  # nothing can be seen here
        except OSError:
            return False
        if not children:
            return False
        try:
            line = Path(f"/proc/{int(children[0])}/cmdline").read_bytes()
        except OSError:
            return False
        if not line or line.startswith(_MARK.encode() + b"\0") or (through and line.startswith(through)):
            return False
        self._command = int(children[0])
        return True

    def _read(self) -> None:
        """Read bubblewrap's reports: one JSON object per line."""
        while True:
            try:
                data = os.read(self._status, 4096)
            except BlockingIOError:
                return
            if not data:
                break
            self._text += data
            *lines, self._text = self._text.split(b"\n")
            for line in lines:
                report = json.loads(line)
                self._init = report.get("child-pid", self._init)
                self._exit_code = report.get("exit-code", self._exit_code)
            if self._init is not None:
                self._told.set()
                if self._doomed:
                    self.kill()
        self._close_status()

    def _close_status(self) -> None:
        if self._status >= 0:
            self._loop.remove_reader(self._status)
            os.close(self._status)
            self._status = -1

    def _reap(self) -> None:
        if self._process.poll() is None:
            return  # something else traces the process, so its end is known but its status is not available yet
        if self._waiting is not None:
            self._loop.remove_reader(self._waiting)
            os.close(self._waiting)
            self._waiting = None
        if self._status >= 0:
            self._read()
            self._close_status()
        self._ended.set()
        self._told.set()
        self._on_end()

    def _wait_in_thread(self) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody is waiting
            self._loop.call_soon_threadsafe(self._reap)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel
        return None
