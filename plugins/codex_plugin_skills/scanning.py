"""The search for ``SKILL.md`` files below one folder, within limits."""

from __future__ import annotations

import os
from collections import deque
from typing import NamedTuple

from codex_plugin_skills.events import SkillErrorInfo

__all__ = ["FILE", "MAX_DEPTH", "MAX_ENTRIES", "MAX_FOLDERS", "Found", "Stamp", "search", "stamp"]

FILE = "SKILL.md"

MAX_DEPTH = 6
MAX_FOLDERS = 2000
"""The limits of Codex: levels below the folder, and folders in all."""

MAX_ENTRIES = 100_000
"""Maximum number of directory entries in all. They take a tenth of a second to read."""

Stamp = tuple[str, int, int, int]
"""A path with the inode, size and time of the last change. A size or time of -1 means that there is nothing."""


class Found(NamedTuple):
    """The result of a search.

    Attributes:
        files: The real paths of the files.
        folders: The stamps of all folders that were searched. The result is valid while they are unchanged.
        problems: The omitted parts.
    """

    files: list[str]
    folders: list[Stamp]
    problems: list[SkillErrorInfo]


def stamp(path: str) -> Stamp:
    """Return the stamp of a file or folder."""
    try:
        about = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return (path, 0, -1, -1)
    return (path, about.st_ino, about.st_size, about.st_ctime_ns)


def search(root: str, *, follow: bool) -> Found:
    """Search a folder, breadth first.

    Hidden folders are skipped; a folder that is the target of several symlinks is searched once.

    Args:
        follow: Whether symlinks to folders are followed.
    """
    return _Search(follow=follow).run(os.path.realpath(root))


class _Search:
    def __init__(self, *, follow: bool) -> None:
        self._follow = follow
        self._found = Found([], [], [])
        self._queue: deque[tuple[str, int]] = deque()
        self._seen: set[str] = set()
        self._entries = 0

    def run(self, root: str) -> Found:
        self._add(root, 0)
        while self._queue:
            folder, depth = self._queue.popleft()
            self._found.folders.append(stamp(folder))
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(self._limited(folder, entries), key=lambda entry: entry.name)
            except OSError as error:
                self._report(folder, f"the folder cannot be read: {error.strerror or error}")
                continue
            for entry in listed:
                self._look(entry, f"{folder.rstrip('/')}/{entry.name}", depth + 1)
        return self._found

    def _limited(self, folder: str, entries: os._ScandirIterator[str]) -> list[os.DirEntry[str]]:
        listed = []
        for entry in entries:
            self._entries += 1
            if self._entries > MAX_ENTRIES:
                self._report(folder, f"the search ended here: there are more than {MAX_ENTRIES} files")
                self._queue.clear()
                break
            if not entry.name.startswith("."):
                listed.append(entry)
        return listed

    def _look(self, entry: os.DirEntry[str], path: str, depth: int) -> None:
        try:
            is_link = entry.is_symlink()
            if entry.is_dir():
                if not is_link:
                    self._add(path, depth)
                elif self._follow:
                    self._add(os.path.realpath(path), depth)
            elif entry.name == FILE and not is_link and entry.is_file():
                self._found.files.append(path)
            elif entry.name == FILE and is_link:
                self._report(path, f"it is a symlink. Make its folder a symlink instead, or copy the {FILE}")
        except OSError as error:  # a symlink that leads to itself
            self._report(path, f"it cannot be read: {error.strerror or error}")

    def _add(self, folder: str, depth: int) -> None:
        if depth > MAX_DEPTH or folder in self._seen:
            return
        if len(self._seen) == MAX_FOLDERS:
            self._seen.add("")  # reports it once
            self._report(folder, f"the search ended here: there are more than {MAX_FOLDERS} folders")
        if len(self._seen) < MAX_FOLDERS:
            self._seen.add(folder)
            self._queue.append((folder, depth))

    def _report(self, path: str, message: str) -> None:
        self._found.problems.append(SkillErrorInfo(path, message))
