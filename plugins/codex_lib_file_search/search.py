"""Search for the files and folders whose paths match a query best, in the order of Codex.

A search proceeds in steps of limited time, so that it can run on a thread beside an event loop, and ends by not being continued.
"""

from __future__ import annotations

# With thousands of paths, pathlib would make the walk several times slower.
# ruff: noqa: PTH100, PTH116, PTH118
import os
import re
import time
from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from codex_framework.contract.value import Value
from codex_framework.toolkit.regular_files import read_regular
from codex_lib_file_search.fuzzy import Pattern
from codex_lib_file_search.ignore_rules import Folder, IgnoreFile, rules_above

__all__ = ["FileSearch", "FoundFile"]

_KINDS = (".ignore", ".gitignore", "exclude")
_LARGEST_RULES = 1 << 20

_MOST_PATHS = 1_000_000
"""The maximum number of searched paths. A link can point to a whole file system."""

_AT_ONCE = 64
"""The number of paths between two checks of the clock."""

_IN_NAME, _FOLDER_NAME, _FILE_NAME = 1 << 16, 2 << 16, 3 << 16
"""Points for a query that is in the name of a file, or that is the whole name of a folder or of a file."""


class FoundFile(Value):
    """A match.

    Attributes:
        root: The root, unchanged.
        path: The path below the root.
        indices: The matched characters of the path.
    """

    root: str
    path: str
    is_folder: bool
    score: int
    indices: tuple[int, ...]


class FileSearch:
    """A search in folders. Each file is found once, below its deepest root.

    Hidden files are searched, links are followed, and files that ``.gitignore`` and its relatives name are left out. Names that
    are no UTF-8 are left out, too.

    Args:
        limit: How many matches are kept.
    """

    def __init__(self, roots: Sequence[str], environ: Mapping[str, str], limit: int = 50) -> None:
        self._limit = limit
        self._walk = islice(_walk(roots, _global_rules(environ)), _MOST_PATHS)
        self._paths: list[tuple[str, str, bool]] = []
        self._walked = False
        self._ranking = _Ranking("", limit)

    def start(self, query: str) -> None:
        """Begin with another query. The paths that were found are kept."""
        self._ranking = _Ranking(query, self._limit)

    def step(self, seconds: float) -> bool:
        """Search for about that long. Return whether the search is complete."""
        ranking, end = self._ranking, time.monotonic() + seconds
        while True:
            ranking.take(self._paths)
            if self._walked and ranking.position == len(self._paths):
                return True
            if ranking.position == len(self._paths):
                found = list(islice(self._walk, _AT_ONCE))
                self._paths += found
                self._walked = len(found) < _AT_ONCE
            if time.monotonic() >= end:
                return False

    def best(self) -> tuple[FoundFile, ...]:
        """Return the best matches so far, the best one first."""
        return self._ranking.best()


class _Ranking:
    """The best matches of a query among the first paths.

    Attributes:
        position: The number of paths that have been compared.
    """

    def __init__(self, query: str, limit: int) -> None:
        self.position = 0
        self._query = query
        self._pattern = Pattern(query)
        self._limit = limit
        self._best: list[tuple[int, int, str, FoundFile]] = []

    def take(self, paths: Sequence[tuple[str, str, bool]]) -> None:
        """Compare some further paths."""
        further = paths[self.position : self.position + _AT_ONCE]
        self.position += len(further)
        if not self._query:
            return
        for root, path, is_folder in further:
            self._compare(root, path, is_folder=is_folder)

    def _compare(self, root: str, path: str, *, is_folder: bool) -> None:
        """Among paths with equal scores, shorter ones are better."""
        folder, slash, name = path.rpartition("/")
        points = self._name_points(name, is_folder=is_folder)
        full = len(self._best) == self._limit
        if full and (-points - self._pattern.most_points, len(path), path) >= self._best[-1][:3]:
            return
        found = self._pattern.match(name if points else path)
        if found is None:
            return
        key = (-points - found.score, len(path), path)
        if full and key >= self._best[-1][:3]:
            return
        shift = len(folder + slash) if points else 0
        indices = tuple(index + shift for index in found.indices)
        insort(self._best, (*key, FoundFile(root, path, is_folder, points + found.score, indices)), key=_key)
        del self._best[self._limit :]

    def _name_points(self, name: str, *, is_folder: bool) -> int:
        if not self._pattern.is_plain or not self._pattern.is_in(name):
            return 0
        if self._pattern.is_equal(name):
            return _FOLDER_NAME if is_folder else _FILE_NAME
        return 0 if is_folder else _IN_NAME

    def best(self) -> tuple[FoundFile, ...]:
        return tuple(sorted((found for *_, found in self._best), key=lambda found: (-found.score, found.path)))


def _key(entry: tuple[int, int, str, FoundFile]) -> tuple[int, int, str]:
    return entry[:3]


class _Place(Value):
    """A folder to list, with the folders through which a link led there."""

    rules: Folder
    above: _Place | None
    key: tuple[int, int]

    def contains_itself(self, key: tuple[int, int]) -> bool:
        """Return whether a folder is this one or one above."""
        place: _Place | None = self
        while place is not None:
            if place.key == key:
                return True
            place = place.above
        return False


def _walk(roots: Sequence[str], everywhere: IgnoreFile | None) -> Iterator[tuple[str, str, bool]]:
    """Yield root, path, and whether it is a folder. Folders precede their contents."""
    tops: dict[str, str] = {}
    for root in roots:
        tops.setdefault(os.path.abspath(root), root)
    for top, root in tops.items():
        prefix = top.rstrip("/") + "/"
        others = frozenset(other for other in tops if other.startswith(prefix) and other != top)
        for path, is_folder in _walk_root(top, others, everywhere):
            yield root, path[len(prefix) :], is_folder


def _walk_root(top: str, others: frozenset[str], everywhere: IgnoreFile | None) -> Iterator[tuple[str, bool]]:
    try:
        stat = os.stat(top)
        rules = Folder(top, rules_above(top, _KINDS), _KINDS, everywhere)
    except (OSError, ValueError):
        return
    places = deque([_Place(rules, None, (stat.st_dev, stat.st_ino))])
    while places:
        place = places.popleft()
        try:
            entries = os.scandir(place.rules.path)
        except OSError:
            continue
        with entries:
            for entry in entries:
                is_folder = _is_folder(entry)
                if is_folder is None or entry.path in others or place.rules.verdict(entry.path, is_folder=is_folder):
                    continue
                if is_folder:
                    try:
                        found = os.stat(entry.path)
                    except OSError:
                        continue
                    key = (found.st_dev, found.st_ino)
                    if entry.is_symlink() and place.contains_itself(key):
                        continue
                    places.append(_Place(place.rules.child(entry.path), place, key))
                yield entry.path, is_folder


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """Return whether an entry is a folder. None if it is left out: a broken link, or a name that is not UTF-8."""
    try:
        if not entry.name.isascii():
            entry.name.encode()
        if entry.is_symlink():
            entry.stat()
        return entry.is_dir()
    except (OSError, UnicodeEncodeError):
        return None


def _global_rules(environ: Mapping[str, str]) -> IgnoreFile | None:
    """Return the rules of the user for all repositories, if there are any."""
    home = environ.get("HOME", "")
    settings = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    chosen = None
    for file in (os.path.join(home, ".gitconfig"), os.path.join(settings, "git", "config")):
        text = _read(file)
        chosen = chosen or re.search(r'^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$', text, re.IGNORECASE | re.MULTILINE)
    path = chosen[1] if chosen else os.path.join(settings, "git", "ignore")
    text = _read(os.path.join(home, path.removeprefix("~/")))
    return IgnoreFile("/", text) if text else None


def _read(path: str) -> str:
    try:
        return read_regular(path, _LARGEST_RULES).decode("utf-8", "replace")
    except OSError:
        return ""
