"""What may be read, written and reached in one turn, with real paths: rules of which the longest decides."""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from codex_framework.contract.permissions.globs import deny_matcher
from codex_framework.contract.permissions.links import links_on_the_way
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.value import Value

__all__ = [
    "PROTECTED_NAMES",
    "FileAccess",
    "NetworkMode",
    "PathRule",
    "Protection",
    "ResourceLimits",
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
    """Only by the gate of its launch (see :class:`codex_framework.contract.roles.networks.NetworkGate`)."""
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
    """A thread's permissions, resolved for one turn: symbolic places replaced by real paths. Frozen; plans are cached by it.

    Of all rules (and matches of ``denied_globs``) that a path lies at or below, the one with the longest path decides. With the
    defaults everything may be read and nothing written.

    Attributes:
        full: No limit at all on files.
        rules: One for each path, by path.
        otherwise: What may be done where no rule speaks: ``read`` or ``deny``.
        denied_globs: Patterns with absolute beginnings (see :mod:`globs`): what matches is denied, and what is
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
    def without_sandbox(self) -> FileAccess:
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

    def within(self, other: FileAccess) -> bool:
        """Return whether it lets nothing be done that ``other`` does not.

        Modes change only at the paths of rules, so the paths of both are all that has to be compared. Patterns are compared by
        their text: those of ``other`` must be among its own.
        """
        return self._files_within(other) and self._network_within(other)

    def _files_within(self, other: FileAccess) -> bool:
        if other.full or self.full:
            return other.full
        if not set(other.denied_globs) <= set(self.denied_globs):
            return False
        paths = {Path("/"), *(rule.path for rule in (*self.rules, *other.rules))}
        return all(_RANKS[self.mode_of(path)] <= _RANKS[other.mode_of(path)] for path in paths)

    def _network_within(self, other: FileAccess) -> bool:
        order = list(NetworkMode)  # from nothing to everything
        if order.index(self.network) != order.index(other.network):
            return order.index(self.network) < order.index(other.network)
        return self.network is not NetworkMode.PROXY or self.network_rules == other.network_rules

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


_RANKS = {AccessMode.DENY: 0, AccessMode.READ: 1, AccessMode.WRITE: 2}


def _upwards(path: Path) -> Iterator[str]:
    """A path and the folders around it, as texts."""
    at = str(path)
    while True:
        yield at
        if at == "/":
            return
        at = at.rpartition("/")[0] or "/"
