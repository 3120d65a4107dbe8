"""Reads and writes the files of a patch, without imports that are slow.

A file is overwritten in place. This keeps its mode, owner, links and attributes, and takes a tenth of the time of a temporary
file and a rename. Its old content needs no additional disk space, so it is restored if writing fails half way.

Paths are resolved once, when the patch is shown for approval. Later, only these real paths are written, so a command that runs at
the same time cannot redirect a write with a symlink.
"""

from __future__ import annotations

import os

from codex_framework.contract.permissions.links import resolved
from codex_framework.toolkit.files import Files, NotPermittedError
from codex_plugin_apply_patch.file_text import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_framework.toolkit.files import Permits
    from codex_plugin_apply_patch.file_text import FileText

__all__ = ["Disk"]

_LARGEST = 256 * 1024 * 1024
"""Maximum size of a file in bytes. Patches are for text, and files are read into memory."""


class Disk:
    """The files as seen from a folder.

    Args:
        cwd: Absolute; relative paths start from it.
        access: The files that may be read. If given, only the files of :meth:`approve` are written. By default, there are no
            limits.
    """

    def __init__(self, cwd: str, *, access: Permits | None = None) -> None:
        self._cwd = cwd
        self._approved: set[str] = set()
        self._files = Files(None if access is None else _Approved(access, self._approved))
        self._real_folders: dict[str, str] = {}
        self._targets: dict[str, str] = {}

    def approve(self, places: Iterable[str]) -> None:
        """Allow writing and removing these real paths."""
        self._approved.update(places)

    def absolute(self, path: str) -> str:
        """Return the absolute path without ``.`` and ``..``, which are removed textually, as in Codex."""
        whole = os.path.normpath(os.path.join(self._cwd, path))  # noqa: PTH118  # pathlib costs the command 5 ms
        return whole[1:] if whole.startswith("//") else whole  # normpath keeps two slashes at the beginning

    def place(self, path: str) -> str:
        """Resolve symlinks in the parent folders of ``path``, but not in its last component."""
        folder, name = os.path.split(path)
        real = self._real_folders.get(folder)
        if real is None:
            real = self._real_folders[folder] = resolved(folder)[0]
        return os.path.join(real, name)  # noqa: PTH118

    def target(self, path: str) -> str:
        """Return the real path of ``path``, with all symlinks resolved."""
        target = self._targets.get(path)
        if target is None:
            place = self.place(path)
            target = resolved(place)[0] if os.path.islink(place) else place  # noqa: PTH114
            self._targets[path] = target
        return target

    def names(self, path: str, *, itself: bool) -> set[str]:
        """Return keys that are equal for paths to the same file: its real path, and its inode number if it has several links.

        Args:
            itself: Whether a symlink counts as itself, not as its target.
        """
        if itself:
            return {self.place(path)}
        target = self.target(path)
        try:
            about = os.stat(target, follow_symlinks=False)  # noqa: PTH116
        except OSError:  # missing or inaccessible, which reading it reports
            return {target}
        return {target, f"{about.st_dev}:{about.st_ino}"} if about.st_nlink > 1 else {target}

    def read(self, path: str) -> FileText:
        """Return a file's text.

        Raises:
            OSError: It cannot be read, is not a regular file, or is too large.
        """
        try:
            data = self._files.read(path, _LARGEST + 1)
        except ValueError:
            raise OSError("the path contains a NUL character") from None
        except IsADirectoryError:
            raise OSError(f"path `{path}` is not a file") from None
        except NotPermittedError as error:
            raise _refusal(error) from None
        if len(data) > _LARGEST:
            raise OSError(f"path `{path}` has more than {_LARGEST:,} bytes and cannot be patched")
        return decode(data)

    def write(self, path: str, text: FileText) -> None:
        """Write this text to the file. Missing folders are created.

        Raises:
            OSError: It could not be written. The old content is unchanged.
        """
        try:
            self._files.write(path, text.encode())
        except IsADirectoryError:
            raise OSError(f"path `{path}` is not a file") from None
        except NotPermittedError as error:
            raise _refusal(error, "it was moved while the patch was applied") from None

    def remove(self, path: str) -> None:
        """Delete a file, or a symlink.

        Raises:
            OSError: It could not be deleted.
        """
        try:
            self._files.remove(path)
        except NotPermittedError as error:
            raise _refusal(error, "it was moved while the patch was applied") from None


class _Approved:
    """Read permissions as in the turn, and write permissions for approved files."""

    def __init__(self, access: Permits, places: set[str]) -> None:
        self._places = places
        self.permits_reading = access.permits_reading
        self.limits = getattr(access, "limits", None)

    def permits_writing(self, path: str, links: Iterable[str] = ()) -> bool:  # noqa: ARG002  # resolved before
        """Return whether a real path was approved."""
        return path in self._places


def _refusal(error: NotPermittedError, otherwise: str = "") -> OSError:
    text = str(error) or otherwise
    return OSError(text) if text else PermissionError(13, "Permission denied")
