"""The project that a folder belongs to, and whether the user trusts it. ``git`` is not run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["git_root", "is_trusted", "main_checkout", "project_root", "trust_keys", "trust_level"]


def git_root(folder: Path) -> Path | None:
    """Return the checkout that contains a folder: the nearest folder, going up, with a ``.git`` (folder or file)."""
    return _upwards(folder, (".git",))


def project_root(folder: Path, markers: Sequence[str] = (".git",)) -> Path:
    """Return the nearest folder, going up, that contains one of the markers, else the folder itself."""
    return _upwards(folder, markers) or folder


def main_checkout(root: Path) -> Path:
    """Return the main checkout of a worktree. For any other checkout, return the checkout itself.

    A worktree's ``.git`` is a file with ``gitdir: <main>/.git/worktrees/<name>``. The main checkout must point back to the
    worktree (in ``<name>/gitdir``). Otherwise any folder could claim a trusted checkout as its own.
    """
    pointer = root / ".git"
    try:
        if not pointer.is_file():
            return root
        text = pointer.read_text(encoding="utf-8", errors="replace")
        if not text.startswith("gitdir:"):
            return root
        target = Path(os.path.normpath(root / text.removeprefix("gitdir:").strip()))
        if target.parent.name != "worktrees" or target.parent.parent.name != ".git":
            return root
        back = target / (target / "gitdir").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # an unreadable pointer cannot make a folder trusted
        return root
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


def trust_keys(cwd: Path) -> list[str]:
    """Return the paths that a decision about a folder may be stored under, the one that counts first at the front."""
    root = git_root(cwd)
    folders = [cwd] if root is None else [cwd, root, main_checkout(root)]
    keys = [name for folder in folders for name in (str(folder), os.path.realpath(folder))]
    return list(dict.fromkeys(keys))


def _upwards(folder: Path, markers: Sequence[str]) -> Path | None:
    for candidate in (folder, *folder.parents):
        if any(_marks(f"{candidate}/{marker}") for marker in markers):
            return candidate
    return None


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
