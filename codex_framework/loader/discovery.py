"""Finds the installed plugins: the entry points of one group, without importing anything.

Importing ``importlib_metadata`` takes longer (about 20 ms) than the rest of loading, and only one small file per distribution is
needed. So the folders on ``sys.path`` are read directly, by the same rules: of two distributions with the same normalised name,
the first on the path is used. If distributions may be elsewhere (in a zip file on the path, or found by an import hook),
``importlib_metadata`` is used.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from codex_framework.contract.value import Value

__all__ = ["BUNDLED", "EntryPointLike", "PluginSource", "discover", "source_of"]

BUNDLED = "codex-framework"
"""The distribution whose plugins are the bundled ones."""

_GROUPS = "codex_framework"
"""The start of the names of the groups that can be looked up."""

_EXTRAS = r"^(?P<target>[^\[]*?)\s*(\[(?P<extras>[^\]]*)\])?\s*$"
_PLAIN_FINDERS = ("_frozen_importlib_external.PathFinder", "importlib_metadata.MetadataPathFinder")
"""The finders that search folders. ``importlib_metadata`` adds its own when it is imported."""

_SUFFIXES = (".dist-info", ".egg-info")


class EntryPointLike(Protocol):
    """The required members of an ``EntryPoint``, as of ``importlib.metadata``. Its ``dist`` is used if it has one."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    @property
    def value(self) -> str:
        """The location of the plugin: ``package.module`` or ``package.module:attribute``, optionally with ``[extra]``."""
        ...


class PluginSource(Value, kw_only=True):
    """An installed plugin that is not imported yet.

    Attributes:
        name: The entry-point name.
        target: ``package.module`` or ``package.module:attribute``.
        extras: The extras of the distribution that the entry point requires.
        distribution: The distribution's normalised name.
        location: The folder with the distribution's metadata; empty if unknown.
        file: The absolute path of a one-file plugin; empty for others.
        named_in: The source that names a one-file plugin: a configuration file, ``-c`` or ``--plugin``.
        named_line: The line of ``named_in``, if it is a file.
        passed: Whether the program passed the path of a one-file plugin. Otherwise the configuration names it.
    """

    name: str
    target: str
    distribution: str = ""
    version: str = ""
    extras: tuple[str, ...] = ()
    location: str = ""
    file: str = ""
    named_in: str = ""
    named_line: int | None = None
    passed: bool = False

    @property
    def bundled(self) -> bool:
        """Whether it is part of this package."""
        return self.distribution == BUNDLED

    @property
    def origin(self) -> str:
        """Distribution and version, or the file of a one-file plugin, for display."""
        return self.file or f"{self.distribution} {self.version}".strip()


def discover(group: str, path: Sequence[str] | None = None) -> list[PluginSource]:
    """Return the plugins of a group, bundled ones first, then by name. A plugin that is installed twice appears once.

    Args:
        group: Its name, which begins with ``codex_framework``.
        path: Folders to look in instead of ``sys.path``.
    """
    folders = list(sys.path if path is None else path)
    if _plain(folders):
        found = list(_scan(group, folders))
    else:
        from importlib_metadata import distributions

        unique: dict[str, Any] = {}
        for dist in distributions(path=folders):
            if name := _name_of(dist):
                unique.setdefault(name, dist)
        found = [source_of(entry) for dist in unique.values() for entry in dist.entry_points if entry.group == group]
    distinct = {(source.name, source.target, source.extras): source for source in reversed(found)}
    return sorted(distinct.values(), key=lambda source: (not source.bundled, source.name, source.distribution))


def source_of(entry: EntryPointLike) -> PluginSource:
    """Return the source for an entry point of ``importlib_metadata`` or a similar object."""
    target, extras = _split(entry.value)
    dist = getattr(entry, "dist", None)
    if dist is None:
        return PluginSource(name=entry.name, target=target, extras=extras)
    return PluginSource(
        name=entry.name,
        target=target,
        extras=extras,
        distribution=_name_of(dist),
        version=dist.version or "",
        location=str(getattr(dist, "_path", "") or ""),
    )


def normalise_name(name: str) -> str:
    """Return a distribution's name in the form that package indexes compare."""
    name = name.replace("_", "-").replace(".", "-").lower()
    while "--" in name:
        name = name.replace("--", "-")
    return name


def _name_of(dist: Any) -> str:
    """Return the normalised name of a distribution, or an empty string (after an incomplete removal)."""
    try:
        return normalise_name(dist.metadata["Name"] or "")
    except (LookupError, OSError):  # there is no metadata, or no name in it
        return ""


def _plain(folders: Iterable[str]) -> bool:
    """Return whether distributions can only be in plain folders."""
    for finder in sys.meta_path:
        if hasattr(finder, "find_distributions") and _finder_name(finder) not in _PLAIN_FINDERS:
            return False
    return not any(os.path.isfile(folder) for folder in folders)  # noqa: PTH113  # str all the way: this is start-up


def _finder_name(finder: object) -> str:
    kind = finder if isinstance(finder, type) else type(finder)
    return f"{kind.__module__}.{kind.__qualname__}"


def _scan(group: str, folders: Iterable[str]) -> Iterator[PluginSource]:
    seen: set[str] = set()
    for folder in dict.fromkeys(folders):
        for dist, groups in _distributions(folder or "."):
            if dist not in seen:
                seen.add(dist)
                yield from groups.get(group, ())


_Groups = Mapping[str, Sequence[PluginSource]]
_Distributions = Sequence[tuple[str, _Groups]]

_KEPT: dict[str, tuple[tuple[int, ...], _Distributions]] = {}
"""The distributions of folders, for other groups and the next kernels of this process, with the state of the folder.

Installers replace the folder of a distribution's metadata, which changes the folder around it.
"""

_SETTLED_NS = 2_000_000_000
"""How long ago, in nanoseconds, a folder's last change must be. A further change could otherwise have the same time."""


def _distributions(folder: str) -> _Distributions:
    """Return the distributions in a folder by name, each with its entry points by group."""
    try:
        status = os.stat(folder)  # noqa: PTH116
        state = (status.st_mtime_ns, status.st_ino, status.st_dev)
        kept = _KEPT.get(folder)
        if kept is not None and kept[0] == state:
            return kept[1]
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(_SUFFIXES))
    except OSError:
        return ()  # paths that do not exist are common on sys.path
    found: list[tuple[str, _Groups]] = []
    for name in names:
        stem, _, version = name.rpartition(".")[0].partition("-")
        dist = normalise_name(stem)
        found.append((dist, _of_distribution(os.path.join(folder, name), dist, version)))  # noqa: PTH118
    if time.time_ns() - status.st_mtime_ns > _SETTLED_NS and os.path.isabs(folder):  # noqa: PTH117
        _KEPT[folder] = (state, found)
    return found


def _of_distribution(location: str, dist: str, version: str) -> _Groups:
    try:
        with open(f"{location}/entry_points.txt", encoding="utf-8-sig", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return {}  # most distributions have none, and an .egg-info that is a file cannot contain one
    if _GROUPS not in text:
        return {}
    if location.endswith(".egg-info"):
        version = _egg_version(location) or version.partition("-")[0]
    found: dict[str, list[PluginSource]] = {}
    for group, name, value in _entries(text):
        target, extras = _split(value)
        found.setdefault(group, []).append(
            PluginSource(name=name, target=target, distribution=dist, version=version, extras=extras, location=location)
        )
    return found


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield group, name and value of each entry point that can be looked up."""
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = line[1:-1].strip()
        elif section.startswith(_GROUPS) and "=" in line:
            name, _, value = line.partition("=")
            yield section, name.strip(), value.strip()


def _split(value: str) -> tuple[str, tuple[str, ...]]:
    match = re.match(_EXTRAS, value) if "[" in value else None
    if match is None:
        return value.strip(), ()
    extras = (match["extras"] or "").split(",")
    return match["target"].strip(), tuple(extra.strip() for extra in extras if extra.strip())


def _egg_version(location: str) -> str:
    try:
        with open(f"{location}/PKG-INFO", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return next((line[8:].strip() for line in file if line.startswith("Version:")), "")
    except OSError:
        return ""
