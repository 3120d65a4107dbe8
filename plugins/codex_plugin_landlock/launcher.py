"""The framework's side of the launcher: starts it, requests instances from it, and ends it."""

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
from codex_lib_confinement.standalone import standalone_argv
from codex_plugin_landlock.instances import SET_UP_S, Instance
from codex_plugin_landlock.jail.messages import receive, send
from codex_plugin_landlock.jail.syscalls import memory_file

__all__ = ["Launcher"]

_PROGRAM = str(Path(__file__).with_name("jail") / "launcher.py")
_SEND_TIMEOUT_S = 5.0
_END_TIMEOUT_S = 5.0
_TRIAL_TIMEOUT_S = 60.0
_LOG_TAIL = 2000


class Launcher:
    """A small Python process that forks confined instances. It starts on first use, and again if it was killed.

    It has no access to this process's memory, environment or descriptors, and it ends when this process ends.

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
        """The process id, or None if the launcher is not running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def open_instance(
        self,
        plan: Mapping[str, Any],
        level: str,
        signature: tuple[object, ...],
        on_confined: Callable[[Mapping[str, str]], None],
        *,
        set_up_s: float = SET_UP_S,
    ) -> Instance:
        """Request a new instance. It can be used immediately; commands wait in its socket until it is ready.

        Args:
            plan: The data of a plan.
            level: ``namespaces`` or ``landlock``.
            signature: The facts about the file system that its mounts depend on.
            on_confined: Called when the instance has confined itself, with the layer that enforces each protection.
            set_up_s: Time limit in seconds for its set-up.

        Raises:
            SandboxError: The launcher does not start.
        """
        ours = self._ask({"plan": dict(plan), "level": level})
        return Instance(ours, signature, level, on_confined, set_up_s=set_up_s)

    def ensure(self) -> None:
        """Start the launcher unless it is running.

        Raises:
            SandboxError: The launcher does not start.
        """
        if self.pid is None:
            self._start()

    async def try_layers(self) -> list[tuple[str, str]]:
        """Try every layer in a disposable process. Return each layer's name with its error message, or ``""`` if the layer works.

        Raises:
            SandboxError: The launcher does not start, or ended during the trials.
        """
        with self._ask({"try": True}) as connection:
            connection.settimeout(_TRIAL_TIMEOUT_S)
            try:
                message, _ = await asyncio.to_thread(receive, connection)
            except OSError:
                message = None
        if message is None:
            raise self._not_running()
        return [(name, fault) for name, fault in message["tried"]]

    def _ask(self, message: dict[str, Any]) -> socket.socket:
        """Send a request with one end of a new socket pair. Return the other end, which receives the answers."""
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
        raise self._not_running()

    def _not_running(self) -> SandboxError:
        return SandboxError(
            f"the sandbox's launcher does not run: {self.log() or 'it ended immediately'}",
            hint=f"check that `{self._python} -I -S` works here",
        )

    def log(self) -> str:
        """Return the end of the launcher's output. It prints something only if it fails."""
        if self._log < 0:
            return ""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _LOG_TAIL, max(0, size - _LOG_TAIL)).decode(errors="replace").strip()

    def _start(self) -> None:
        self._kill()
        if not self._python:
            raise SandboxError(
                "the sandbox needs a Python interpreter, but the path of this program's interpreter is unknown"
            )
        ours, theirs = _pair()
        ours.settimeout(_SEND_TIMEOUT_S)
        self._log = memory_file("launcher")
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*standalone_argv(_PROGRAM, "-X", "utf8", python=self._python), str(theirs.fileno())],
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
        """Close the connection to the previous launcher and kill it."""
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
        """End the launcher with all instances. May be called more than once.

        Args:
            idle: Whether no instance runs a command. If so, wait only until the launcher has cleaned up. A thread waits for its
                end, because the kernel takes about 30 ms to destroy the namespaces.
        """
        process, self._process = self._process, None
        connection, self._connection = self._connection, None
        if connection is not None and process is not None and idle:
            with contextlib.suppress(OSError):
                send(connection, {"end": True})
            # Ends a launcher whose interpreter is still starting. A running one ignores this signal.
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
