"""The files of a patch in another environment, seen as a disk.

The files that the patch needs are read before it is planned, because an environment is slower than a disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from codex_framework import EnvironmentFiles
from codex_framework.toolkit.os_errors import os_error_text
from codex_plugin_apply_patch.disk import Disk
from codex_plugin_apply_patch.file_text import FileText, decode
from codex_plugin_apply_patch.grammar import Hunk, UpdateHunk
from codex_plugin_apply_patch.plan import Step
from codex_plugin_apply_patch.steps import StepFailed

__all__ = ["ElsewhereDisk", "loaded"]

_LARGEST = 64 * 1024 * 1024
"""Maximum size of a file in bytes."""


class ElsewhereDisk(Disk):
    """The files as seen from a folder of an environment."""

    def __init__(self, cwd: str, files: EnvironmentFiles) -> None:
        super().__init__(cwd)
        self._there = files
        self._texts: dict[str, FileText | OSError] = {}
        self._real: dict[str, str] = {}

    async def load(self, path: str) -> None:
        """Read a file, and where it really is."""
        folder, name = os.path.split(path)
        real_folder = await self._there.real_path(folder)
        self._real[folder] = real_folder
        self._real[path] = await self._there.real_path(os.path.join(real_folder, name))  # noqa: PTH118
        try:
            data = await self._there.read(path, _LARGEST)
        except ConnectionError:
            raise
        except OSError as error:
            self._texts[path] = error
            return
        self._texts[path] = decode(data)

    def place(self, path: str) -> str:
        """Resolve symlinks in the parent folders of ``path``, but not in its last component."""
        folder, name = os.path.split(path)
        return os.path.join(self._real[folder], name)  # noqa: PTH118

    def target(self, path: str) -> str:
        """Return the real path of ``path``, with all symlinks resolved."""
        return self._real[path]

    def names(self, path: str, *, itself: bool) -> set[str]:
        """Return keys that are equal for paths to the same file."""
        return {self.place(path) if itself else self.target(path)}

    def read(self, path: str) -> FileText:
        """Return a file's text. Raises OSError."""
        found = self._texts[path]
        if isinstance(found, OSError):
            raise found
        return found

    def approve(self, places: Iterable[str]) -> None:
        """Allow writing and removing these real paths."""
        self._there = self._there.with_writable(tuple(places))

    async def perform(self, step: Step) -> None:
        """Run one step. Raises StepFailed as ``perform`` of this machine's disk."""
        if step.after is None:
            await self._removed(step.path, f"Failed to delete file {step.path}")
            return
        path = step.path if step.move_to is None else step.move_to
        try:
            await self._there.write(self.target(path), step.after.encode())
        except OSError as error:
            raise StepFailed(f"Failed to write file {path}: {os_error_text(error)}") from error
        if step.move_to is not None:
            await self._removed(step.path, f"Failed to remove original {step.path}", half_done=True)

    async def _removed(self, path: str, failure: str, *, half_done: bool = False) -> None:
        try:
            await self._there.remove(self.place(path))
        except OSError as error:
            raise StepFailed(f"{failure}: {os_error_text(error)}", half_done=half_done) from error


async def loaded(cwd: str, files: EnvironmentFiles, hunks: Sequence[Hunk]) -> ElsewhereDisk:
    """Return the disk for a patch. Raises ConnectionError."""
    disk = ElsewhereDisk(cwd, files)
    for hunk in hunks:
        moved = hunk.move_to if isinstance(hunk, UpdateHunk) else None
        for path in (hunk.path, moved):
            if path is not None and "\0" not in path:
                await disk.load(disk.absolute(path))
    return disk
