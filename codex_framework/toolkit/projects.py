"""The project that a folder belongs to, and whether the user trusts it. ``git`` is not run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "git_root",
    "is_trusted",
    "is_trusted_itself",
    "main_checkout",
    "pointer_line",
    "project_folders",
    "project_root",
    "repository_folders",
    "root_markers",
    "trust_keys",
    "trust_level",
]

_POINTER_LIMIT = 64 * 1024
"""Maximum number of bytes read from a file of git that names a path. A real one has a single line."""


def git_root(folder: Path) -> Path | None:
    """Return the checkout that contains a folder: the nearest folder, going up, with a ``.git`` (folder or file)."""
    return _upwards(folder, (".git",))


def project_root(folder: Path, markers: Sequence[str] = (".git",)) -> Path:
    """Return the nearest folder, going up, that contains one of the markers, else the folder itself."""
    return _upwards(folder, markers) or folder


def project_folders(folder: str, markers: Sequence[str] = (".git",)) -> list[str]:
    """Return the folders from a folder up to the root of its project."""
    folders = [folder]
    root = str(project_root(Path(folder), markers))
    while folders[-1] != root:
        folders.append(os.path.dirname(folders[-1]))  # noqa: PTH120
    return folders


def root_markers(folder: str, markers: Sequence[str] = (".git",)) -> list[str]:
    """Return the paths on which the root of a project depends: the markers that :func:`project_root` looks for."""
    found = _upwards(Path(folder), markers)
    last = None if found is None else str(found)
    paths = [f"{folder}/{marker}" for marker in markers]
    while folder != last and (above := os.path.dirname(folder)) != folder:  # noqa: PTH120
        paths += [f"{above}/{marker}" for marker in markers]
        folder = above
    return paths


def main_checkout(root: Path) -> Path:
    """Return the main checkout of a worktree. For any other checkout, return the checkout itself.

    A worktree's ``.git`` is a file with ``gitdir: <main>/.git/worktrees/<name>``. The main checkout must point back to the
    worktree (in ``<name>/gitdir``). Otherwise any folder could claim a trusted checkout as its own.
    """
    pointer = root / ".git"
    text = pointer_line(str(pointer))  # an unreadable pointer cannot make a folder trusted
    if not text.startswith("gitdir:"):
        return root
    target = Path(os.path.normpath(root / text.removeprefix("gitdir:").strip()))
    if target.parent.name != "worktrees" or target.parent.parent.name != ".git":
        return root
    back = target / pointer_line(str(target / "gitdir"))
    return target.parent.parent.parent if os.path.realpath(back) == os.path.realpath(pointer) else root


def trust_level(projects: Mapping[str, Any], cwd: Path) -> str | None:
    """Return ``trusted`` or ``untrusted``, or None if the user has not decided.

    These folders are looked up in this order: the folder itself, its checkout, and the main checkout of a worktree. Each is
    looked up by its path as given and by its real path.

    Args:
        projects: The table ``[projects]``: ``{path: {"trust_level": ...}}``.
        cwd: The folder.
    """
    for folder in trust_keys(cwd):
        entry = projects.get(folder)
        level = entry.get("trust_level") if isinstance(entry, Mapping) else None
        if isinstance(level, str):
            return level
    return None


def is_trusted(projects: Mapping[str, Any], cwd: Path) -> bool:
    """Return whether the user trusts this project."""
    return trust_level(projects, cwd) == "trusted"


def is_trusted_itself(projects: Mapping[str, Any], folder: Path) -> bool:
    """Return whether the user has trusted exactly this folder, or the main checkout of this linked worktree.

    Settings of other folders in a trusted project may come from commands that were run in the project. So they never loosen
    permissions. The same applies to a worktree inside its main checkout.
    """
    main = main_checkout(folder)
    for name in dict.fromkeys((str(folder), os.path.realpath(folder), str(main), os.path.realpath(main))):
        entry = projects.get(name)
        if isinstance(entry, Mapping) and entry.get("trust_level") == "trusted":
            return main == folder or not folder.is_relative_to(main)
    return False


def trust_keys(cwd: Path) -> list[str]:
    """Return the paths under which a decision about a folder may be stored, in order of precedence."""
    root = git_root(cwd)
    folders = [cwd] if root is None else [cwd, root, main_checkout(root)]
    keys = [name for folder in folders for name in (str(folder), os.path.realpath(folder))]
    return list(dict.fromkeys(keys))


def _upwards(folder: Path, markers: Sequence[str]) -> Path | None:
    start = here = str(folder)
    while True:  # over strings, because each turn does this, and a path takes as long as looking for a marker
        for marker in markers:
            if _marks(f"{here}/{marker}"):
                return folder if here is start else Path(here)
        above = os.path.dirname(here) or "."  # noqa: PTH120
        if above == here:
            return None
        here = above


def _marks(path: str) -> bool:
    """Return whether ``path`` exists and marks a project root.

    An empty ``.git`` does not count: sandboxes create one as a placeholder, and git does not treat it as a repository.
    """
    if not path.endswith("/.git"):
        return os.path.lexists(path)
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:  # a file, or a folder that cannot be listed
        return os.path.lexists(path)


def repository_folders(pointer: str) -> Iterator[str]:
    """Yield the folder that a ``gitdir: FOLDER`` file names, and the repository that a linked worktree there shares."""
    target = pointer_line(pointer)
    if not target.startswith("gitdir:"):
        return
    folder = os.path.realpath(os.path.join(os.path.dirname(pointer), target.removeprefix("gitdir:").strip()))  # noqa: PTH118, PTH120
    yield folder
    common = pointer_line(os.path.join(folder, "commondir"))  # noqa: PTH118
    if common:
        yield os.path.realpath(os.path.join(folder, common))  # noqa: PTH118


def pointer_line(path: str) -> str:
    """Return the first line of a small regular file that names a path; ``""`` if it cannot be read, or names none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        data = os.read(descriptor, _POINTER_LIMIT)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    line = os.fsdecode(data).split("\n", 1)[0].strip()
    return "" if "\0" in line else line
