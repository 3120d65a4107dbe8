"""A confined process that starts commands, one at a time: in its own namespaces it is process 1.

Commands are started with vfork from here, so they inherit the confinement and nothing has to be done for each of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import termios
from collections.abc import Callable
from typing import Any

from . import landlock, limits, network
from .enclosure import NAMESPACES, Refused, User, enclose
from .ending import Ending
from .messages import receive, send
from .syscalls import close_but, prctl

__all__ = ["Instance", "live"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def live(connection: socket.socket, plan: dict[str, Any], level: str, user: User) -> None:
    """Confine this process, a new child of the launcher, and serve until the connection ends. Does not return."""
    try:
        _detach(connection, level)
        children = _children_file()
        enforced = enclose(plan, level, user)
        ending = Ending(alone=level == NAMESPACES or landlock.abi_version() >= landlock.ABI_SCOPE)
        if level == NAMESPACES:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of ids takes it away
        else:
            signal.signal(signal.SIGTERM, ending.end)
        send(connection, {"ready": level, "enforced": enforced})
        Instance(connection, children, plan["limits"], ending).serve()
    except Refused as refused:
        with contextlib.suppress(OSError):
            _refuse(connection, refused.stage, refused.error)
    except OSError:
        pass  # the framework is gone, and so is who could be told
    finally:
        os._exit(0)


def _refuse(connection: socket.socket, stage: str, error: OSError) -> None:
    send(connection, {"refused": stage, "errno": error.errno, "text": f"{error.strerror} ({error.filename})"})


def _detach(connection: socket.socket, level: str) -> None:
    os.setsid()
    if level == NAMESPACES:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    close_but(connection.fileno())
    os.chdir("/")


def _children_file() -> int | None:
    """The list of this process's children with their ids outside; readable for as long as it stays open."""
    try:
        return os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


class Instance:
    """Serves one connection."""

    def __init__(
        self, connection: socket.socket, children: int | None, bounds: dict[str, int | None], ending: Ending
    ) -> None:
        self._connection = connection
        self._ending = ending
        self._bounds = bounds
        self._children = children
        self._main: int | None = None
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wake = reader
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noticed)

    def serve(self) -> None:
        """Start commands and tell of their ends until the other side is gone."""
        waiting = select.poll()
        waiting.register(self._connection, select.POLLIN)
        waiting.register(self._wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 512)
                self._reap()
            if self._connection.fileno() in ready and not self._obey():
                self._ending.end_descendants()
                return

    def _obey(self) -> bool:
        message, descriptors = receive(self._connection)
        if message is None:
            return False
        if "run" in message:
            self._run(message["run"], descriptors)
        elif "listen" in message:
            return self._listen()
        elif self._main is not None:
            if message["signal"] == signal.SIGKILL:
                self._ending.kill_at_once()  # the group is a part of it; a bomb of processes leaves no time for two steps
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._main, message["signal"])
        return True

    def _listen(self) -> bool:
        """Hand out new sockets at the proxy's ports; nobody in here accepts from them."""
        try:
            with network.listening() as sockets:
                ports = [one.getsockname()[1] for one in sockets]
                send(self._connection, {"listening": ports}, [one.fileno() for one in sockets])
        except OSError as error:
            _refuse(self._connection, "network", error)
            return False
        return True

    def _run(self, wanted: dict[str, Any], descriptors: list[int]) -> None:
        ours: list[int] = []
        if wanted["named"]:
            ours, descriptors = _terminal_in_here(descriptors)
        stdin, stdout, stderr = descriptors
        try:
            process = subprocess.Popen(
                wanted["argv"],
                cwd=wanted["cwd"],
                env=wanted["env"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=self._before(tty=wanted["tty"]),  # noqa: PLW1509  # this process has one thread
            )
        except OSError as error:
            send(self._connection, {"failed": error.errno, "text": error.strerror})
            return
        except (ValueError, subprocess.SubprocessError) as error:
            send(self._connection, {"failed": 0, "text": str(error)})
            return
        else:
            self._main = process.pid
            process.returncode = 0  # reaped here, not by it
            send(self._connection, {"started": self._pid_outside()}, ours)
        finally:
            for descriptor in {*descriptors, *ours}:
                os.close(descriptor)
        self._reap()

    def _before(self, *, tty: bool) -> Callable[[], None] | None:
        """What is left to do between fork and exec; None where nothing is, for a vfork is the cheaper one."""
        if self._bounds["memory_bytes"] is None:
            return _take_terminal if tty else None

        def prepare() -> None:
            limits.bound_memory(self._bounds)  # not earlier: this process itself may need more
            if tty:
                _take_terminal()

        return prepare

    def _pid_outside(self) -> int | None:
        if self._children is None:
            return None
        listed = os.pread(self._children, 4096, 0).split()
        return int(listed[0]) if listed else None  # adopted orphans stand behind it

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._main:
                self._main = None
                self._ending.end_descendants()
                send(self._connection, {"ended": os.waitstatus_to_exitcode(status)})
                return


def _terminal_in_here(given: list[int]) -> tuple[list[int], list[int]]:
    """A terminal of this sandbox's, which has a name in here, like the one that is given: its other side, and it thrice.

    Where there is none to be had: nothing, and what was given.
    """
    try:
        ours, theirs = os.openpty()
    except OSError:
        return [], given
    with contextlib.suppress(OSError, termios.error):
        termios.tcsetattr(theirs, termios.TCSANOW, termios.tcgetattr(given[0]))
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, fcntl.ioctl(given[0], termios.TIOCGWINSZ, bytes(8)))
    for descriptor in given:
        os.close(descriptor)
    return [ours], [theirs, theirs, theirs]


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _noticed(number: int, frame: object) -> None:
    """Nothing to do: the signal's arrival has been written to the wake-up pipe."""
