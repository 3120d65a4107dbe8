"""The role of a sandbox: how a command is confined."""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import attrs

from codex_framework.globs import deny_matcher
from codex_framework.links import links_on_the_way
from codex_framework.protocol.permissions import AccessMode
from codex_framework.roles.networks import NetworkGate, NetworkRules
from codex_framework.value import Value

if TYPE_CHECKING:
    from codex_framework.config import Config

__all__ = [
    "ChildProcess",
    "Configured",
    "Confinement",
    "Examines",
    "Explains",
    "FileAccess",
    "Launch",
    "NetworkMode",
    "OwnsTerminal",
    "PathRule",
    "Protection",
    "ResourceLimits",
    "Sandbox",
    "SandboxLayer",
    "SandboxReport",
    "Warms",
    "WritableRoot",
]

PROTECTED_NAMES = (".git", ".agents", ".codex")
"""Names right below a writable root that stay read-only, present or not (Codex: ``PROTECTED_METADATA_PATH_NAMES``)."""


class NetworkMode(enum.StrEnum):
    """How a command reaches the network."""

    OFF = "off"
    """Not at all."""
    LOOPBACK = "loopback"
    """Only servers on this machine; a sandbox with a network of its own gives it one, so that it reaches only what it started."""
    PROXY = "proxy"
    """Only by the gate of its launch (see :class:`codex_framework.roles.networks.NetworkGate`)."""
    ON = "on"
    """Without limits."""


class Protection(enum.StrEnum):
    """What a sandbox can hold back: the words of its report, of ``sandbox doctor`` and of ``[framework] sandbox_floor``."""

    WRITING = "writing"
    """Writing, making, moving and removing files outside of the roots."""
    METADATA = "metadata"
    """Changing modes, owners, times and attributes outside of the roots."""
    PROTECTED_NAMES = "protected-names"
    """Changing ``.git``, ``.codex`` and the like in the roots, also making them where they do not exist."""
    READING = "reading"
    """Reading what the profile denies."""
    PROCESSES = "processes"
    """Seeing and tracing processes that do not belong to the command."""
    SIGNALS = "signals"
    """Sending signals to them."""
    SHARED_MEMORY = "shared-memory"
    """Shared memory, semaphores and message queues of others."""
    TERMINALS = "terminals"
    """Other terminals, and typing into the person's own."""
    NETWORK = "network"
    """Network access that the profile does not give."""
    UNIX_SOCKETS = "unix-sockets"
    """Sockets of services on this machine."""
    KERNEL = "kernel"
    """Kernel interfaces that programs for ordinary work do not need, and privileges."""
    LIFETIME = "lifetime"
    """Processes that outlive their command."""
    PROCESS_COUNT = "process-count"
    """Making processes without end."""
    RESOURCES = "resources"
    """Memory and file size without end."""


class ResourceLimits(Value, kw_only=True):
    """How much a command may use, with all its descendants together or each, as the system can count it. None: no limit of ours.

    Attributes:
        processes: Processes and threads that exist at a time.
        memory_bytes: Address space of each process.
        file_bytes: Size of each file that is written.
    """

    processes: int | None = 4096
    memory_bytes: int | None = None
    file_bytes: int | None = None


class PathRule(Value):
    """What may be done with a path and everything below it, where no longer rule speaks of it.

    Attributes:
        path: Absolute and real (no symlink in it).
    """

    path: Path
    access: AccessMode


class WritableRoot(Value):
    """A folder that may be written, with what may not be in it.

    Attributes:
        read_only: What below it may only be read, or not even that: protected names, the target of a ``.git`` file, entries.
    """

    root: Path
    read_only: tuple[Path, ...] = ()


class FileAccess(Value, kw_only=True):
    """A thread's permissions, realised for one turn: symbolic places replaced by real paths. Frozen; plans are cached by it.

    Of all rules (and matches of ``denied_globs``) that a path lies at or below, the one with the longest path decides. With the
    defaults everything may be read and nothing written.

    Attributes:
        full: No limit at all on files.
        rules: One for each path, by path.
        otherwise: What may be done where no rule speaks: ``read`` or ``deny``.
        denied_globs: Patterns with absolute beginnings (see :mod:`codex_framework.globs`): what matches is denied, and what is
            below it. An equally long rule does not lift that.
        glob_depth: How many folders deep to look for matches; None: as deep as it goes.
        network: How the network is reached.
        network_rules: What the gate lets through, where ``network`` is ``proxy``.
        floor: What has to be held back: where it cannot be, nothing runs.
        private_tmp: Where ``/tmp`` may be written: give commands one of their own, which other programs do not see.
    """

    full: bool = False
    rules: tuple[PathRule, ...] = ()
    otherwise: AccessMode = AccessMode.READ
    denied_globs: tuple[str, ...] = ()
    glob_depth: int | None = None
    network: NetworkMode = NetworkMode.OFF
    network_rules: NetworkRules | None = None
    floor: frozenset[Protection] = frozenset()
    limits: ResourceLimits = ResourceLimits()
    private_tmp: bool = False

    @classmethod
    def writing(
        cls,
        *roots: Path,
        read_only: Iterable[Path] = (),
        deny: Iterable[Path] = (),
        network: NetworkMode = NetworkMode.OFF,
    ) -> Self:
        """Read everything, write below ``roots``, but not below ``read_only``, and not even read below ``deny``."""
        modes = dict.fromkeys(roots, AccessMode.WRITE)
        modes |= dict.fromkeys(read_only, AccessMode.READ) | dict.fromkeys(deny, AccessMode.DENY)
        return cls(rules=tuple(PathRule(path, mode) for path, mode in sorted(modes.items())), network=network)

    @property
    def confines(self) -> bool:
        """Whether a sandbox has anything to do."""
        return not self.full or self.network is not NetworkMode.ON

    @property
    def confines_files(self) -> bool:
        """Whether there is anything that may not be read or not be written."""
        return not self.full

    @property
    def denies(self) -> bool:
        """Whether there is anything that may not be read."""
        if self.full:
            return False
        deny = AccessMode.DENY
        return self.otherwise is deny or bool(self.denied_globs) or any(rule.access is deny for rule in self.rules)

    @property
    def roots(self) -> tuple[WritableRoot, ...]:
        """The folders that may be written, each with what in it may not."""
        kept = [rule.path for rule in self.rules if rule.access is not AccessMode.WRITE]
        return tuple(
            WritableRoot(rule.path, tuple(path for path in kept if path.is_relative_to(rule.path)))
            for rule in self.rules
            if rule.access is AccessMode.WRITE
        )

    @property
    def denied(self) -> tuple[Path, ...]:
        """The paths that rules deny, apart from patterns."""
        return tuple(rule.path for rule in self.rules if rule.access is AccessMode.DENY)

    @property
    def lifted(self) -> FileAccess:
        """The same for a command that was approved to run without the sandbox: only what is denied by name stays denied."""
        denied = [rule for rule in self.rules if rule.access is AccessMode.DENY]
        if self.full or not (denied or self.denied_globs):
            return FileAccess(full=True, network=NetworkMode.ON)
        kept = [rule for rule in self.rules if any(rule.path.is_relative_to(one.path) for one in denied)]
        rules = {PathRule(Path("/"), AccessMode.WRITE), *kept}
        return FileAccess(
            rules=tuple(sorted(rules, key=lambda rule: rule.path)),
            denied_globs=self.denied_globs,
            glob_depth=self.glob_depth,
            network=NetworkMode.ON,
            floor=self.floor,
            limits=self.limits,
        )

    @functools.cached_property
    def _lookup(self) -> tuple[Mapping[str, AccessMode], Callable[[str], object] | None]:
        """The rules by path, and what matches patterns."""
        return {str(rule.path): rule.access for rule in self.rules}, deny_matcher(self.denied_globs)

    def mode_of(self, path: Path) -> AccessMode:
        """What may be done with ``path``, which is absolute and real. Looks at no file."""
        if self.full:
            return AccessMode.WRITE
        modes, matches = self._lookup
        for at in _upwards(path):
            if matches is not None and matches(at):
                return AccessMode.DENY
            mode = modes.get(at)
            if mode is not None:
                return mode
        return self.otherwise

    def denies_by_name(self, path: Path) -> bool:
        """Whether a rule or a pattern denies ``path`` or a folder around it, whatever longer rules say."""
        modes, matches = self._lookup
        return any(
            modes.get(at) is AccessMode.DENY or (matches is not None and matches(at) is not None)
            for at in _upwards(path)
        )

    def may_write(self, path: Path) -> bool:
        """Whether ``path`` may be written. Symlinks are resolved first, so a link out of a root does not help."""
        return self.full or self._strictest(path) is AccessMode.WRITE

    def may_read(self, path: Path) -> bool:
        """Whether ``path`` may be read. Neither what a link leads to nor a link on the way may be denied."""
        return self.full or not self.denies or self._strictest(path) is not AccessMode.DENY

    def _strictest(self, path: Path) -> AccessMode:
        """The mode of what a path leads to; but ``deny`` also where a link on the way to it is denied."""
        text = str(path) if path.is_absolute() else str(Path.cwd() / path)
        if "\0" in text:
            return AccessMode.DENY
        real = os.path.realpath(text)
        mode = self.mode_of(Path(real))
        if real != text and mode is not AccessMode.DENY and self.denies:
            links = links_on_the_way(text)
            if any(self.mode_of(Path(link)) is AccessMode.DENY for link in links):
                return AccessMode.DENY
        return mode


def _upwards(path: Path) -> Iterator[str]:
    """A path and the folders around it, as texts."""
    at = str(path)
    while True:
        yield at
        if at == "/":
            return
        at = at.rpartition("/")[0] or "/"


class Launch(Value, kw_only=True):
    """A process to start.

    Attributes:
        argv: Program and arguments; the program is searched on ``env["PATH"]``.
        cwd: Absolute and existing.
        env: The whole environment.
        stdin, stdout, stderr: Open file descriptors of the caller, which closes them afterwards.
        tty: The descriptors are a terminal that becomes the child's controlling one.
        may_replace_terminal: The child may get another terminal of the same size instead (see :class:`OwnsTerminal`).
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


@runtime_checkable
class OwnsTerminal(Protocol):
    """A child process that may have got a terminal which has a name where it lives, instead of the one in its launch."""

    def take_terminal(self) -> int | None:
        """The other side of it, which belongs to the caller from now on; None: it has what was launched. Asked once."""
        ...


class SandboxReport(Value, kw_only=True):
    """What a sandbox can do on this machine.

    Attributes:
        available: Whether it can be used at all.
        level: A short word for its strength here, for people (``namespaces+landlock+seccomp``, ``landlock+seccomp``, ...).
        protections: What is held back here, by which layer (see :class:`Protection`); an empty text or no entry: it is not.
        partly: What of the rest is held back in part: by which layer, and where it ends.
        reason: Why it is not available, or weaker than it could be.
        cure: What would change that.
    """

    available: bool
    level: str = ""
    protections: Mapping[Protection, str] = attrs.field(factory=dict)
    partly: Mapping[Protection, str] = attrs.field(factory=dict)
    reason: str = ""
    cure: str = ""

    def missing(self, floor: Iterable[Protection]) -> tuple[Protection, ...]:
        """What of a floor is not held back here."""
        return tuple(sorted(one for one in floor if not self.protections.get(one)))


class SandboxLayer(Value):
    """One means of a sandbox, tried on this machine by itself.

    Attributes:
        fault: Why it does not work; empty: it works.
        cure: What would change that.
    """

    name: str
    fault: str = ""
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


@runtime_checkable
class Examines(Protocol):
    """A sandbox that can try its means one by one, for people who want to know why it is not stronger."""

    async def examine(self) -> tuple[SandboxLayer, ...]:
        """Try each in a process that is thrown away.

        Raises:
            SandboxError: It cannot even try.
        """
        ...


@runtime_checkable
class Configured(Protocol):
    """A sandbox with settings of its own: told once, when a kernel is made, before it is asked anything."""

    def configure(self, config: Config) -> None:
        """Take them from the configuration (``codex_framework.config.plugin_config``).

        Raises:
            ConfigError: They are wrong.
        """
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
