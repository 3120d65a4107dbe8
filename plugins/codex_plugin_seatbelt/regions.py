"""From an access to regions: parts of the file system that may be read, or written, each with what is cut out of it.

Regions only ever allow, and each is exact by itself. So nothing depends on which of two statements about a path counts, of which
Seatbelt has its own ideas (a later ``deny`` does not always take back an earlier ``allow``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import PurePosixPath

from codex_framework import AccessMode, FileAccess
from codex_framework.globs import deny_matcher, escaped, static_prefix
from codex_framework.value import Value
from codex_plugin_seatbelt.patterns import residuals

__all__ = ["Region", "Rules", "mode_at", "regions", "rules_of"]

_SEVERITY = {AccessMode.WRITE: 0, AccessMode.READ: 1, AccessMode.DENY: 2}

_READABLE = (AccessMode.READ, AccessMode.WRITE)
_WRITABLE = (AccessMode.WRITE,)


class Rules(Value):
    """An access in the system's own paths.

    Attributes:
        modes: By path; ``/`` is always one of them. The longest decides.
        globs: What matches is denied, with everything below it.
    """

    modes: tuple[tuple[str, AccessMode], ...]
    globs: tuple[str, ...] = ()


class Region(Value):
    """A folder or file with everything below it, but for what is cut out.

    Attributes:
        root: Its path.
        without: Paths below it, each with everything below.
        patterns: Components of patterns below it; what matches is cut out, with everything below.
    """

    root: str
    without: tuple[str, ...] = ()
    patterns: tuple[tuple[str, ...], ...] = ()

    @property
    def pinned(self) -> tuple[str, ...]:
        """The folders in it around what is cut out, itself included: whoever could rename them could rename that too."""
        found: dict[str, None] = {}
        for path in self.without:
            around = (str(above) for above in PurePosixPath(path).parents)
            found |= dict.fromkeys(above for above in around if _within(above, self.root) and above != "/")
        return tuple(sorted(found))


def rules_of(access: FileAccess, real: Callable[[str], str], platform: Iterable[str] = ()) -> Rules:
    """The rules of an access, by the paths that the system knows them by.

    A link that is itself a rule's path (``.git`` may be one) keeps its own rule where that takes something away, and what it leads
    to gets the same, if that is stricter.

    Args:
        real: Resolves links.
        platform: What may also be read where no rule speaks of it and nothing else may be.
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
        spoken = [path for path in modes if path != "/"]
        for path in platform:
            if not any(_within(path, said) for said in spoken):
                modes[path] = AccessMode.READ
    globs = _globs(access.denied_globs, real)
    matches = deny_matcher(globs)
    if matches is not None:
        modes |= dict.fromkeys((path for path in modes if path != "/" and matches(path)), AccessMode.DENY)
    return Rules(tuple(sorted(modes.items())), globs)


def mode_at(rules: Rules, path: str) -> AccessMode:
    """What the longest rule says of a path; patterns are not asked."""
    return _mode(dict(rules.modes), path)


def regions(rules: Rules, *, written: bool) -> tuple[Region, ...]:
    """The regions that may be written, or those that may be read; by path."""
    allowed = _WRITABLE if written else _READABLE
    modes = dict(rules.modes)
    found = []
    for path, mode in rules.modes:
        if mode not in allowed:
            continue
        above = _nearest(modes, path)
        if (
            above is not None
            and modes[above] in allowed
            and not rules.globs
            and not _looks_denied(modes, path, allowed)
        ):
            continue  # a part of that region
        left = dict.fromkeys(parts for glob in rules.globs for parts in residuals(glob, path))
        found.append(Region(path, tuple(_cut_out(modes, path, allowed)), tuple(left)))
    return tuple(found)


def _places(path: str, real: Callable[[str], str]) -> tuple[str, str]:
    """A path with the links above it resolved, and what it leads to."""
    above, _, name = path.rpartition("/")
    if not name:
        return "/", "/"
    return f"{real(above or '/').rstrip('/')}/{name}", real(path)


def _globs(globs: Iterable[str], real: Callable[[str], str]) -> tuple[str, ...]:
    """Each pattern as it is given, and with its beginning resolved."""
    found: dict[str, None] = {}
    for glob in globs:
        start = static_prefix(glob)
        rest = glob.split("/")[start.rstrip("/").count("/") + 1 :]
        found |= {glob: None, "/".join([escaped(real(start)).rstrip("/"), *rest]): None}
    return tuple(found)


def _stricter(modes: dict[str, AccessMode], path: str, mode: AccessMode) -> None:
    if path not in modes or _SEVERITY[mode] > _SEVERITY[modes[path]]:
        modes[path] = mode


def _mode(modes: dict[str, AccessMode], path: str) -> AccessMode:
    for at in (path, *map(str, PurePosixPath(path).parents)):
        if at in modes:
            return modes[at]
    return AccessMode.DENY


def _nearest(modes: Collection[str], path: str) -> str | None:
    """The longest path with a rule above a path."""
    return next((above for above in map(str, PurePosixPath(path).parents) if above in modes and above != path), None)


def _cut_out(modes: dict[str, AccessMode], root: str, allowed: Collection[AccessMode]) -> Iterable[str]:
    """The uppermost paths below a root that are not allowed."""
    for path in sorted(modes):
        if path == root or modes[path] in allowed or not _within(path, root):
            continue
        above = _nearest(modes, path)
        while above is not None and above != root and modes[above] in allowed:
            above = _nearest(modes, above)
        if above == root:
            yield path


def _looks_denied(modes: dict[str, AccessMode], path: str, allowed: Collection[AccessMode]) -> bool:
    """Whether a path lies below one that is cut out, if case did not count: it is cut out as well, then, and needs its own region."""
    return any(
        mode not in allowed and _within(path.lower(), other.lower()) and not _within(path, other)
        for other, mode in modes.items()
    )


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder == "/" else f"{folder}/")
