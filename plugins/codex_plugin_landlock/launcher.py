"""The framework's side of the launcher: start it, ask it for instances, end it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codex_framework import SandboxError
from codex_plugin_landlock.instances import SET_UP_S, Instance
from codex_plugin_landlock.jail.messages import receive, send
from codex_plugin_landlock.jail.syscalls import memory_file

__all__ = ["Launcher"]

_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from jail.launcher import main; main(int(sys.argv[2]))"
_SEND_TIMEOUT_S = 5.0
_END_TIMEOUT_S = 5.0
_TRIAL_TIMEOUT_S = 60.0
_LOG_TAIL = 2000


class Launcher:
    """A small Python process that forks confined instances; started when first needed, and again when it was killed.

    It has no access to this process's memory, environment or descriptors, and it ends when this process does.

    Args:
        python: The interpreter, 3.11 or newer.
    """

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._log = -1

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def open_instance(
        self,
        plan: Mapping[str, Any],
        level: str,
        signature: tuple[object, ...],
        told: Callable[[Mapping[str, str]], None],
        *,
        set_up_s: float = SET_UP_S,
    ) -> Instance:
        """Ask for a new instance. It can be used at once; commands wait in its socket until it is ready.

        Args:
            plan: A plan's data.
            level: ``namespaces`` or ``landlock``.
            signature: What its mounts depend on.
            told: Called with what it holds back, when it has confined itself.
            set_up_s: How long that may take.

        Raises:
            SandboxError: The launcher does not start.
        """
        ours = self._ask({"plan": dict(plan), "level": level})
        return Instance(ours, signature, level, told, set_up_s=set_up_s)

    def ensure(self) -> None:
        """Start it, unless it runs.

        Raises:
            SandboxError: It does not start.
        """
        if self.pid is None:
            self._start()

    async def tried(self) -> list[tuple[str, str]]:
        """Have every layer tried, each in a process that is thrown away; by name, an empty text or what is wrong.

        Raises:
            SandboxError: It does not start, or ended over that.
        """
        with self._ask({"try": True}) as connection:
            connection.settimeout(_TRIAL_TIMEOUT_S)
            try:
                message, _ = await asyncio.to_thread(receive, connection)
            except OSError:
                message = None
        if message is None:
            raise self._does_not_run()
        return [(name, fault) for name, fault in message["tried"]]

    def _ask(self, message: dict[str, Any]) -> socket.socket:
        """Send a request with the other end of a new socket, where the answers come from."""
        for _ in range(2):
            self.ensure()
            connection = self._connection
            assert connection is not None
            ours, theirs = _pair()
            try:
                send(connection, message, (theirs.fileno(),))
            except OSError:
                ours.close()
                self._kill()
                continue
            finally:
                theirs.close()
            return ours
        raise self._does_not_run()

    def _does_not_run(self) -> SandboxError:
        return SandboxError(
            f"the sandbox's launcher does not run: {self.log() or 'it ended at once'}",
            hint=f"check that `{self._python} -I -S` works here",
        )

    def log(self) -> str:
        """The end of what it has printed, which is something only when it failed."""
        if self._log < 0:
            return ""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _LOG_TAIL, max(0, size - _LOG_TAIL)).decode(errors="replace").strip()

    def _start(self) -> None:
        self._kill()
        if not self._python:
            raise SandboxError("the sandbox needs a Python interpreter, and this program does not know its own")
        ours, theirs = _pair()
        ours.settimeout(_SEND_TIMEOUT_S)
        self._log = memory_file("launcher")
        home = str(Path(__file__).resolve().parent)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [self._python, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, home, str(theirs.fileno())],
                    cwd="/",
                    env={},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._log,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise SandboxError(
                    f"the sandbox's launcher cannot be started: {error.strerror} (os error {error.errno})",
                    hint="end other processes or raise their limit",
                ) from error
        self._connection = ours

    def _kill(self) -> None:
        """End what is left of the last one: closing the connection ends it, and so does the signal."""
        self._disconnect()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    async def aclose(self, *, idle: bool = False) -> None:
        """End the launcher with all instances. Safe to call twice.

        Args:
            idle: Nothing runs in any instance: wait until it has cleaned up, and leave its last breath (taking down namespaces
                takes the system some 30 ms) to a thread.
        """
        process, self._process = self._process, None
        connection, self._connection = self._connection, None
        if connection is not None and process is not None and idle:
            with contextlib.suppress(OSError):
                send(connection, {"end": True})
            # Ends it at once while its interpreter starts and it holds nothing; later it takes no notice.
            process.terminate()
            await asyncio.to_thread(_await_end_of, connection)
            threading.Thread(target=_end, args=(process,), name="sandbox-launcher-end", daemon=True).start()
            process = None
        if connection is not None:
            connection.close()
        self._disconnect()
        if process is not None:
            await asyncio.to_thread(_end, process)


def _pair() -> tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise SandboxError(
            f"the sandbox needs a socket: {error.strerror} (os error {error.errno})",
            hint="end other commands or raise the limit of open files",
        ) from error


def _await_end_of(connection: socket.socket) -> None:
    connection.settimeout(_END_TIMEOUT_S)
    with contextlib.suppress(OSError):
        connection.recv(1)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
