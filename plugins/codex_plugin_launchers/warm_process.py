"""The warm process of a pool: it has imported what workers need, and is forked for each of them.

It is started as ``python -m codex_plugin_launchers.warm_process FD``, reads the workplace from stdin, and then obeys the pool at the
other end of the socket FD. It has no event loop and no threads when it forks: a child that is forked beside threads can wait for ever
for a lock that one of them held.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from typing import NoReturn

from codex_framework.contract.protocol.wire import read
from codex_framework.contract.roles.launchers import Workplace

__all__ = ["FORK", "KILL", "main"]

FORK, KILL = b"F", b"K"
"""Commands of the pool, each followed by the number of a worker. The first one brings the worker's end of a socket."""

_COLD = "--cold"
_GRACE_S = 1.5
"""The time in which workers can end by themselves when the pool is gone."""

_LOOK_S = 1.0

_AT_FIRST_USE = (
    "cattrs",
    "codex_framework.contract.protocol.structuring",
    "codex_lib_launch.worker",
    "codex_plugin_launchers.pool_worker",
)
"""Modules that every worker imports later than plugins."""


def main() -> None:
    """Fork workers until the pool is gone."""
    number = int(sys.argv[1])
    text = sys.stdin.buffer.read()
    about = json.loads(text)
    sys.path[:] = about["path"]
    workplace = read(Workplace, about["workplace"])
    _redirect_output()
    if _COLD not in sys.argv:
        _import_all(workplace)
        if threading.active_count() > 1:  # a plugin has started one when it was loaded
            _start_cold(number, text)
    with socket.socket(fileno=number) as pool:
        _Forks(pool, workplace).serve()


def _redirect_output() -> None:
    """Send what plugins print to stderr: stdout is the program's. Leave no input to read."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # the program was started without stderr
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
    if nothing > 2:
        os.close(nothing)


def _import_all(workplace: Workplace) -> None:
    """Import what a worker uses for a session. A worker reports what is wrong with the configuration or a plugin."""
    for name in _AT_FIRST_USE:
        importlib.import_module(name)
    from codex_lib_launch.worker import load_plugins

    with contextlib.suppress(Exception):  # each worker meets it, too, and says so
        load_plugins(workplace)


def _start_cold(number: int, text: bytes) -> NoReturn:
    """Become a process that has imported no plugins."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(text)
        stdin.seek(0)
        os.dup2(stdin.fileno(), 0)
    os.set_inheritable(number, True)  # noqa: FBT003
    command = [sys.executable, "-P", "-m", "codex_plugin_launchers.warm_process", str(number), _COLD]
    os.execv(command[0], command)  # noqa: S606


class _Forks:
    """The workers, and the pool that asks for them."""

    def __init__(self, pool: socket.socket, workplace: Workplace) -> None:
        self._pool = pool
        self._workplace = workplace
        self._pids: dict[int, int] = {}
        self._parent = os.getppid()

    def serve(self) -> None:
        """Obey the pool, then end all workers."""
        woken, waking = socket.socketpair()
        waking.settimeout(0)
        woken.settimeout(0)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ended = False

        def end(*_: object) -> None:
            nonlocal ended
            ended = True

        signal.signal(signal.SIGTERM, end)
        while not ended and os.getppid() == self._parent:
            ready, _, _ = select.select([self._pool, woken], [], [], _LOOK_S)
            if woken in ready:
                woken.recv(4096)
                self._reap()
            if self._pool in ready and not self._obey():
                break
        self._end_all()

    def _obey(self) -> bool:
        """Do what the pool asks for. Return False if it is gone."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._pool, 5, 1)
        except OSError:
            return False
        if len(message) < 5:
            return False
        number = int.from_bytes(message[1:])
        if message[:1] == KILL and number in self._pids:
            os.kill(self._pids[number], signal.SIGKILL)
        elif message[:1] == FORK and descriptors:
            self._fork(number, descriptors[0])
        return True

    def _fork(self, number: int, descriptor: int) -> None:
        gc.freeze()  # collections in workers would copy the memory
        parent = os.getpid()
        pid = os.fork()
        if pid:
            os.close(descriptor)
            self._pids[number] = pid
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._pool.close()
            _die_with_parent(parent)
            from codex_plugin_launchers.pool_worker import work

            work(socket.socket(fileno=descriptor), self._workplace)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        for number, pid in [*self._pids.items()]:
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._pids[number]

    def _end_all(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + _GRACE_S
        while self._pids and time.monotonic() < end:
            self._reap()
            time.sleep(0.01)
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids.values():
            os.waitpid(pid, 0)


def _die_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent ends. Elsewhere than on Linux, the end of the socket must do."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main()
