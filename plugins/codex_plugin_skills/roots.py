"""The folders in which skills are looked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.toolkit.projects import is_trusted, project_folders, root_markers

__all__ = ["ADMIN", "BUNDLED", "Root", "Roots", "find_roots", "root_places"]

ADMIN = "/etc/codex/skills"
"""The administrator's skills."""

BUNDLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bundled")  # noqa: PTH100, PTH118, PTH120
"""The skills that come with this plugin."""

_MARKERS = (".git",)


class Root:
    """A folder with skills. A plain class, because it is imported at the start of each session.

    Attributes:
        path: As configured, not yet resolved.
        scope: ``repo``, ``user``, ``system`` or ``admin``.
    """

    __slots__ = ("path", "scope")

    def __init__(self, path: str, scope: str) -> None:
        self.path = path
        self.scope = scope

    def __repr__(self) -> str:
        return f"Root({self.path!r}, {self.scope!r})"

    @property
    def follows_links(self) -> bool:
        """Whether symlinks to other folders are followed."""
        return self.scope != "system"


class Roots:
    """The folders that exist, in the order of their precedence.

    Attributes:
        used: The folders whose skills are used.
        distrusted: The folders of a project that the user has not trusted.
    """

    __slots__ = ("distrusted", "used")

    def __init__(self, used: Sequence[Root], distrusted: Sequence[str] = ()) -> None:
        self.used = used
        self.distrusted = distrusted


def find_roots(
    cwd: Path | None,
    codex_home: Path,
    home: str,
    config: Mapping[str, Any],
    *,
    further: Sequence[str] = (),
    bundled: bool = True,
    admin: str = ADMIN,
) -> Roots:
    """Return the folders with skills for a working folder.

    Args:
        cwd: None leaves out the skills of projects.
        home: The user's home folder. Empty means that it is not known.
        further: Further folders of the user.
        bundled: Whether the skills of this plugin are used.
    """
    personal = [*_personal_folders(codex_home, home), *further]
    system = [f"{codex_home}/skills/.system", BUNDLED] if _wants_system(config) else []
    own = [Root(path, "user") for path in personal] + [Root(path, "system") for path in system]
    used = [root for root in (*own, Root(admin, "admin")) if os.path.isdir(root.path)]  # noqa: PTH112
    if not bundled:
        used = [root for root in used if root.path != BUNDLED]
    taken = {os.path.realpath(root.path) for root in used}
    if cwd is None:
        return Roots(used)
    folders = _project_folders(cwd, config)
    codex = [path for path in _existing(f"{folder}/.codex/skills" for folder in folders) if _is_new(path, taken)]
    agents = [
        path for path in _existing(f"{folder}/.agents/skills" for folder in reversed(folders)) if _is_new(path, taken)
    ]
    if not codex and not agents:
        return Roots(used)
    projects = config.get("projects")
    if not is_trusted(projects if isinstance(projects, Mapping) else {}, cwd):
        return Roots(used, (*codex, *agents))
    return Roots([*(Root(path, "repo") for path in codex), *used, *(Root(path, "repo") for path in agents)])


def root_places(cwd: Path | None, codex_home: Path, home: str, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths on which the result of :func:`find_roots` depends."""
    yield from _personal_folders(codex_home, home)
    if _wants_system(config):
        yield f"{codex_home}/skills/.system"
    yield ADMIN
    if cwd is not None:
        folders = _project_folders(cwd, config)
        yield from (f"{folder}/{name}/skills" for folder in folders for name in (".codex", ".agents"))
        yield from root_markers(folders[0], _markers(config))


def _personal_folders(codex_home: Path, home: str) -> list[str]:
    return [f"{codex_home}/skills", *([f"{home}/.agents/skills"] if home else [])]


def _wants_system(config: Mapping[str, Any]) -> bool:
    skills = config.get("skills")
    bundled = skills.get("bundled") if isinstance(skills, Mapping) else None
    return not isinstance(bundled, Mapping) or bundled.get("enabled") is not False


def _project_folders(cwd: Path, config: Mapping[str, Any]) -> list[str]:
    """Return the folders from the working folder up to the root of its project."""
    return project_folders(os.path.realpath(cwd), _markers(config))


def _markers(config: Mapping[str, Any]) -> Sequence[str]:
    markers = config.get("project_root_markers", _MARKERS)
    return [name for name in markers if isinstance(name, str)] if isinstance(markers, (list, tuple)) else _MARKERS


def _existing(paths: Iterator[str]) -> Iterator[str]:
    return (path for path in paths if os.path.isdir(path))  # noqa: PTH112


def _is_new(path: str, taken: set[str]) -> bool:
    """Return whether a folder is no root yet. The user's own stay the user's, even if the working folder is the home folder."""
    real = os.path.realpath(path)
    if real in taken:
        return False
    taken.add(real)
    return True
