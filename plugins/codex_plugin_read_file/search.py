"""Lists files whose text matches a pattern. ``grep_files`` runs it if ripgrep is missing or cannot read the pattern.

It finds the same files as ``rg --no-config --no-ignore-global``; a test compares the two.

It is a separate program that :mod:`codex_lib_confinement.standalone` runs: ``--regexp P [--glob G] -- PATH``. The exit status
is the same as ripgrep's: 0 if something was found, 1 if nothing was found, 2 for an error.
"""

from __future__ import annotations

# With thousands of paths, pathlib would make the walk several times slower.
# ruff: noqa: PTH100, PTH113, PTH116, PTH119
import os
import re
import sys
from collections.abc import Callable, Iterator

from codex_framework.toolkit.regular_files import open_regular
from codex_lib_file_search.ignore_rules import Folder, glob_matcher, rules_above

__all__ = ["changed_at", "file_filter", "main", "matching_files"]

_BUFFER = 64 * 1024
"""Bytes that ripgrep reads in one step. A file with a NUL in the first of them is binary."""

_LARGEST = 64 * 1024 * 1024
"""Maximum number of bytes of a file to search. The rest of a larger file is ignored."""


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
    found = [file for file in _walk_files(path) if wanted(os.path.relpath(file, path)) and _fits(file, regex)]
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
    matches = glob_matcher(glob, braces=True)
    return lambda name: bool(matches(name.replace(os.sep, "/"))) is keeps


def _walk_files(top: str) -> Iterator[str]:
    """Yield all files that are neither hidden nor ignored. A rule can include a hidden file. Symlinks are not followed."""
    top = os.path.abspath(top)
    stack = [Folder(top, rules_above(top))]
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
                stack.append(folder.child(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


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
