"""Protected paths decide what is permitted.

Commands and tools may never write to them, under any permissions. This module has the only list.
:func:`~codex_framework.commands.access.file_access` excludes them from everything that a profile, a workspace or an answer of
the user makes writable. Only full access (``danger-full-access``) includes them.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from codex_framework.contract.permissions.file_access import PROTECTED_NAMES
from codex_framework.contract.permissions.links import links_on_the_way
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.value import Value
from codex_framework.toolkit.projects import pointer_line, project_root

__all__ = ["ProtectedPaths", "find_protected_paths", "mode_at"]

_OF_HOME = (
    *("config.toml", "rules", "auth.json", ".env", ".credentials.json", "hooks.json", "requirements.toml"),
    *("AGENTS.md", "AGENTS.override.md", "agents", "hooks", "plugins", "prompts", "skills"),
    *("sessions", "archived_sessions", "session_index.jsonl", "history.jsonl", "tmp/programs"),
)
"""The deciding files in ``$CODEX_HOME``, which stay protected even if a folder in it is the workspace."""

_TEXTS_OF_HOME = ("agents", "prompts", "skills")
"""Folders of texts in ``$CODEX_HOME``. If they are links to a folder elsewhere, the user can work there."""

_OF_PREFIX = ("bin", "sbin", "lib", "lib64", "pyvenv.cfg")
"""The deciding files in the interpreter's prefix, which stay protected even if the prefix itself is the workspace."""

_SYSTEM = "/etc/codex"
"""The administrator's configuration and rules."""


class ProtectedPaths(Value, kw_only=True):
    """The paths that decide what is permitted, as real paths, together with the symlinks to them."""

    paths: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    relative: tuple[str, ...] = ()

    def at(self, cwd: Path) -> ProtectedPaths:
        """Return the paths for a turn in a folder, without relative ones."""
        if not self.relative:
            return self
        bases = dict.fromkeys((str(cwd), str(project_root(cwd))))
        found = _resolve_places(os.path.join(base, path) for path in self.relative for base in bases)  # noqa: PTH118
        return self.evolve(paths=(*self.paths, *found), relative=())

    def make_read_only(self, modes: MutableMapping[str, AccessMode]) -> None:
        """Make these paths read-only in a table of real paths with their modes. Denied paths stay denied."""
        written = [path for path, mode in modes.items() if mode is AccessMode.WRITE]
        if not written:
            return
        for path in written:
            if path in self._exact or f"{path}/".startswith(self._prefixes):
                modes[path] = AccessMode.READ
        for place in self.homes:
            if modes.get(place) is AccessMode.WRITE:
                modes[place] = AccessMode.READ
        folders = tuple(f"{path.rstrip('/')}/" for path in written)
        for place in (*self.prefixes, *self.homes, *self.paths):
            # Most places are not below a writable folder, which takes one comparison to find out.
            if place.startswith(folders) and place not in modes and mode_at(modes, place) is AccessMode.WRITE:
                modes[place] = AccessMode.READ

    @functools.cached_property
    def _exact(self) -> frozenset[str]:
        return frozenset(self.paths)

    @functools.cached_property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(f"{path.rstrip('/')}/" for path in self.paths)


def find_protected_paths(
    codex_home: Path | str | None = None,
    *,
    environ: Mapping[str, str],
    projects: Mapping[str, Any] | None = None,
    code: Iterable[str] = (),
    protected: Iterable[str] = (),
) -> ProtectedPaths:
    """Return the protected paths of this process.

    Args:
        codex_home: The kernel's folder for configuration, rules and sessions. By default, the folder of ``environ``.
        environ: The kernel's environment variables.
        projects: The table ``[projects]``. The settings of trusted projects affect later sessions.
        code: Files and folders with code of plugins, which the kernel runs.
        protected: Other paths that plugins protect. Relative paths are resolved in the working folder of a turn and in the root
            of its project.
    """
    prefixes, own = _process_paths()
    homes = tuple(_resolve_places([str(codex_home)] if codex_home is not None else _homes(environ)))
    within = (*own, *prefixes)
    # A link among them protects only itself, so its target is resolved.
    more = [path for path in code if not any(_is_within(path, place) and not os.path.islink(place) for place in own)]  # noqa: PTH114
    protected = tuple(protected)
    paths = (
        *own,
        *_home_paths(homes),
        *_resolve_places(path for path in more if not any(_is_within(path, f"{place}/lib") for place in within)),
        *_resolve_places(path for path in protected if os.path.isabs(path)),  # noqa: PTH117
        *_project_paths(projects or {}),
        _SYSTEM,
    )
    relative = tuple(path for path in protected if not os.path.isabs(path))  # noqa: PTH117
    return ProtectedPaths(paths=tuple(dict.fromkeys(paths)), homes=homes, prefixes=prefixes, relative=relative)


def _home_paths(homes: Iterable[str]) -> Iterator[str]:
    """Yield the deciding paths of homes. Many users keep such a file in another folder and link it, so links are resolved."""
    for home in homes:
        for name in _OF_HOME:
            path = f"{home}/{name}"
            yield path
            if os.path.islink(path) and name not in _TEXTS_OF_HOME:  # noqa: PTH114
                yield from _resolve_places([path])


def _homes(environ: Mapping[str, str]) -> list[str]:
    named = environ.get("CODEX_HOME")
    if named:
        return [os.path.abspath(named)]  # noqa: PTH100
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    return [f"{home}/.codex"] if os.path.isabs(home) else []  # noqa: PTH117


@functools.cache
def _process_paths() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the interpreter's prefixes, and the paths of its code and the kernel's. They do not change within a process."""
    prefixes = tuple(_resolve_places((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)))
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    code = [package, sys.executable, os.path.dirname(os.__file__)]  # noqa: PTH120
    code += [folder for folder in sys.path if folder and _holds_distributions(folder, prefixes)]
    code += _linked_distributions()
    inner = (f"{prefix}/{name}" for prefix in prefixes for name in _OF_PREFIX)
    return prefixes, tuple(_resolve_places((*code, *(path for path in inner if os.path.lexists(path)))))


def _linked_distributions() -> Iterator[str]:
    """Yield the folders of installed distributions whose files are only linked, as by ``uv`` with ``link-mode = "symlink"``."""
    for folder in filter(os.path.isdir, sys.path):
        for name in os.listdir(folder):  # noqa: PTH208
            if name.endswith(".dist-info") and os.path.islink(metadata := f"{folder}/{name}/METADATA"):  # noqa: PTH114
                real = os.path.dirname(os.path.realpath(metadata))  # noqa: PTH120
                if real.endswith(".dist-info"):
                    yield os.path.dirname(real)  # noqa: PTH120


def _holds_distributions(folder: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether a folder of ``sys.path`` contains installed packages. Source folders, in which users work, do not."""
    if any(_is_within(folder, f"{prefix}/lib") for prefix in prefixes):
        return False  # protected as a part of the prefix
    if not os.path.isdir(folder):  # noqa: PTH112
        return os.path.isfile(folder)  # noqa: PTH113  # a zip file of modules
    with os.scandir(folder) as entries:
        return any(entry.name.endswith(".dist-info") for entry in entries)


def _project_paths(projects: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders with the settings of trusted projects and their worktrees, and their repositories."""
    for folder, entry in projects.items():
        if not isinstance(entry, Mapping) or entry.get("trust_level") != "trusted" or not os.path.isabs(folder):  # noqa: PTH117
            continue
        real = os.path.realpath(folder)
        if not os.path.isdir(real):  # noqa: PTH112
            continue
        yield from links_on_the_way(folder) if real != folder else ()
        for root in (real, *_worktrees(real)):
            for name in PROTECTED_NAMES:
                if name == ".codex" or os.path.lexists(f"{root}/{name}"):
                    yield f"{root}/{name}"


def _worktrees(checkout: str) -> Iterator[str]:
    """Yield the linked worktrees of a checkout that exist, as real paths."""
    folder = f"{checkout}/.git/worktrees"
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:  # it has none
        return
    for name in names:
        pointer = pointer_line(os.path.join(folder, name, "gitdir"))  # noqa: PTH118
        root = os.path.dirname(os.path.realpath(os.path.join(folder, name, pointer)))  # noqa: PTH118, PTH120
        if pointer and os.path.isdir(root):  # noqa: PTH112
            yield root


def _resolve_places(places: Iterable[str]) -> Iterator[str]:
    """Yield the real paths of places, each once, and the symlinks on the way to them."""
    found: dict[str, None] = {}
    for place in places:
        real = os.path.realpath(place)
        found[real] = None
        if real != place:
            found.update(dict.fromkeys(links_on_the_way(place)))
    yield from found


def _is_within(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place.rstrip('/')}/")


def mode_at(modes: Mapping[str, AccessMode], path: str) -> AccessMode | None:
    """Return the mode of the nearest path at or above a path in a table of modes, or None."""
    while path not in modes:
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return None
        path = parent
    return modes[path]
