"""The launcher: a small process with one thread that starts confined instances on request, and ends with its parent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from typing import Any

from . import limits, namespaces, placeholders
from .enclosure import NAMESPACES, User
from .ending import Ending, end_trees
from .instance import live
from .messages import receive, send
from .parts import wanted
from .syscalls import pidfd_open, prctl

__all__ = ["main"]

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 2.0


def main(descriptor: int) -> None:
    """Serve the socket ``descriptor`` until its other end is closed."""
    namespaces.set_dumpable(dumpable=False)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, _noticed if number == signal.SIGTERM else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    Launcher(socket.socket(fileno=descriptor)).serve()


class Launcher:
    """Keeps the instances it has started, and their placeholders."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._held: dict[int, dict[str, int]] = {}
        self._plain: set[int] = set()  # of these, the ones without namespaces
        self._parent = pidfd_open(os.getppid())
        self._user = User(os.geteuid(), os.getegid(), limits.counts_processes())
        self._wake, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noticed)

    def serve(self) -> None:
        """Start instances until the parent has closed the connection or is gone; then end them all."""
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
                if self._connection.fileno() in ready and not self._obey():
                    return
        finally:
            self._end_all()
            for held in self._held.values():
                placeholders.release(held)

    def _obey(self) -> bool:
        try:
            message, descriptors = receive(self._connection)
        except OSError:
            return False
        if message is None:
            return False
        if "end" in message:
            self._let_go()
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
        from .trial import tried  # asked for by people, so it is not read at every start

        with contextlib.suppress(OSError):
            send(connection, {"tried": tried(self._user)})

    def _end_all(self) -> None:
        """End the instances with all that is in them. Those without namespaces know best how, so they are told first."""
        until = time.monotonic() + _GRACE_S
        for pid in self._plain:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(ChildProcessError):
            while self._plain and time.monotonic() < until:
                ended, _ = os.waitpid(-1, os.WNOHANG)
                self._plain.discard(ended)
                if not ended:
                    time.sleep(0.001)
        Ending().end_descendants()

    def _let_go(self) -> None:
        """Nothing runs in any instance: clean up and hang up, before waiting until their namespaces are taken down."""
        for pid, held in self._held.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            placeholders.release(held)
        self._held.clear()
        self._connection.close()

    def _start(self, connection: socket.socket, plan: dict[str, Any], level: str) -> None:
        held = placeholders.hold(wanted(plan)) if level == NAMESPACES else {}
        try:
            pid = namespaces.enter(network=plan["network"] == "on") if level == NAMESPACES else os.fork()
        except OSError:
            placeholders.release(held)
            raise
        if pid == 0:
            live(connection, plan, level, self._user)
        self._held[pid] = held
        if level != NAMESPACES:
            self._plain.add(pid)
        with contextlib.suppress(OSError):
            send(connection, {"instance": pid})

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                break
            placeholders.release(self._held.pop(pid, {}))
            self._plain.discard(pid)
        self._end_orphans()

    def _end_orphans(self) -> None:
        """Kill what an instance without namespaces left behind when it was killed itself: it has become our child."""
        with contextlib.suppress(OSError), open("/proc/thread-self/children", "rb") as file:
            end_trees(pid for pid in map(int, file.read().split()) if pid not in self._held)


def _noticed(number: int, frame: object) -> None:
    """Nothing to do (programs that are started do not inherit it): a signal's arrival has been written to the wake-up pipe."""
