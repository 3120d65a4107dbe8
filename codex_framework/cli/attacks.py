"""The attacks of ``codex-framework sandbox prove``: what the check of sandboxes tries, and some that a weaker level lets through."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator

from codex_framework.roles.sandboxes import Protection, SandboxReport
from codex_framework.testing.conformance.attempts import Attempt, Scene, escapes, network_attempts
from codex_framework.value import Value

__all__ = ["Attack", "attacks"]

_MODES = Protection.METADATA
_KERNEL = Protection.KERNEL
_REMAINS = Protection.LIFETIME

_CALL = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); print('DONE' if {} == 0 else 'refused')"


class Attack(Value):
    """One attempt, and what it threatens.

    Attributes:
        attempt: What is run, and how to see whether it has succeeded.
        danger: The key under which a report tells what stands against it; None: it must fail in any sandbox.
    """

    attempt: Attempt
    danger: Protection | None = None

    def claimed(self, report: SandboxReport) -> bool:
        """Whether the sandbox says that it stops this. One that does not speak of the danger at all is taken at its name."""
        return self.danger is None or report.protections.get(self.danger) != ""


def attacks(scene: Scene) -> list[Attack]:
    """All of them, on this scene."""
    shared = [Attack(attempt) for attempt in (*escapes(scene), *network_attempts(scene))]
    return [*shared, *_metadata(scene), *_kernel(), *_remaining(scene)]


def _metadata(scene: Scene) -> Iterator[Attack]:
    before = scene.victim.stat()
    name = shlex.quote(str(scene.victim))

    def other_mode(_: str) -> bool:
        return scene.victim.stat().st_mode != before.st_mode

    def other_time(_: str) -> bool:
        return scene.victim.stat().st_mtime < 1e6

    yield _shell("change the mode of a file outside", f"chmod 777 {name}", other_mode, _MODES)
    yield _shell("change the time of a file outside", f"touch -d @1 {name}", other_time, _MODES)


def _kernel() -> Iterator[Attack]:
    calls = {
        "make a user namespace": "libc.unshare(0x10000000)",
        "make a mount namespace": "libc.unshare(0x00020000)",
        "change the host's name": "libc.sethostname(os.uname().nodename.encode(), len(os.uname().nodename))",
    }
    for what, call in calls.items():
        yield _python(what, _CALL.format(call), lambda said: "DONE" in said, _KERNEL)
    mount = (
        "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True);"
        " libc.mount(b'none', b'/no-such-folder-4711', b'tmpfs', 0, None);"
        " print('DONE' if ctypes.get_errno() == errno.ENOENT else 'refused')"
    )  # where nothing forbids it, it fails for want of the folder: nothing is mounted anywhere
    yield _python("mount something", mount, lambda said: "DONE" in said, _KERNEL)
    socket = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); print('DONE')"
    yield _python("open a netlink socket", socket, lambda said: "DONE" in said, _KERNEL)
    terminal = "import fcntl, os; fcntl.ioctl(os.openpty()[1], 0x5412, b'x'); print('DONE')"
    yield _python("type into a terminal", terminal, lambda said: "DONE" in said, Protection.TERMINALS)


def _remaining(scene: Scene) -> Iterator[Attack]:
    late = scene.work / "late"
    script = f"setsid sh -c 'sleep 0.5; echo x > {late}' >/dev/null 2>&1 </dev/null & sleep 0.1"

    def lived(_: str) -> bool:
        import time

        time.sleep(0.7)
        return os.path.lexists(late)

    yield _shell("leave a process behind", script, lived, _REMAINS)


def _shell(what: str, script: str, succeeded: Callable[[str], bool], danger: Protection) -> Attack:
    return Attack(Attempt(what=what, argv=("/bin/sh", "-c", script), succeeded=succeeded), danger)


def _python(what: str, code: str, succeeded: Callable[[str], bool], danger: Protection) -> Attack:
    return Attack(Attempt(what=what, argv=(sys.executable, "-S", "-c", code), succeeded=succeeded), danger)
