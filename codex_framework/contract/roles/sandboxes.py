"""The role of a sandbox: how a command is confined."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path

from codex_framework.contract.permissions.file_access import (
    FileAccess,
    Protection,
)
from codex_framework.contract.roles.networks import NetworkGate
from codex_framework.contract.value import Value, field

__all__ = ["ChildProcess", "Confinement", "Launch", "Sandbox", "SandboxLayer", "SandboxReport"]


class Launch(Value, kw_only=True):
    """A process to start.

    Attributes:
        argv: Program and arguments; the program is searched on ``env["PATH"]``.
        cwd: Absolute and existing.
        env: The whole environment.
        stdin, stdout, stderr: Open file descriptors of the caller, which closes them afterwards.
        tty: The descriptors are a terminal that becomes the child's controlling one.
        may_replace_terminal: The child may get another terminal of the same size instead (see :meth:`ChildProcess.take_terminal`).
        gate: Where the access says ``proxy``: what carries the command's traffic. The sandbox hands it listening sockets, or
            asks it to listen, and adds ``gate.environment(ports)`` to ``env``. It belongs to the caller.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int
    tty: bool = False
    may_replace_terminal: bool = False
    gate: NetworkGate | None = None


class ChildProcess:
    """A started process, leader of a session and a process group of its own."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its process id, which is also its group's id."""
        raise NotImplementedError

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal to the whole process group; nothing happens when it is gone."""
        raise NotImplementedError

    @abstractmethod
    async def wait(self) -> int:
        """Wait for the end; returns the status (negative N: ended by signal N), the same each time."""
        raise NotImplementedError

    def take_terminal(self) -> int | None:
        """Return the other side of the terminal that the process got instead of the one in its launch.

        It belongs to the caller from now on. None means that the process has what was launched. Asked once.
        """
        return None

    def explain(self) -> str:
        """Return a sentence about why it ended, where that was not its own doing; ``""`` if there is nothing to say."""
        return ""


class SandboxReport(Value, kw_only=True):
    """What a sandbox can do on this machine.

    Attributes:
        available: Whether it can be used at all.
        level: A short word for its strength here, for people (``namespaces+landlock+seccomp``, ``landlock+seccomp``, ...).
        protections: What is held back here, by which layer (see :class:`Protection`); an empty text or no entry: it is not.
        partly: What of the rest is held back in part: by which layer, and where it ends.
        reason: Why it is not available, or weaker than it could be.
        hint: What would change that.
    """

    available: bool
    level: str = ""
    protections: Mapping[Protection, str] = field(factory=dict)
    partly: Mapping[Protection, str] = field(factory=dict)
    reason: str = ""
    hint: str = ""

    def missing(self, floor: Iterable[Protection]) -> tuple[Protection, ...]:
        """What of a floor is not held back here."""
        return tuple(sorted(one for one in floor if not self.protections.get(one)))


class SandboxLayer(Value):
    """One means of a sandbox, tried on this machine by itself.

    Attributes:
        fault: Why it does not work; empty: it works.
        hint: What would change that.
    """

    name: str
    fault: str = ""
    hint: str = ""


class Confinement:
    """A plan that is ready to start processes: one for each distinct :class:`FileAccess`."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that tell a command it is confined (``CODEX_SANDBOX_NETWORK_DISABLED`` and the like)."""
        return {}

    @abstractmethod
    async def start(self, launch: Launch) -> ChildProcess:
        """Start a process under the plan.

        Raises:
            SandboxError: It cannot be confined; nothing of it has run.
            CommandFailed: The program or folder does not exist or cannot be executed.
        """
        raise NotImplementedError

    async def warm(self) -> None:
        """Get ready ahead of the first command, while the model is still thinking.

        What goes wrong is not reported here: the first :meth:`start` meets it again.
        """


class Sandbox:
    """A way to confine commands.

    Attributes:
        name: Short and unique: ``landlock``, ``seatbelt``, ...
    """

    name: str

    @abstractmethod
    def probe(self) -> SandboxReport:
        """Return what it can do here. Asked once; must not take longer than some milliseconds."""
        raise NotImplementedError

    @abstractmethod
    def confine(self, access: FileAccess, cwd: Path) -> Confinement:
        """Make the plan. Pure as far as can be: no process is started.

        Raises:
            SandboxError: The access cannot be enforced here.
        """
        raise NotImplementedError

    async def examine(self) -> tuple[SandboxLayer, ...]:
        """Try each of its means in a process that is thrown away, for people who want to know why it is not stronger.

        Raises:
            SandboxError: It cannot even try.
        """
        return ()

    async def aclose(self) -> None:
        """End helper processes. Safe to call twice."""
