"""Names files whose text fits a pattern: what ``grep_files`` runs where ripgrep is not installed.

A program of its own, which :mod:`codex_framework.toolkit.standalone` runs: ``--regexp P [--glob G] -- PATH``. Exit status as
ripgrep's: 0 something was found, 1 nothing was, 2 it went wrong.
"""

from __future__ import annotations

# Thousands of paths: pathlib would make the walk several times slower.
# ruff: noqa: PTH100, PTH110, PTH113, PTH116, PTH118, PTH120, PTH123
import os
import re
import sys
from collections.abc import Callable, Iterator

from codex_framework.contract.permissions.globs import alternatives, deny_matcher

__all__ = ["IgnoreFile", "main", "matching_files"]

_Matcher = Callable[[str], object]

_HEAD = 8192
"""Bytes at a file's start that are looked at for a NUL, which means it is binary."""

_LARGEST = 64 * 1024 * 1024
"""Bytes of a file that are searched; the rest of a larger one is left out."""


class IgnoreFile:
    """The rules of one ``.gitignore``.

    Args:
        folder: Where it stands; rules count for what is below.
    """

    def __init__(self, folder: str, text: str) -> None:
        self._folder = folder
        self._rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether the path is ignored (True), expressly kept (False), or not spoken of (None). The last rule counts."""
        relative = os.path.relpath(path, self._folder).replace(os.sep, "/")
        for matches, keeps, folders_only in reversed(self._rules):
            if (is_folder or not folders_only) and matches(relative):
                return not keeps
        return None


def _rule(line: str) -> tuple[_Matcher, bool, bool] | None:
    line = line.rstrip("\r\n")
    if not line.endswith("\\ "):
        line = line.rstrip(" ")
    if not line or line.startswith("#"):
        return None
    keeps = line.startswith("!")
    line = line.removeprefix("!")
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    try:
        return _matcher(line, braces=False), keeps, folders_only
    except ValueError:
        return None  # no glob: git takes such a rule for one that fits nothing


def _matcher(glob: str, *, braces: bool) -> _Matcher:
    """Whether a relative path fits a glob. One without a slash is for names in any folder.

    Raises:
        ValueError: It is no glob.
    """
    patterns = alternatives(glob.removeprefix("/") if "/" in glob else f"**/{glob}", braces=braces)
    matches = deny_matcher(patterns)
    assert matches is not None
    return matches


def matching_files(regex: re.Pattern[bytes], path: str, glob: str | None) -> list[str]:
    """The files below ``path`` (or ``path`` itself) that fit, the last changed one first.

    Args:
        glob: Which files count; one without a slash is for names, one with ``!`` before it leaves files out.

    Raises:
        ValueError: It is no glob.
    """
    wanted = _file_filter(glob)
    files = [path] if os.path.isfile(path) else _walked(path)
    found = [file for file in files if wanted(os.path.relpath(file, path)) and _fits(file, regex)]
    return sorted(found, key=_changed_at, reverse=True)


def _file_filter(glob: str | None) -> Callable[[str], bool]:
    if glob is None:
        return lambda _: True
    keeps = not glob.startswith("!")
    glob = glob.removeprefix("!")
    matches = _matcher(glob, braces=True)
    return lambda name: bool(matches(name.replace(os.sep, "/"))) is keeps


def _walked(top: str) -> Iterator[str]:
    """All files that are neither hidden nor ignored. Symlinks are not followed."""
    stack = [(top, _ignores_above(top))]
    while stack:
        folder, above = stack.pop()
        ignores = [*above, *_ignores_in(folder)]
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue  # closed to us, or gone: as ripgrep with --no-messages
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name.startswith(".") or _ignored(entry.path, ignores, is_folder=is_folder):
                continue
            if is_folder:
                stack.append((entry.path, ignores))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def _ignored(path: str, ignores: list[IgnoreFile], *, is_folder: bool) -> bool:
    for ignore in reversed(ignores):
        verdict = ignore.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _ignores_above(top: str) -> list[IgnoreFile]:
    """The rules of the folders above, up to the repository's; none outside of a repository."""
    folder, found = os.path.abspath(top), []
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return []
        folder = parent
        found.append(_ignores_in(folder))
    found.append(_ignores_in(os.path.join(folder, ".git", "info"), ".git/info/exclude", folder))
    return [ignore for ignores in reversed(found) for ignore in ignores]


def _ignores_in(folder: str, name: str = ".gitignore", root: str | None = None) -> list[IgnoreFile]:
    found = []
    for file in [os.path.join(root or folder, name), *([] if root else [os.path.join(folder, ".ignore")])]:
        try:
            with open(file, encoding="utf-8", errors="replace") as opened:
                found.append(IgnoreFile(root or folder, opened.read()))
        except OSError:
            continue  # there is none, as in most folders
    return found


def _fits(file: str, regex: re.Pattern[bytes]) -> bool:
    try:
        with open(file, "rb") as opened:
            head = opened.read(_HEAD)
            if b"\0" in head:
                return False
            text = head + opened.read(_LARGEST)
    except OSError:
        return False  # not readable: as ripgrep with --no-messages
    return regex.search(text) is not None


def _changed_at(file: str) -> float:
    try:
        return os.stat(file).st_mtime
    except OSError:
        return 0.0  # deleted just now


def main(arguments: list[str]) -> int:
    """Search as the arguments say, and print paths."""
    options = dict(zip(arguments[: arguments.index("--") : 2], arguments[1 : arguments.index("--") : 2], strict=False))
    path = arguments[-1]
    try:
        regex = re.compile(options["--regexp"].encode(), re.MULTILINE)
        found = matching_files(regex, path, options.get("--glob"))
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"error parsing glob {options['--glob']!r}: {error}\n")
        return 2
    sys.stdout.buffer.write(b"".join(os.fsencode(file) + b"\n" for file in found))
    return 0 if found else 1
