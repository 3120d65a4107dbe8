"""Facts about a git repository, read from its files because running git would cost a process per thread."""

from __future__ import annotations

import os
import re
from pathlib import Path

from codex_framework.toolkit.files import Files, NotPermittedError

__all__ = ["git_facts"]

# Compiled on first use, because none of them is needed outside of a repository.
_SECTION = r'(?i)\[\s*remote\s+"origin"\s*\]'
_URL = r"(?i)url\s*=\s*(.+)"
_COMMIT = r"[0-9a-f]{40}|[0-9a-f]{64}"
_LOGIN = r"(?<=://)[^/@]*@"

_SMALL = 4096
_LARGE = 64 * 1024 * 1024
"""Maximum size in bytes of files that are read: files that name a path, a branch or a commit, and lists of them."""


def git_facts(cwd: Path) -> dict[str, str]:
    """Return ``commit_hash``, ``branch`` and ``repository_url`` (of the remote ``origin``), if known.

    The result is empty outside of a repository and if the repository cannot be read; no error is raised. A login in an
    http URL is removed.
    """
    folder = _git_folder(cwd)
    if folder is None:
        return {}
    shared = _common_folder(folder)
    facts: dict[str, str] = {}
    head = _text(folder / "HEAD")
    reference = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
    commit = _commit_of(folder, shared, reference) if reference else head
    if re.fullmatch(_COMMIT, commit):
        facts["commit_hash"] = commit
    branch = reference.removeprefix("refs/heads/")
    if reference.startswith("refs/heads/") and branch != ".invalid":  # the placeholder in reftable repositories
        facts["branch"] = branch
    url = _origin(_text(shared / "config", _LARGE))
    if url:
        facts["repository_url"] = url
    return facts


def _git_folder(cwd: Path) -> Path | None:
    for folder in (cwd, *cwd.parents):
        git = f"{folder}/.git"
        if os.path.isfile(f"{git}/HEAD"):  # noqa: PTH113
            return folder / ".git"
        pointer = _text(folder / ".git") if os.path.isfile(git) else ""  # noqa: PTH113
        if pointer.startswith("gitdir:"):
            return folder / pointer.removeprefix("gitdir:").strip()
    return None


def _common_folder(folder: Path) -> Path:
    """Return the folder that a linked worktree shares with its repository."""
    common = _text(folder / "commondir")
    return folder / common if common else folder


def _commit_of(folder: Path, shared: Path, reference: str) -> str:
    if ".." in reference:
        return ""
    for base in (folder, shared):
        commit = _text(base / reference)
        if commit:
            return commit
    for line in _text(shared / "packed-refs", _LARGE).splitlines():
        commit, _, name = line.partition(" ")
        if name == reference:
            return commit
    return ""


def _origin(config: str) -> str:
    inside = False
    for raw in config.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = re.match(_SECTION, line) is not None
        elif inside and (match := re.fullmatch(_URL, line)):
            url = match.group(1).strip().strip('"')
            return re.sub(_LOGIN, "", url) if url.startswith(("http://", "https://")) else url
    return ""


def _text(path: Path, limit: int = _SMALL) -> str:
    """Return the stripped content of a text file; ``""`` if it cannot be read or is larger than ``limit`` bytes."""
    try:
        data = Files().read(str(path), limit + 1)
        return data.decode("utf-8", "surrogateescape").strip() if len(data) <= limit else ""
    except (OSError, ValueError, NotPermittedError):
        return ""
