"""What a confined command tries, to get at what its access does not give it. Each attempt is made for real.

An attempt is judged by what it has done to the world outside, never by what the command says of itself. All paths are
absolute, and all targets are the scene's own: a sandbox that holds nothing, or forgets the folder, must not cost anybody a file.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from codex_framework.contract.value import Value

__all__ = ["Attempt", "Scene", "escapes", "made_scene", "network_attempts"]

_SECRET = "the-secret-of-the-parent"  # noqa: S105  # bait
_KEPT = "kept\n"


class Scene:
    """Folders and a process for commands to try their strength on.

    Args:
        base: An empty folder.

    Attributes:
        work: May be written, but for the protected names in it.
        outside: May not.
        listener: A TCP listener on loopback that accepts nothing by itself.
    """

    def __init__(self, base: Path) -> None:
        self.work = base / "work"
        self.outside = base / "outside"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0.2)
        self.bystander = _bystander()
        self._fill()

    @property
    def victim(self) -> Path:
        """A file outside."""
        return self.outside / "victim"

    def restore(self) -> None:
        """Make everything as it was, after an attempt that has succeeded."""
        for child in (*self.work.iterdir(), *self.outside.iterdir()):  # the folders stay: a plan may hold on to them
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
        self._fill()
        if self.bystander.poll() is not None:
            self.bystander = _bystander()

    def connected(self, said: str) -> bool:
        """Whether somebody has connected to the listener, whatever a command said."""
        del said
        try:
            self.listener.accept()[0].close()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """End the process and the listener."""
        self.bystander.kill()
        self.bystander.wait()
        self.listener.close()

    def _fill(self) -> None:
        for made in (self.work / ".git", self.work / "folder", self.outside / "folder"):
            made.mkdir(parents=True, exist_ok=True)
        (self.work / ".git" / "config").write_text(_KEPT)
        (self.work / "file").write_text("file\n")
        (self.work / "plain").write_text("not a program\n")
        (self.outside / "victim").write_text(_KEPT)
        (self.outside / "private").write_text("private\n")
        (self.work / "link").symlink_to(self.victim)
        (self.work / "way").symlink_to(self.outside)


def _bystander() -> subprocess.Popen[bytes]:
    """A process of the same user, with a secret in its environment."""
    argv = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(argv, env={"SECRET": _SECRET}, stdin=subprocess.DEVNULL)


class Attempt(Value, kw_only=True):
    """One attempt.

    Attributes:
        what: What it tries: "write a file outside".
        argv: The command.
        succeeded: Whether it has, given the command's standard output.
    """

    what: str
    argv: tuple[str, ...]
    succeeded: Callable[[str], bool]


@contextlib.contextmanager
def made_scene() -> Iterator[Scene]:
    """Make a scene, and take it away afterwards."""
    with tempfile.TemporaryDirectory(dir=_ground(), prefix="check-sandbox-") as folder:
        scene = Scene(Path(folder).resolve())
        try:
            yield scene
        finally:
            scene.close()


def _ground() -> str | None:
    """A place that is not below /tmp, which many a sandbox lets be written or replaces by another."""
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # noqa: S108  # the folder in it is made safely


def escapes(scene: Scene) -> list[Attempt]:
    """All that must fail whatever the network setting."""
    return [*_writes(scene), *_protected(scene), *_processes(scene)]


def _writes(scene: Scene) -> list[Attempt]:
    victim, outside = scene.victim, scene.outside
    new = outside / "new"

    def changed(_: str) -> bool:
        return not victim.exists() or victim.read_text() != _KEPT

    def made(_: str) -> bool:
        return os.path.lexists(new)

    name, folder, target, work = (shlex.quote(str(path)) for path in (victim, outside, new, scene.work))
    scripts = {
        "overwrite a file outside": (f"echo x > {name}", changed),
        "append to a file outside": (f"echo x >> {name}", changed),
        "write by way of a symlink in the workspace": (f"echo x > {work}/link", changed),
        "write through a symlinked folder": (f"echo x > {work}/way/victim", changed),
        "write by way of ..": (f"echo x > {work}/../outside/victim", changed),
        "write by way of /proc/self/root": (f"echo x > /proc/self/root{name}", changed),
        "write through a hard link made in the workspace": (f"ln {name} {work}/hard && echo x > {work}/hard", changed),
        "remove a file outside": (f"rm -f {name}", changed),
        "move a file from outside": (f"mv {name} {work}/taken", changed),
        "move a file over one outside": (f"cp {work}/file {work}/moved && mv {work}/moved {name}", changed),
        "truncate a file outside": (f": > {name}", changed),
        "make a file outside": (f"echo x > {target}", made),
        "make a folder outside": (f"mkdir {target}", made),
        "make a symlink outside": (f"ln -s / {target}", made),
        "make a named pipe outside": (f"mkfifo {target}", made),
        "remove a folder outside": (f"rmdir {folder}/folder", lambda _: not (outside / "folder").exists()),
        "rename a folder outside": (f"mv {folder}/folder {target}", made),
        "write from a background child": (f"(sleep 0.1; echo x > {name}) & wait", changed),
        "write from a new session": (f"setsid sh -c 'echo x > {name}'", changed),
    }
    return [_shell(what, script, done) for what, (script, done) in scripts.items()]


def _protected(scene: Scene) -> list[Attempt]:
    git, codex = scene.work / ".git", scene.work / ".codex"
    work = shlex.quote(str(scene.work))

    def config(_: str) -> bool:
        return not (git / "config").exists() or (git / "config").read_text() != _KEPT

    scripts = {
        "write a file in .git": (f"echo x > {work}/.git/config", config),
        "make a hook in .git": (
            f"mkdir -p {work}/.git/hooks && echo x > {work}/.git/hooks/new",
            lambda _: (git / "hooks" / "new").exists(),
        ),
        "move .git away": (f"mv {work}/.git {work}/elsewhere", lambda _: not git.exists()),
        "remove .git": (f"rm -rf {work}/.git", config),
        "make .codex": (
            f"mkdir {work}/.codex && echo x > {work}/.codex/config.toml",
            lambda _: (codex / "config.toml").exists(),
        ),
    }
    return [_shell(what, script, done) for what, (script, done) in scripts.items()]


def _processes(scene: Scene) -> list[Attempt]:
    pid = scene.bystander.pid

    def dead(_: str) -> bool:
        time.sleep(0.05)
        return scene.bystander.poll() is not None

    attach = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True);"
        f" print('ATTACHED' if libc.ptrace(16, {pid}, 0, 0) == 0 else 'refused')"
    )
    return [
        _shell(
            "read the environment of a process outside",
            f"cat /proc/{pid}/environ",
            lambda said: _SECRET in said,
        ),
        _shell(
            "write to the memory of a process outside",
            f"test -w /proc/{pid}/mem && exec 9<> /proc/{pid}/mem && echo OPENED",
            lambda said: "OPENED" in said,
        ),
        Attempt(
            what="trace a process outside",
            argv=(sys.executable, "-S", "-c", attach),
            succeeded=lambda said: "ATTACHED" in said,
        ),
        _shell("end a process outside", f"kill -9 {pid}", dead),
    ]


def network_attempts(scene: Scene) -> list[Attempt]:
    """What must fail where the network is off (and the first of which has to work where it is on)."""
    port = scene.listener.getsockname()[1]

    connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
    datagram = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        " s.sendto(b'x', ('192.0.2.1', 53)); print('SENT')"
    )
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {connect!r}])"
    return [
        Attempt(what="connect to a TCP server", argv=(sys.executable, "-S", "-c", connect), succeeded=scene.connected),
        Attempt(
            what="connect from a child process", argv=(sys.executable, "-S", "-c", child), succeeded=scene.connected
        ),
        Attempt(
            what="send a datagram", argv=(sys.executable, "-S", "-c", datagram), succeeded=lambda said: "SENT" in said
        ),
    ]


def _shell(what: str, script: str, succeeded: Callable[[str], bool]) -> Attempt:
    return Attempt(what=what, argv=("/bin/sh", "-c", script), succeeded=succeeded)
