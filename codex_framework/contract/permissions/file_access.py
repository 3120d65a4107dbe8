"""The resolved permissions of one turn: rules for real paths, of which the longest decides, and the network."""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from codex_framework.contract.permissions.globs import deny_matcher
from codex_framework.contract.permissions.links import resolved
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.value import Value

__all__ = [
    "MINIMAL_PATHS",
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


MINIMAL_PATHS = (
    "/bin",
    "/sbin",
    "/usr",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
)
"""The parts of a Linux system that programs need in order to run (``:minimal``; Codex's list)."""


class NetworkMode(enum.StrEnum):
    """How a command reaches the network."""

    OFF = "off"
    """Not at all."""
    LOOPBACK = "loopback"
    """Only servers on this machine. In a sandbox with its own network, the command reaches only servers that it started."""
    PROXY = "proxy"
    """Only through the gate of its launch (see :class:`codex_framework.contract.roles.networks.NetworkGate`)."""
    ON = "on"
    """Without limits."""


class Protection(enum.StrEnum):
    """A kind of access that a sandbox can prevent, as named in its report, ``sandbox doctor`` and ``[framework] sandbox_floor``."""

    WRITING = "writing"
    """Writing, creating, moving and removing files outside of the roots."""
    METADATA = "metadata"
    """Changing modes, owners, times and attributes outside of the roots."""
    PROTECTED_NAMES = "protected-names"
    """Changing or creating ``.git``, ``.codex`` and similar names in the roots."""
    READING = "reading"
    """Reading paths that the profile denies."""
    PROCESSES = "processes"
    """Seeing and tracing processes that do not belong to the command."""
    SIGNALS = "signals"
    """Sending signals to them."""
    SHARED_MEMORY = "shared-memory"
    """Shared memory, semaphores and message queues of other processes."""
    TERMINALS = "terminals"
    """Access to other terminals, and typing into the user's own."""
    NETWORK = "network"
    """Network access that the profile does not grant."""
    UNIX_SOCKETS = "unix-sockets"
    """Sockets of services on this machine."""
    KERNEL = "kernel"
    """Privileges, and kernel interfaces that ordinary programs do not need."""
    LIFETIME = "lifetime"
    """Processes that outlive their command."""
    PROCESS_COUNT = "process-count"
    """Making processes without end."""
    RESOURCES = "resources"
    """Unlimited memory and file size."""


class ResourceLimits(Value, kw_only=True):
    """Resource limits of a command, for all its descendants together or for each, as the system counts. By default, there is no limit.

    Attributes:
        processes: Processes and threads that exist at the same time.
        memory_bytes: Address space of each process.
        file_bytes: Size of each file that is written.
    """

    processes: int | None = 4096
    memory_bytes: int | None = None
    file_bytes: int | None = None


class PathRule(Value):
    """The access to a path and everything below it, unless a longer rule applies.

    Attributes:
        path: Absolute and real (no symlink in it).
    """

    path: Path
    access: AccessMode


class WritableRoot(Value):
    """A writable folder, with its exceptions.

    Attributes:
        read_only: Paths below it that cannot be written, and perhaps not read: protected names, the target of a ``.git`` file,
            entries.
    """

    root: Path
    read_only: tuple[Path, ...] = ()


class FileAccess(Value, kw_only=True):
    """A thread's permissions, resolved for one turn: symbolic places replaced by real paths. Frozen; plans are cached by it.

    Of all rules (and matches of ``denied_globs``) for a path or its parents, the one with the longest path decides. By default
    everything can be read and nothing can be written.

    Attributes:
        full: No limit at all on files.
        rules: One for each path, by path.
        otherwise: The access where no rule applies: ``read`` or ``deny``.
        denied_globs: Patterns with absolute beginnings (see :mod:`globs`). Matches and everything below them are denied. A rule
            of equal length does not override this.
        glob_depth: How many folder levels are searched for matches. By default, there is no limit.
        network: How the network is reached.
        network_rules: The rules of the gate, if ``network`` is ``proxy``.
        floor: The required protections. Commands are refused if the sandbox cannot enforce all of them.
        private_tmp: Whether commands get a private ``/tmp``, which other programs do not see, if ``/tmp`` is writable.
        fixed: Whether no approval lifts the limits.
        elsewhere: Whether the paths are not of this machine, so that nothing of them is looked up here.
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
    fixed: bool = False
    elsewhere: bool = False

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
        """Whether any file is protected from reading or writing."""
        return not self.full

    @property
    def denies(self) -> bool:
        """Whether any file is protected from reading."""
        if self.full:
            return False
        deny = AccessMode.DENY
        return self.otherwise is deny or bool(self.denied_globs) or any(rule.access is deny for rule in self.rules)

    @property
    def roots(self) -> tuple[WritableRoot, ...]:
        """The writable folders, each with its exceptions."""
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
        """Return the access for a command that was approved to run without the sandbox: only paths denied by name stay denied.

        Fixed limits are unchanged.
        """
        if self.fixed:
            return self
        denied = [rule for rule in self.rules if rule.access is AccessMode.DENY]
        if self.full or not (denied or self.denied_globs):
            return FileAccess(full=True, network=NetworkMode.ON, elsewhere=self.elsewhere)
        kept = [rule for rule in self.rules if any(rule.path.is_relative_to(one.path) for one in denied)]
        rules = {PathRule(Path("/"), AccessMode.WRITE), *kept}
        return FileAccess(
            rules=tuple(sorted(rules, key=lambda rule: rule.path)),
            denied_globs=self.denied_globs,
            glob_depth=self.glob_depth,
            network=NetworkMode.ON,
            floor=self.floor,
            limits=self.limits,
            elsewhere=self.elsewhere,
        )

    @functools.cached_property
    def _lookup(self) -> tuple[Mapping[str, AccessMode], Callable[[str], object] | None]:
        """The rules by path, and the matcher of the patterns."""
        return {str(rule.path): rule.access for rule in self.rules}, deny_matcher(self.denied_globs)

    def mode_of(self, path: Path | str) -> AccessMode:
        """Return the access to ``path``, which is absolute and real. Does not touch the file system."""
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
        """Return whether everything that this permits is also permitted by ``other``.

        Modes change only at the paths of rules, so comparing at the paths of both is sufficient. Patterns are compared by their
        text: this value must contain all patterns of ``other``.
        """
        return self._files_within(other) and self._network_within(other) and self._limits_within(other)

    def _files_within(self, other: FileAccess) -> bool:
        if other.full or self.full:
            return other.full
        if not set(other.denied_globs) <= set(self.denied_globs):
            return False
        paths = {Path("/"), *(rule.path for rule in (*self.rules, *other.rules))}
        return all(_RANKS[self.mode_of(path)] <= _RANKS[other.mode_of(path)] for path in paths)

    def _limits_within(self, other: FileAccess) -> bool:
        most, allowed = self.limits.file_bytes, other.limits.file_bytes
        return (self.fixed or not other.fixed) and (allowed is None or (most is not None and most <= allowed))

    def _network_within(self, other: FileAccess) -> bool:
        order = list(NetworkMode)  # from nothing to everything
        if order.index(self.network) != order.index(other.network):
            return order.index(self.network) < order.index(other.network)
        return self.network is not NetworkMode.PROXY or self.network_rules == other.network_rules

    def denies_by_name(self, path: Path) -> bool:
        """Return whether a rule or a pattern denies ``path`` or one of its parents, regardless of longer rules."""
        modes, matches = self._lookup
        return any(
            modes.get(at) is AccessMode.DENY or (matches is not None and matches(at) is not None)
            for at in _upwards(path)
        )

    def may_write(self, path: Path) -> bool:
        """Return whether ``path`` may be written. Symlinks are resolved first, so a link out of a root gives no access."""
        return self.full or ("\0" not in str(path) and self.permits_writing(*self._resolve(path)))

    def may_read(self, path: Path) -> bool:
        """Return whether ``path`` may be read. Neither the target of a link nor a link on the way may be denied."""
        return self.full or not self.denies or ("\0" not in str(path) and self.permits_reading(*self._resolve(path)))

    def _resolve(self, path: Path) -> tuple[str, Iterable[str]]:
        return (os.path.normpath(path), ()) if self.elsewhere else _resolve_links(path)

    def permits_reading(self, path: str, links: Iterable[str] = ()) -> bool:
        """Return whether a real path may be read that was reached by ``links``. Does not touch the file system."""
        if self.full or not self.denies:
            return True
        return self.mode_of(path) is not AccessMode.DENY and not self._is_any_denied(links)

    def permits_writing(self, path: str, links: Iterable[str] = ()) -> bool:
        """Return whether a real path may be written that was reached by ``links``. Does not touch the file system."""
        return self.full or (self.mode_of(path) is AccessMode.WRITE and not self._is_any_denied(links))

    def _is_any_denied(self, links: Iterable[str]) -> bool:
        return self.denies and any(self.mode_of(link) is AccessMode.DENY for link in links)


_RANKS = {AccessMode.DENY: 0, AccessMode.READ: 1, AccessMode.WRITE: 2}


def _resolve_links(path: Path) -> tuple[str, Iterable[str]]:
    """Return the real path, and the links on the way to it."""
    return resolved(str(path) if path.is_absolute() else str(Path.cwd() / path))


def _upwards(path: Path | str) -> Iterator[str]:
    """Yield a path and its parents, as texts."""
    at = str(path)
    while True:
        yield at
        if at == "/":
            return
        at = at.rpartition("/")[0] or "/"
