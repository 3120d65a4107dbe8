"""Reads untrusted files of the workspace, which may be pipes, devices, or larger than any disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from codex_framework.toolkit.files import Files

__all__ = ["copy_file", "find_pipe"]

_PART = 1 << 20

_READ_BY_GIT = frozenset({".gitattributes", ".gitignore"})


def copy_file(source: Path, target: Path, limit: int) -> None:
    """Copy a regular file.

    Raises:
        OSError, NotPermittedError: It is not a regular file, has more bytes than the limit, or cannot be read.
    """
    with open(Files().open(str(source)), "rb") as content:  # noqa: PTH123  # a descriptor
        size = os.fstat(content.fileno()).st_size
        if size > limit:
            raise OSError(0, f"it has {size:,} bytes, and at most {limit:,} are read", str(source))
        with target.open("wb") as file:
            while size > 0 and (part := content.read(min(size, _PART))):  # not more, if it grows meanwhile
                size -= file.write(part)


def find_pipe(worktree: Path, objects: Iterable[Path]) -> str | None:
    """Return the path of a pipe that git opens and waits for: an ignore or attributes file, or anything in a folder of objects."""
    for folder, names in ((worktree, _READ_BY_GIT), *((folder, None) for folder in objects)):
        for entry in _entries(folder):
            if (names is None or entry.name in names) and stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode):
                return entry.path
    return None


def _entries(top: Path) -> Iterator[os.DirEntry[str]]:
    folders = [str(top)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        yield entry
                    elif entry.name != ".git":
                        folders.append(entry.path)
        except OSError:
            continue  # git cannot read it either
