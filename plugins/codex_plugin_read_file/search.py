"""Lists files whose text matches a pattern. ``grep_files`` runs it if ripgrep is missing or cannot read the pattern.

It finds the same files as ``rg --no-config --no-ignore-global``; a test compares the two.

It is a separate program that :mod:`codex_lib_confinement.standalone` runs: ``--regexp P [--glob G] -- PATH``. The exit status is
that of ripgrep: 0 if something was found, 1 if nothing was found, 2 for an error.
"""

from __future__ import annotations

# With thousands of paths, pathlib would make the walk several times slower.
# ruff: noqa: PTH100, PTH110, PTH113, PTH116, PTH118, PTH119, PTH120
import os
import re
import sys
from collections.abc import Callable, Iterator

from codex_framework.contract.permissions.globs import alternatives, deny_matcher
from codex_framework.toolkit.regular_files import open_regular, read_regular

__all__ = ["IgnoreFile", "changed_at", "file_filter", "main", "matching_files"]

_Matcher = Callable[[str], object]

_BUFFER = 64 * 1024
"""Bytes that ripgrep reads at once. A file with a NUL in the first of them is binary."""

_LARGEST_RULES = 1024 * 1024
"""Maximum size of a file of rules, in bytes. A larger one is ignored."""

_LARGEST = 64 * 1024 * 1024
"""Maximum number of bytes of a file to search. The rest of a larger file is ignored."""

_BY_RANK = (".rgignore", ".ignore", ".gitignore", "exclude")
"""Files with rules, in order of precedence wherever they are. Among files of the same name, the nearest one comes first."""

_OF_GIT = (".gitignore", "exclude")


class IgnoreFile:
    """The rules of one ``.gitignore``.

    Args:
        folder: The folder that contains it. Its rules apply below this folder.
    """

    def __init__(self, folder: str, text: str) -> None:
        self._folder = folder
        self._rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether the path is ignored (True), explicitly included (False), or not matched (None). The last rule decides."""
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
        return None  # an invalid glob, which matches nothing in git


def _matcher(glob: str, *, braces: bool) -> _Matcher:
    """Return a function that matches relative paths against a glob. A glob without a slash matches names in any folder.

    Raises:
        ValueError: The glob is invalid.
    """
    patterns = alternatives(glob.removeprefix("/") if "/" in glob else f"**/{glob}", braces=braces)
    matches = deny_matcher(patterns)
    assert matches is not None
    return matches


def matching_files(regex: re.Pattern[str], path: str, glob: str | None) -> list[str]:
    """Return the matching files below ``path`` (or ``path`` itself), the most recently changed first.

    Args:
        glob: The files to search. A glob without a slash matches names, and one that starts with ``!`` excludes files.

    Raises:
        ValueError: The glob is invalid.
    """
    wanted = file_filter(glob)
    if os.path.isfile(path):
        return [path] if wanted(os.path.basename(path)) and _fits(path, regex, binary=True) else []
    found = [file for file in _walked(path) if wanted(os.path.relpath(file, path)) and _fits(file, regex)]
    return sorted(found, key=changed_at)


def file_filter(glob: str | None) -> Callable[[str], bool]:
    """Return a function that matches paths, relative to the searched folder, against a glob.

    Raises:
        ValueError: The glob is invalid.
    """
    if not glob:
        return lambda _: True
    keeps = not glob.startswith("!")
    glob = glob.removeprefix("!")
    matches = _matcher(glob, braces=True)
    return lambda name: bool(matches(name.replace(os.sep, "/"))) is keeps


class _Folder:
    """A folder with its rules and those of the folders above."""

    def __init__(self, path: str, above: _Folder | None) -> None:
        self.path = path
        self.above = above
        self.is_root = os.path.exists(os.path.join(path, ".git"))
        self.in_repository: bool = self.is_root or (above is not None and above.in_repository)
        self.files = {kind: file for kind in _BY_RANK if (file := self._rules(kind)) is not None}

    def _rules(self, kind: str) -> IgnoreFile | None:
        if kind in _OF_GIT and not self.in_repository:
            return None
        name = os.path.join(".git", "info", "exclude") if kind == "exclude" else kind
        try:
            data = read_regular(os.path.join(self.path, name), _LARGEST_RULES)
        except OSError:
            return None  # there is none, as in most folders
        return IgnoreFile(self.path, data.decode("utf-8", "replace"))

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return the same as :meth:`IgnoreFile.verdict`, by all rules that apply here."""
        for kind in _BY_RANK:
            folder: _Folder | None = self
            while folder is not None:
                rules = folder.files.get(kind)
                found = None if rules is None else rules.verdict(path, is_folder=is_folder)
                if found is not None:
                    return found
                folder = None if kind in _OF_GIT and folder.is_root else folder.above
        return None


def _walked(top: str) -> Iterator[str]:
    """Yield all files that are neither hidden nor ignored. A rule can include a hidden file. Symlinks are not followed."""
    stack = [_Folder(top, _above(top))]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(folder.path), key=lambda entry: entry.name)
        except OSError:
            continue  # not readable, or removed: skipped like in ripgrep with --no-messages
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            verdict = folder.verdict(entry.path, is_folder=is_folder)
            if verdict or (verdict is None and entry.name.startswith(".")):
                continue
            if is_folder:
                stack.append(_Folder(entry.path, folder))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def _above(top: str) -> _Folder | None:
    """Return the folders above, starting with the root of the file system."""
    folder = None
    path = os.path.abspath(top)
    parents = []
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        parents.append(path)
    for parent in reversed(parents):
        folder = _Folder(parent, folder)
    return folder


def _fits(file: str, regex: re.Pattern[str], *, binary: bool = False) -> bool:
    """Return whether a line of a file matches.

    Args:
        binary: Whether to search a binary file too, which applies to a file that is named itself.
    """
    try:
        with open(file, "rb", opener=open_regular) as opened:
            data = opened.read(_BUFFER)
            if not binary and b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
                return False
            data += opened.read(_LARGEST)
    except OSError:
        return False  # not readable: skipped like in ripgrep with --no-messages
    return _has_line(_text(data, binary=binary), regex)


def _text(data: bytes, *, binary: bool) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if binary:
        data = data.replace(b"\0", b"\n")
    elif (end := data.find(b"\0")) >= 0:
        data = data[: end - end % _BUFFER]  # at a NUL, ripgrep drops the whole buffer that contains it
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _has_line(text: str, regex: re.Pattern[str]) -> bool:
    found = regex.search(text)
    if found is None or "\n" not in found[0] or "\\n" in regex.pattern or "\n" in regex.pattern:
        return found is not None
    # The match crosses the end of a line, as with \\s and [^x]. Only matches within a line count.
    return any(regex.search(line) for line in text.split("\n"))


def changed_at(file: str) -> tuple[int, str]:
    """Return the sort key of a file: the most recently changed first, then by name."""
    try:
        return -os.stat(file).st_mtime_ns, file
    except OSError:
        return 0, file


def main(arguments: list[str]) -> int:
    """Search according to the arguments, and print paths."""
    options = dict(zip(arguments[: arguments.index("--") : 2], arguments[1 : arguments.index("--") : 2], strict=False))
    path = arguments[-1]
    try:
        regex = re.compile(options["--regexp"], re.MULTILINE)
        found = matching_files(regex, path, options.get("--glob"))
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"error parsing glob {options['--glob']!r}: {error}\n")
        return 2
    sys.stdout.buffer.write(b"".join(os.fsencode(file) + b"\n" for file in found))
    return 0 if found else 1
