"""Attempts of a confined command to exceed its access. Each attempt is really made.

An attempt is judged by its effect outside of the sandbox, never by the command's output alone. All paths are absolute, and all
targets belong to the scene, so even a sandbox that stops nothing, or ignores the folder, cannot damage a user's file.
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

from codex_framework.commands.access import file_access
from codex_framework.commands.protected_paths import ProtectedPaths, find_protected_paths
from codex_framework.contract.permissions.file_access import (
    FileAccess,
    NetworkMode,
    PathRule,
    Protection,
    ResourceLimits,
)
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_framework.contract.roles.sandboxes import SandboxReport
from codex_framework.contract.value import Value
from codex_framework.toolkit.placeholders import is_placeholder

__all__ = ["UNREAD", "Attack", "Attempt", "Scene", "create_scene", "deciding_attempts", "escapes", "network_attempts"]

UNREAD = "what may not be read\n"
"""The content of denied files."""

_SECRET = "the-secret-of-the-parent"  # noqa: S105  # bait
_KEPT = "kept\n"


class Scene:
    """The folders and the process that attempts are made on.

    Args:
        base: An empty folder.

    Attributes:
        work: A writable folder, except for protected names and deciding paths in it.
        around: A folder in ``work`` that contains deciding folders.
        home: ``$CODEX_HOME``.
        code: A folder with code that the kernel runs.
        project: A project that the user trusts, without its own settings yet.
        outside: A folder that must not be written.
        listener: A TCP listener on loopback that does not accept connections.
    """

    def __init__(self, base: Path) -> None:
        self.work = base / "work"
        self.outside = base / "outside"
        self.around = self.work / "around"
        self.home, self.code, self.project = (self.around / name for name in ("home", "code", "project"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0.2)
        self.bystander = _bystander()
        self._create_files()

    @property
    def victim(self) -> Path:
        """A file outside."""
        return self.outside / "victim"

    @property
    def deciding(self) -> ProtectedPaths:
        """The deciding paths of the scene."""
        projects = {str(self.project): {"trust_level": "trusted"}}
        protected = ("around/script.sh", str(self.around / "missing.sh"))
        return find_protected_paths(
            self.home, environ={}, projects=projects, code=[str(self.code)], protected=protected
        )

    def access(self) -> FileAccess:
        """The access of commands in the scene: they may write ``work``, without network access."""
        policy = WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
        return file_access(permissions_of(policy), self.work, {}, self.deciding)

    def restore(self) -> None:
        """Restore the scene after a successful attempt."""
        for child in (
            *self.work.iterdir(),
            *self.outside.iterdir(),
        ):  # the folders stay, because a plan may depend on them
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
        self._create_files()
        if self.bystander.poll() is not None:
            self.bystander = _bystander()

    def has_connected(self, said: str) -> bool:
        """Return whether there was a connection to the listener, regardless of the command's output."""
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

    def _create_files(self) -> None:
        for made in (self.work / ".git", self.work / "folder", self.outside / "folder"):
            made.mkdir(parents=True, exist_ok=True)
        for made in (self.home / "rules", self.code, self.project):
            made.mkdir(parents=True, exist_ok=True)
        for kept in (
            self.home / "config.toml",
            self.home / "rules" / "default.rules",
            self.code / "module.py",
            self.around / "script.sh",
        ):
            kept.write_text(_KEPT)
        (self.work / ".git" / "config").write_text(_KEPT)
        (self.work / "file").write_text("file\n")
        (self.work / "plain").write_text("not a program\n")
        (self.outside / "victim").write_text(_KEPT)
        (self.outside / "private").write_text("private\n")
        (self.work / "link").symlink_to(self.victim)
        (self.work / "way").symlink_to(self.outside)


def _bystander() -> subprocess.Popen[bytes]:
    """Start a process of the same user with a secret in its environment."""
    argv = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(argv, env={"SECRET": _SECRET}, stdin=subprocess.DEVNULL)


class Attempt(Value, kw_only=True):
    """One attempt.

    Attributes:
        what: A description: "write a file outside".
        argv: The command.
        succeeded: Returns whether it has succeeded, given the command's standard output.
    """

    what: str
    argv: tuple[str, ...]
    succeeded: Callable[[str], bool]


class Attack(Value):
    """One attack: an attempt, and the danger that it represents.

    Attributes:
        attempt: The command, and the test whether it has succeeded.
        danger: The protection in a report that stops it. Without one, it must fail in every sandbox.
        network: The network access during the attack.
        limits: The resource limits during the attack.
        denied: The paths that cannot be read during the attack. These files are created for it.
        then: A second command, run after the attempt with the same permissions. The attempt has succeeded if this command finds
            traces of the first one, so its output is judged.
    """

    attempt: Attempt
    danger: Protection | None = None
    network: NetworkMode = NetworkMode.OFF
    limits: ResourceLimits = ResourceLimits()
    denied: tuple[Path, ...] = ()
    then: tuple[str, ...] | None = None

    def access(self, usual: FileAccess) -> FileAccess:
        """Return the access of the attacker."""
        rules = {rule.path: rule for rule in usual.rules}
        rules |= {path: PathRule(path, AccessMode.DENY) for path in self.denied}
        return usual.evolve(
            rules=tuple(rules[path] for path in sorted(rules)), network=self.network, limits=self.limits
        )

    def prepare(self) -> None:
        """Create the targets of the attack."""
        for path in self.denied:
            path.parent.mkdir(exist_ok=True)
            path.write_text(UNREAD)

    def is_claimed(self, report: SandboxReport) -> bool:
        """Return whether the sandbox claims to stop this. A report that does not mention the danger counts as a claim."""
        return self.danger is None or report.protections.get(self.danger) != ""


@contextlib.contextmanager
def create_scene() -> Iterator[Scene]:
    """Create a scene, and remove it afterwards."""
    with tempfile.TemporaryDirectory(dir=_scene_folder(), prefix="check-sandbox-") as folder:
        scene = Scene(Path(folder).resolve())
        try:
            yield scene
        finally:
            scene.close()


def _scene_folder() -> str | None:
    """Return a folder that is not below /tmp, which some sandboxes make writable or replace."""
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # noqa: S108  # the folder in it is made safely


def escapes(scene: Scene) -> list[Attempt]:
    """Return the attempts that must fail with every network setting."""
    return [*_writes(scene), *_protected_name_attempts(scene), *deciding_attempts(scene), *_processes(scene)]


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


def _protected_name_attempts(scene: Scene) -> list[Attempt]:
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
        "make .aws": (
            f"mkdir {work}/.aws && echo x > {work}/.aws/config",
            lambda _: (scene.work / ".aws" / "config").exists(),
        ),
    }
    return [_shell(what, script, done) for what, (script, done) in scripts.items()]


def deciding_attempts(scene: Scene) -> list[Attempt]:
    """Return attempts to write deciding paths: configuration, rules, and code that the kernel runs."""
    config, rules, module = scene.home / "config.toml", scene.home / "rules", scene.code / "module.py"
    kept = (config, rules / "default.rules", module, scene.around / "script.sh")

    def changed(_: str) -> bool:
        scripts = [path for path in scene.around.glob("*.sh") if not is_placeholder(str(path))]
        added = [*scene.home.glob("*.toml"), *rules.glob("*.rules"), *scene.code.glob("*.py"), *scripts]
        return len(added) != len(kept) or any(not path.exists() or path.read_text() != _KEPT for path in kept)

    work, around, home, code = (shlex.quote(str(path)) for path in (scene.work, scene.around, scene.home, scene.code))
    scripts = {
        "change config.toml in $CODEX_HOME": f"echo x > {home}/config.toml",
        "make a profile in $CODEX_HOME": f"echo x > {home}/evil.config.toml",
        "add rules to $CODEX_HOME": f"echo x > {home}/rules/evil.rules",
        "append to rules in $CODEX_HOME": f"echo x >> {home}/rules/default.rules",
        "remove the rules from $CODEX_HOME": f"rm -rf {home}/rules",
        "put other rules in the place of those in $CODEX_HOME": (
            f"mkdir {work}/evil && echo x > {work}/evil/default.rules;"
            f" mv {home}/rules {home}/old; mv {work}/evil {home}/rules || ln -s {work}/evil {home}/rules"
        ),
        "move $CODEX_HOME away and make another": (
            f"mv {home} {around}/old; mkdir -p {home}/rules && echo x > {home}/config.toml"
        ),
        "move the folder around $CODEX_HOME away and make another": (
            f"mv {around} {work}/old; mkdir -p {home} && echo x > {home}/config.toml"
        ),
        "exchange $CODEX_HOME for a symlink": f"rm -rf {home}; rmdir {home}; mv {home} {work}/old; ln -s {work} {home}",
        "change rules through a hard link": f"ln {home}/rules/default.rules {work}/rules && echo x > {work}/rules",
        "change a script that a plugin protects": f"echo x > {around}/script.sh",
        "put another script in the place of one that a plugin protects": (
            f"echo x > {work}/evil; mv -f {work}/evil {around}/script.sh"
        ),
        "make a script that a plugin protects and that does not exist": f"echo x > {around}/missing.sh",
        "change code that the kernel runs": f"echo x > {code}/module.py",
        "add a module beside code that the kernel runs": f"echo x > {code}/evil.py",
        "move code that the kernel runs away": f"mv {code} {work}/old; mkdir {code} && echo x > {code}/evil.py",
        "change config.toml through its folder's descriptor": f"cd {home} && exec 9< . && echo x > /proc/self/fd/9/config.toml",
    }
    return [_shell(what, script, changed) for what, script in scripts.items()]


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
    """Return the attempts that must fail if the network is off. The first one must succeed if it is on."""
    port = scene.listener.getsockname()[1]

    connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
    datagram = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        " s.sendto(b'x', ('192.0.2.1', 53)); print('SENT')"
    )
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {connect!r}])"
    return [
        Attempt(
            what="connect to a TCP server", argv=(sys.executable, "-S", "-c", connect), succeeded=scene.has_connected
        ),
        Attempt(
            what="connect from a child process", argv=(sys.executable, "-S", "-c", child), succeeded=scene.has_connected
        ),
        Attempt(
            what="send a datagram", argv=(sys.executable, "-S", "-c", datagram), succeeded=lambda said: "SENT" in said
        ),
    ]


def _shell(what: str, script: str, succeeded: Callable[[str], bool]) -> Attempt:
    return Attempt(what=what, argv=("/bin/sh", "-c", script), succeeded=succeeded)
