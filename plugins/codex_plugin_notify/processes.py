"""Background processes: each has a time limit, even after the end of this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

__all__ = ["Processes"]

_MOST = 16
"""The maximum number of concurrent processes. More would mean that they hang."""

_GRACE_S = 1.0
"""How long a process may take to end after SIGTERM, in seconds."""

_CLOSE_S = 0.5
"""How long the end of the kernel waits for processes, so that a failure of the last one can be told, in seconds."""

_GUARD = """
import os, select, signal, sys, time
if os.fork():
    os._exit(0)
ends = {}
for word in sys.argv[1:]:
    pid, descriptor, end = word.split(":")
    ends[int(descriptor)] = (int(pid), float(end))
def over(descriptor, wait_s):
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(wait_s, 0) * 1000))
for descriptor, (pid, end) in sorted(ends.items(), key=lambda item: item[1][1]):
    for number, patience in ((signal.SIGTERM, end - time.time()), (signal.SIGKILL, 1.0)):
        if over(descriptor, patience):
            break
        try:
            os.killpg(pid, number)
        except OSError:
            break
"""
"""A program that ends process groups at their time limits. The id of a group is not reused while its leader's descriptor is not
readable.

It continues in a child, so that this process need not wait for it.
"""


class Processes:
    """Starts processes in their own groups, detached from all three standard streams.

    Args:
        what: Their name in messages.
        environ: Their environment.
        timeout_s: Time limit of each, in seconds.
        tell: Called on other threads with the purpose of the process and a sentence.
        hint: Advice if one fails, as a sentence.
    """

    def __init__(
        self,
        what: str,
        environ: Mapping[str, str],
        timeout_s: float,
        tell: Callable[[str, str], None],
        *,
        hint: str = "",
    ) -> None:
        self._what = what
        self._environ = dict(environ)
        self._timeout_s = max(timeout_s, 0.0)
        self._tell = tell
        self._hint = f". {hint}" if hint else ""
        self._running: dict[subprocess.Popen[bytes], float] = {}
        self._handed_over: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def start(self, program: str, argv: Sequence[str | bytes], reason: str) -> None:
        """Start a process.

        Args:
            program: The absolute path of its file.
            argv: Its arguments, beginning with its name.
            reason: Passed to ``tell``.
        """
        with self._lock:
            if len(self._running) >= _MOST:
                self._tell(reason, f"{self._what} was not run, because {_MOST} earlier runs have not ended")
                return
            words = [word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape") for word in argv]
            try:
                process = self._started(program, words)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self._tell(reason, f"{self._what} cannot be run: {_reason(error)}")
                return
            self._running[process] = time.monotonic() + self._timeout_s
        name = f"notify-{process.pid}"
        threading.Thread(target=self._watch, args=(process, reason), name=name, daemon=True).start()

    def close(self) -> None:
        """Wait a moment for the processes. Processes that still run keep their time limit in the background."""
        deadline = time.monotonic() + _CLOSE_S
        while self._running and time.monotonic() < deadline:
            time.sleep(0.01)
        with self._lock:
            left = {process: end for process, end in self._running.items() if process not in self._handed_over}
            if not left or self._hand_over(left):
                return
            self._running.update(dict.fromkeys(left, 0.0))
        deadline = time.monotonic() + 2 * _GRACE_S
        while self._running and time.monotonic() < deadline:
            time.sleep(0.01)

    def _started(self, program: str, argv: Sequence[bytes]) -> subprocess.Popen[bytes]:
        # A group of its own keeps Ctrl-C away from it. It stays in the session, as in Codex, so it can write to /dev/tty.
        return subprocess.Popen(
            argv,
            executable=program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environ,
            process_group=0,
        )

    def _watch(self, process: subprocess.Popen[bytes], reason: str) -> None:
        """Wait for the end of a process, and kill it at its time limit, which may change."""
        pause_s = 0.002
        while (status := process.poll()) is None and time.monotonic() < self._running[process]:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.05)
        if status is None:
            _kill(process)
        fate = f"did not end within {self._timeout_s:g} s and was killed" if status is None else _fate(status)
        with self._lock:
            del self._running[process]
            self._handed_over.discard(process)
        if fate:
            self._tell(reason, f"{self._what} {fate}{self._hint}")

    def _hand_over(self, left: Mapping[subprocess.Popen[bytes], float]) -> bool:
        """Leave the time limits to a process that outlives this one. Return False if that is impossible."""
        if not hasattr(os, "pidfd_open") or not sys.executable:
            return False
        words, descriptors = [], []
        try:
            for process, end in left.items():
                descriptors.append(os.pidfd_open(process.pid))
                words.append(f"{process.pid}:{descriptors[-1]}:{time.time() + end - time.monotonic()}")
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", _GUARD, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=descriptors,
                start_new_session=True,
                timeout=2.0,
                check=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return False
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._handed_over.update(left)
        return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the group of a process. Its id stays its own until it is waited for, which is last."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        if number == signal.SIGTERM:
            time.sleep(_GRACE_S)
    process.wait()


def _fate(status: int) -> str:
    """Return the meaning of an exit status. Empty for success."""
    if status == 0:
        return ""
    if status > 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "its interpreter does not exist"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
