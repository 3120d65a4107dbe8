"""The role of a sandbox, which confines commands."""

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
        argv: Program and arguments. The program is searched in ``env["PATH"]``.
        cwd: The working folder, absolute. It exists.
        env: The complete environment.
        stdin, stdout, stderr: Open file descriptors. The caller closes them afterwards.
        tty: Whether the descriptors are a terminal that becomes the child's controlling terminal.
        may_replace_terminal: Whether the child may get another terminal of the same size instead (see
            :meth:`ChildProcess.take_terminal`).
        gate: The proxy for the command's traffic, if the network mode is ``proxy``. The sandbox gives it listening sockets, or
            calls
            its ``listen``, and adds ``gate.environment(ports)`` to ``env``. The caller closes it.
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
    """A started process, which leads its own session and process group."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process id, which is also the id of its group. 0 means that the process is not on this machine."""
        raise NotImplementedError

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal to the whole process group. Does nothing if the group has ended."""
        raise NotImplementedError

    @abstractmethod
    async def wait(self) -> int:
        """Wait for the end and return the status, where -N means ended by signal N. Further calls return the same status."""
        raise NotImplementedError

    def end_group(self) -> None:  # for those whose confinement does not end them
        """End the processes that the command has left in its group. Called once after its end, when its output has been read."""

    def take_terminal(self) -> int | None:
        """Return the other side of the terminal that replaced the one in the launch.

        The caller must close it. None if the terminal was not replaced. Called once.
        """
        return None

    def explain(self) -> str:
        """Return a sentence about an external reason for its end, or an empty string."""
        return ""


class SandboxReport(Value, kw_only=True):
    """The capabilities of a sandbox on this machine.

    Attributes:
        available: Whether it can be used.
        level: A short name of its strength here, for users (``namespaces+landlock+seccomp``, ``landlock+seccomp``, ...).
        protections: The layer that enforces each protection here (see :class:`Protection`). No entry or an empty text means that
            the
            protection is not enforced.
        partly: Protections that are enforced in part: by which layer, and with which limits.
        reason: Why it is not available, or weaker than it could be.
        hint: How to fix it.
    """

    available: bool
    level: str = ""
    protections: Mapping[Protection, str] = field(factory=dict)
    partly: Mapping[Protection, str] = field(factory=dict)
    reason: str = ""
    hint: str = ""

    def missing(self, floor: Iterable[Protection]) -> tuple[Protection, ...]:
        """Return the protections of a floor that are not enforced here."""
        return tuple(sorted(protection for protection in floor if not self.protections.get(protection)))


class SandboxLayer(Value):
    """One layer of a sandbox, tried separately on this machine.

    Attributes:
        fault: Why it does not work. Empty means that it works.
        hint: How to fix it.
    """

    name: str
    fault: str = ""
    hint: str = ""


class Confinement:
    """A plan for starting confined processes, one for each distinct :class:`FileAccess`."""

    @property
    def env(self) -> Mapping[str, str]:
        """Environment variables that tell a command that it is confined, such as ``CODEX_SANDBOX_NETWORK_DISABLED``."""
        return {}

    @abstractmethod
    async def start(self, launch: Launch) -> ChildProcess:
        """Start a process under the plan.

        Raises:
            SandboxError: It cannot be confined. It was not started.
            CommandFailed: The program or folder does not exist or cannot be executed.
                If either error is raised from an ``OSError`` with EMFILE, ENFILE or EAGAIN, this method is called again
                when another command has ended.
        """
        raise NotImplementedError

    async def warm(self) -> None:
        """Prepare for the first command while the model responds.

        Errors are not reported here, because the first :meth:`start` encounters them again.
        """


class Sandbox:
    """A method of confining commands.

    Attributes:
        name: Short and unique: ``landlock``, ``seatbelt``, ...
        close_timeout_s: Time limit of :meth:`aclose`, in seconds.
    """

    name: str
    close_timeout_s: float = 5.0

    @abstractmethod
    def probe(self) -> SandboxReport:
        """Return its capabilities on this machine. Called once. Must not take longer than a few milliseconds."""
        raise NotImplementedError

    @abstractmethod
    def confine(self, access: FileAccess, cwd: Path) -> Confinement:
        """Create a plan, without starting a process.

        Raises:
            SandboxError: The access cannot be enforced here.
        """
        raise NotImplementedError

    async def examine(self) -> tuple[SandboxLayer, ...]:
        """Try each layer in a temporary process, to explain why the sandbox is not stronger here.

        Raises:
            SandboxError: The layers cannot be tried.
        """
        return ()

    async def aclose(self) -> None:
        """End helper processes. Safe to call twice."""
