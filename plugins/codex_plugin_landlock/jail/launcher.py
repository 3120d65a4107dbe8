"""The launcher: a small single-threaded process that starts confined instances on request, and ends with its parent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from typing import Any

from codex_framework.toolkit.placeholders import Placeholders

from . import namespaces
from .enclosure import NAMESPACES, User
from .ending import Ending, end_trees, reaped
from .instance import live
from .messages import receive, send
from .parts import wanted
from .syscalls import pidfd_open, prctl
from .system import counts_processes

__all__ = ["main"]

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 2.0


def main(arguments: list[str]) -> None:
    """Serve a socket until its other end is closed.

    Args:
        arguments: The socket's descriptor.
    """
    namespaces.set_dumpable(dumpable=False)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, _ignore if number == signal.SIGTERM else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    Launcher(socket.socket(fileno=int(arguments[0]))).serve()


class Launcher:
    """The server of this process, with the instances that it has started and their placeholders."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._placeholders: dict[int, Placeholders] = {}
        self._without_namespaces: set[int] = set()  # the instances without namespaces
        self._parent = pidfd_open(os.getppid())
        self._user = User(os.geteuid(), os.getegid(), counts_processes())
        self._wake, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)

    def serve(self) -> None:
        """Start instances until the parent closes the connection or ends; then end them all."""
        waiting = select.poll()
        for source in (self._connection.fileno(), self._wake, self._parent):
            waiting.register(source, select.POLLIN)
        try:
            while True:
                ready = {descriptor for descriptor, _ in waiting.poll()}
                if self._wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 512)
                    self._reap()
                if self._parent in ready:
                    return
                if self._connection.fileno() in ready and not self._handle():
                    return
        finally:
            self._end_all()
            for created in self._placeholders.values():
                created.release()

    def _handle(self) -> bool:
        try:
            message, descriptors = receive(self._connection)
        except OSError:
            return False
        if message is None:
            return False
        if "end" in message:
            self._shut_down()
            return False
        with socket.socket(fileno=descriptors[0]) as connection:
            if "try" in message:
                self._try(connection)
                return True
            try:
                self._start(connection, message["plan"], message["level"])
            except OSError as error:
                with contextlib.suppress(OSError):
                    text = f"{error.strerror} ({error.filename})"
                    send(connection, {"refused": "namespaces", "errno": error.errno, "text": text})
        return True

    def _try(self, connection: socket.socket) -> None:
        from .trial import try_layers  # imported here because trials are rare

        with contextlib.suppress(OSError):
            send(connection, {"tried": try_layers(self._user)})

    def _end_all(self) -> None:
        """End all instances with everything in them. Instances without namespaces first get a signal to end themselves."""
        until = time.monotonic() + _GRACE_S
        for pid in self._without_namespaces:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(ChildProcessError):
            while self._without_namespaces and time.monotonic() < until:
                ended, _ = os.waitpid(-1, os.WNOHANG)
                self._without_namespaces.discard(ended)
                if not ended:
                    time.sleep(0.001)
        Ending().end_descendants()

    def _shut_down(self) -> None:
        """Clean up and close the connection before the namespaces are destroyed. Call this only while no instance runs a command."""
        for pid, created in self._placeholders.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            created.release()
        self._placeholders.clear()
        self._connection.close()

    def _start(self, connection: socket.socket, plan: dict[str, Any], level: str) -> None:
        created = Placeholders(wanted(plan) if level == NAMESPACES else (), lenient=True)
        try:
            pid = namespaces.enter(network=plan["network"] == "on") if level == NAMESPACES else os.fork()
        except OSError:
            created.release()
            raise
        if pid == 0:
            live(connection, plan, level, self._user)
        self._placeholders[pid] = created
        if level != NAMESPACES:
            self._without_namespaces.add(pid)
        with contextlib.suppress(OSError):
            send(connection, {"instance": pid})

    def _reap(self) -> None:
        for pid, status in reaped(os.WUNTRACED):
            if os.WIFSTOPPED(status):
                # Without namespaces a command can stop the process that confines it. Nothing would then end that command.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                continue
            if (created := self._placeholders.pop(pid, None)) is not None:
                created.release()
            self._without_namespaces.discard(pid)
        self._end_orphans()

    def _end_orphans(self) -> None:
        """Kill the processes that a killed instance without namespaces has left. They have become children of the launcher."""
        with contextlib.suppress(OSError), open("/proc/thread-self/children", "rb") as file:
            end_trees(pid for pid in map(int, file.read().split()) if pid not in self._placeholders)


def _ignore(number: int, frame: object) -> None:
    """Do nothing. The arrival of the signal was already written to the wake-up pipe.

    Started programs do not inherit this handler.
    """
