"""A confined process that starts commands, one at a time. In its own namespaces it is process 1.

Commands are started from here with vfork, so they inherit the confinement without any further steps.
"""

from __future__ import annotations

import contextlib
import errno
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
from .ending import Ending, reaped
from .messages import receive, send
from .remains import Remains
from .syscalls import close_but, prctl

__all__ = ["Instance", "live"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def live(connection: socket.socket, plan: dict[str, Any], level: str, user: User) -> None:
    """Confine this process, a new child of the launcher, and serve requests until the connection ends. Does not return."""
    try:
        _detach(connection, level)
        children = _children_file()
        enforced = enclose(plan, level, user)
        ending = Ending(alone=level == NAMESPACES or landlock.abi_version() >= landlock.ABI_SCOPE)
        if level == NAMESPACES:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of ids clears this setting
        else:
            signal.signal(signal.SIGTERM, ending.end)
        send(connection, {"ready": level, "enforced": enforced})
        remains = Remains(plan) if level == NAMESPACES else None
        Instance(connection, children, plan["limits"], ending, remains).serve()
    except Refused as refused:
        with contextlib.suppress(OSError):
            _refuse(connection, refused.stage, refused.error)
    except OSError:
        pass  # the framework is gone, so there is nobody to report to
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
    """Open the list of this process's children, with their ids outside of the sandbox. Return None if that is impossible.

    An open list stays readable after the process has confined itself.
    """
    try:
        return os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


class Instance:
    """The server for one connection."""

    def __init__(
        self,
        connection: socket.socket,
        children: int | None,
        bounds: dict[str, int | None],
        ending: Ending,
        remains: Remains | None,
    ) -> None:
        self._connection = connection
        self._ending = ending
        self._remains = remains
        self._bounds = bounds
        self._children = children
        self._main: int | None = None
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wake = reader
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)

    def serve(self) -> None:
        """Start commands and report their ends, until the connection ends or a command has left something behind."""
        waiting = select.poll()
        waiting.register(self._connection, select.POLLIN)
        waiting.register(self._wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 512)
                if self._reap() and self._remains is not None and self._remains.found():
                    send(self._connection, {"worn": True})
                    return
            if self._connection.fileno() in ready and not self._handle():
                self._ending.end_descendants()
                return

    def _handle(self) -> bool:
        message, descriptors = receive(self._connection)
        if message is None:
            return False
        if "run" in message:
            self._run(message["run"], descriptors)
        elif "listen" in message:
            return self._listen()
        elif self._main is not None:
            if message["signal"] == signal.SIGKILL:
                self._ending.kill_at_once()  # this includes the group; a fork bomb leaves no time for two steps
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._main, message["signal"])
        return True

    def _listen(self) -> bool:
        """Send new sockets that listen on the proxy's ports, and return whether that worked. Only the framework accepts on them."""
        try:
            with network.listening() as sockets:
                ports = [listener.getsockname()[1] for listener in sockets]
                send(self._connection, {"listening": ports}, [listener.fileno() for listener in sockets])
        except OSError as error:
            _refuse(self._connection, "network", error)
            return False
        return True

    def _run(self, request: dict[str, Any], descriptors: list[int]) -> None:
        ours: list[int] = []
        if request["named"]:
            ours, descriptors = _inner_terminal(descriptors)
        stdin, stdout, stderr = descriptors
        try:
            process = subprocess.Popen(
                request["argv"],
                cwd=request["cwd"],
                env=request["env"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=self._before(tty=request["tty"]),  # noqa: PLW1509  # this process has only one thread
            )
        except OSError as error:
            number = errno.ENOENT if _is_missing(error, request) else error.errno or 0
            send(self._connection, {"failed": number, "text": os.strerror(number)})
            return
        except (ValueError, subprocess.SubprocessError) as error:
            send(self._connection, {"failed": 0, "text": str(error)})
            return
        else:
            self._main = process.pid
            process.returncode = 0  # reaped here, not by subprocess
            send(self._connection, {"started": self._pid_outside()}, ours)
        finally:
            for descriptor in {*descriptors, *ours}:
                os.close(descriptor)

    def _before(self, *, tty: bool) -> Callable[[], None] | None:
        """Return the function to run between fork and exec, or None if nothing is needed, which allows the cheaper vfork."""
        if self._bounds["memory_bytes"] is None:
            return _take_terminal if tty else None

        def prepare() -> None:
            limits.bound_memory(self._bounds)  # not earlier, because this process itself may need more
            if tty:
                _take_terminal()

        return prepare

    def _pid_outside(self) -> int | None:
        if self._children is None:
            return None
        listed = os.pread(self._children, 4096, 0).split()
        return int(listed[0]) if listed else None  # adopted orphans come after it

    def _reap(self) -> bool:
        """Reap the children that have ended, and report the command's end. Return whether the command was among them."""
        for pid, status in reaped():
            if pid == self._main:
                self._main = None
                self._ending.end_descendants()
                send(self._connection, {"ended": os.waitstatus_to_exitcode(status)})
                return True
        return False


def _inner_terminal(given: list[int]) -> tuple[list[int], list[int]]:
    """Open a terminal that has a name inside of this sandbox, with the settings of the given one.

    Returns a list with our side, and a list with the command's side three times. If no terminal is available, returns an empty
    list and the given descriptors.
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


def _ignore(number: int, frame: object) -> None:
    """Do nothing. The arrival of the signal was already written to the wake-up pipe."""


def _is_missing(error: OSError, request: dict[str, Any]) -> bool:
    """Return whether permission was denied only because a folder on PATH cannot be searched, and the program is in no other."""
    program, cwd = request["argv"][0], request["cwd"]
    if error.errno != errno.EACCES or error.filename == cwd or "/" in program:
        return False
    folders = request["env"].get("PATH", os.defpath).split(os.pathsep)
    return not any(os.path.lexists(os.path.join(cwd, folder, program)) for folder in folders)
