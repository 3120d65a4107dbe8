"""The role of a sandbox: how a command is confined."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import attrs

from codex_framework.value import Value

__all__ = [
    "ChildProcess",
    "Confinement",
    "Explains",
    "FileAccess",
    "Launch",
    "Sandbox",
    "SandboxReport",
    "Warms",
    "WritableRoot",
]

PROTECTED_NAMES = (".git", ".agents", ".codex")
"""Names right below a writable root that stay read-only, present or not (Codex: ``PROTECTED_METADATA_PATH_NAMES``)."""


class WritableRoot(Value):
    """A folder that may be written.

    Attributes:
        root: Absolute and real (no symlink in it).
        read_only: Absolute paths below it that may not: protected names and the target of a ``.git`` file.
    """

    root: Path
    read_only: tuple[Path, ...] = ()

    def writable(self, path: Path) -> bool:
        """Whether ``path`` (absolute, real) may be written by way of this root."""
        return path.is_relative_to(self.root) and not any(path.is_relative_to(kept) for kept in self.read_only)


class FileAccess(Value, kw_only=True):
    """A thread's policy, realised for one turn: symbolic roots replaced by real folders. Frozen; plans are cached by it.

    Attributes:
        full: No limit at all.
        roots: What may be written, where ``full`` is False.
        deny_read: Absolute paths that may not even be read.
        network: Whether commands may use the network.
    """

    full: bool = False
    roots: tuple[WritableRoot, ...] = ()
    deny_read: tuple[Path, ...] = ()
    network: bool = False

    @property
    def confines(self) -> bool:
        """Whether a sandbox has anything to do."""
        return not self.full or not self.network

    def may_write(self, path: Path) -> bool:
        """Whether ``path`` may be written. Symlinks are resolved first, so a link out of a root does not help."""
        if self.full:
            return True
        real = path.resolve()
        return any(root.writable(real) for root in self.roots)

    def may_read(self, path: Path) -> bool:
        """Whether ``path`` may be read. Symlinks are resolved first."""
        if self.full or not self.deny_read:
            return True
        real = path.resolve()
        return not any(real.is_relative_to(denied) for denied in self.deny_read)


class Launch(Value, kw_only=True):
    """A process to start.

    Attributes:
        argv: Program and arguments; the program is searched on ``env["PATH"]``.
        cwd: Absolute and existing.
        env: The whole environment.
        stdin, stdout, stderr: Open file descriptors of the caller, which closes them afterwards.
        tty: The descriptors are a terminal that becomes the child's controlling one.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int
    tty: bool = False


class ChildProcess(Protocol):
    """A started process, leader of a session and a process group of its own."""

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's id."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group; nothing happens when it is gone."""
        ...

    async def wait(self) -> int:
        """Wait for the end; returns the status (negative N: ended by signal N), the same each time."""
        ...


class SandboxReport(Value, kw_only=True):
    """What a sandbox can do on this machine.

    Attributes:
        available: Whether it can be used at all.
        level: A short word for its strength here, for people (``namespaces+landlock+seccomp``, ``landlock+seccomp``, ...).
        protections: What is enforced here, by which layer.
        reason: Why it is not available, or weaker than it could be.
        cure: What would change that.
    """

    available: bool
    level: str = ""
    protections: Mapping[str, str] = attrs.field(factory=dict)
    reason: str = ""
    cure: str = ""


class Confinement(Protocol):
    """A plan that is ready to start processes: one for each distinct :class:`FileAccess`."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that tell a command it is confined (``CODEX_SANDBOX_NETWORK_DISABLED`` and the like)."""
        ...

    async def start(self, launch: Launch) -> ChildProcess:
        """Start a process under the plan.

        Raises:
            SandboxError: It cannot be confined; nothing of it has run.
            CommandFailed: The program or folder does not exist or cannot be executed.
        """
        ...


@runtime_checkable
class Warms(Protocol):
    """A confinement that can get ready ahead of its first command, while the model is still thinking."""

    async def warm(self) -> None:
        """Get ready. What goes wrong is not reported here: the first ``start`` meets it again."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A child process that can say why it ended, where that was not its own doing."""

    def explain(self) -> str:
        """One sentence, once it has ended; ``""`` if there is nothing to say."""
        ...


class Sandbox(Protocol):
    """A way to confine commands."""

    @property
    def name(self) -> str:
        """Short and unique: ``landlock``, ``seatbelt``, ..."""
        ...

    def probe(self) -> SandboxReport:
        """What it can do here. Asked once; must not take longer than some milliseconds."""
        ...

    def confine(self, access: FileAccess, cwd: Path) -> Confinement:
        """Make the plan. Pure as far as can be: no process is started.

        Raises:
            SandboxError: The access cannot be enforced here.
        """
        ...

    async def aclose(self) -> None:
        """End helper processes. Safe to call twice."""
        ...
