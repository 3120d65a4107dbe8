"""Conversion of an access to regions: readable or writable parts of the file system, each without its exceptions.

Regions only allow access, and each is exact, so the precedence of statements does not matter. Seatbelt's precedence is unusual:
a later ``deny`` does not always override an earlier ``allow``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import PurePosixPath

from codex_framework import AccessMode, FileAccess
from codex_framework.contract.permissions.globs import deny_matcher, escaped, static_prefix
from codex_framework.contract.value import Value
from codex_lib_confinement.paths import is_below
from codex_plugin_seatbelt.patterns import residuals

__all__ = ["Region", "Rules", "mode_at", "regions", "rules_of"]

_SEVERITY = {AccessMode.WRITE: 0, AccessMode.READ: 1, AccessMode.DENY: 2}

_READABLE = (AccessMode.READ, AccessMode.WRITE)
_WRITABLE = (AccessMode.WRITE,)


class Rules(Value):
    """The rules of an access, with resolved paths.

    Attributes:
        modes: The access mode of each path. ``/`` is always included. The longest path at or above a file applies to it.
        globs: Patterns of denied paths. Everything below a match is denied too.
    """

    modes: tuple[tuple[str, AccessMode], ...]
    globs: tuple[str, ...] = ()


class Region(Value):
    """A folder or file with everything below it, except for its exceptions.

    Attributes:
        root: The path.
        without: Excluded paths below it, each with everything below.
        patterns: Patterns below it, as components. Matches are excluded, each with everything below.
    """

    root: str
    without: tuple[str, ...] = ()
    patterns: tuple[tuple[str, ...], ...] = ()

    @property
    def pinned(self) -> tuple[str, ...]:
        """The folders that contain exceptions, including the root. Renaming such a folder would also move the exceptions."""
        folders: dict[str, None] = {}
        for path in self.without:
            parents = (str(parent) for parent in PurePosixPath(path).parents)
            folders |= dict.fromkeys(parent for parent in parents if _is_within(parent, self.root) and parent != "/")
        return tuple(sorted(folders))


def rules_of(access: FileAccess, real: Callable[[str], str], platform: Iterable[str] = ()) -> Rules:
    """Return the rules of an access, with resolved paths.

    If the path of a restrictive rule is a symlink (``.git`` may be one), the rule applies to the symlink itself. The target gets
    the same mode if that is stricter.

    Args:
        access: The access.
        real: Resolves symlinks.
        platform: System paths that stay readable if reading is denied by default, unless a rule covers them.
    """
    modes: dict[str, AccessMode] = {"/": access.otherwise}
    if any(str(rule.path) == "/" for rule in access.rules):
        del modes["/"]
    targets: dict[str, AccessMode] = {}
    for rule in access.rules:
        named, target = _places(str(rule.path), real)
        if rule.access is AccessMode.WRITE:
            _stricter(modes, target, rule.access)
            continue
        _stricter(modes, named, rule.access)
        if target != named:
            _stricter(targets, target, rule.access)
    for target, mode in targets.items():
        if _SEVERITY[mode] > _SEVERITY[_mode(modes, target)]:
            _stricter(modes, target, mode)
    if _mode(modes, "/") is AccessMode.DENY:
        covered = [path for path in modes if path != "/"]
        for path in platform:
            if not any(_is_within(path, rule) for rule in covered):
                modes[path] = AccessMode.READ
    globs = _globs(access.denied_globs, real)
    matches = deny_matcher(globs)
    if matches is not None:
        modes |= dict.fromkeys((path for path in modes if path != "/" and matches(path)), AccessMode.DENY)
    return Rules(tuple(sorted(modes.items())), globs)


def mode_at(rules: Rules, path: str) -> AccessMode:
    """Return the mode of the longest rule for a path. Patterns are ignored."""
    return _mode(dict(rules.modes), path)


def regions(rules: Rules, *, written: bool) -> tuple[Region, ...]:
    """Return the writable regions if ``written`` is true, otherwise the readable ones, sorted by path."""
    allowed = _WRITABLE if written else _READABLE
    modes = dict(rules.modes)
    result = []
    for path, mode in rules.modes:
        if mode not in allowed:
            continue
        parent = _nearest(modes, path)
        if (
            parent is not None
            and modes[parent] in allowed
            and not rules.globs
            and not _looks_denied(modes, path, allowed)
        ):
            continue  # part of the parent's region
        patterns = dict.fromkeys(parts for glob in rules.globs for parts in residuals(glob, path))
        result.append(Region(path, tuple(_exceptions(modes, path, allowed)), tuple(patterns)))
    return tuple(result)


def _places(path: str, real: Callable[[str], str]) -> tuple[str, str]:
    """Return a path with the symlinks in its parents resolved, and its target."""
    parent, _, name = path.rpartition("/")
    if not name:
        return "/", "/"
    return f"{real(parent or '/').rstrip('/')}/{name}", real(path)


def _globs(globs: Iterable[str], real: Callable[[str], str]) -> tuple[str, ...]:
    """Return each pattern twice: unchanged, and with the symlinks in its static prefix resolved."""
    patterns: dict[str, None] = {}
    for glob in globs:
        start = static_prefix(glob)
        rest = glob.split("/")[start.rstrip("/").count("/") + 1 :]
        patterns |= {glob: None, "/".join([escaped(real(start)).rstrip("/"), *rest]): None}
    return tuple(patterns)


def _stricter(modes: dict[str, AccessMode], path: str, mode: AccessMode) -> None:
    if path not in modes or _SEVERITY[mode] > _SEVERITY[modes[path]]:
        modes[path] = mode


def _mode(modes: dict[str, AccessMode], path: str) -> AccessMode:
    for ancestor in (path, *map(str, PurePosixPath(path).parents)):
        if ancestor in modes:
            return modes[ancestor]
    return AccessMode.DENY


def _nearest(modes: Collection[str], path: str) -> str | None:
    """Return the nearest parent of a path that has a rule, or None."""
    return next(
        (parent for parent in map(str, PurePosixPath(path).parents) if parent in modes and parent != path), None
    )


def _exceptions(modes: dict[str, AccessMode], root: str, allowed: Collection[AccessMode]) -> Iterable[str]:
    """Yield the topmost paths below a root that are not allowed."""
    for path in sorted(modes):
        if path == root or modes[path] in allowed or not _is_within(path, root):
            continue
        parent = _nearest(modes, path)
        while parent is not None and parent != root and modes[parent] in allowed:
            parent = _nearest(modes, parent)
        if parent == root:
            yield path


def _looks_denied(modes: dict[str, AccessMode], path: str, allowed: Collection[AccessMode]) -> bool:
    """Return whether a path would be below an excluded one if case were ignored.

    Such a path is excluded as well, so it needs a separate region.
    """
    return any(
        mode not in allowed and _is_within(path.lower(), other.lower()) and not _is_within(path, other)
        for other, mode in modes.items()
    )


def _is_within(path: str, folder: str) -> bool:
    return path == folder or is_below(path, folder)
