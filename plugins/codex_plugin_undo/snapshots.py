"""Snapshots of the files below a folder: commits in the plugin's own repository, which stores whole files byte by byte.

Nothing is written into the user's repository: its index, refs and objects are not changed. Existing objects are not stored
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from codex_framework import Value
from codex_framework.toolkit.files import Files, NotPermittedError
from codex_framework.toolkit.projects import repository_folders
from codex_plugin_undo.git import Git, SnapshotError
from codex_plugin_undo.placing import folder_of, place
from codex_plugin_undo.settings import Settings
from codex_plugin_undo.workspace_files import copy_file

__all__ = ["Restored", "Snapshot", "SnapshotError", "Store"]

_MIB = 1 << 20
_DAY_S = 86_400
_GITLINK = b"160000"
_REFS = "refs/snapshots"
_LARGEST_EXCLUDE = _MIB
_LARGEST_INDEX = 512 * _MIB
_LARGEST_TRACKED = 1024 * _MIB
_ATTRIBUTES = b"* -text !eol -ident -filter -working-tree-encoding\n"
"""Files are stored and restored byte by byte, regardless of the workspace's ``.gitattributes``."""


class Snapshot(Value):
    """A snapshot.

    Attributes:
        commit: Its id.
        notes: The omitted parts, one sentence each.
    """

    commit: str
    notes: tuple[str, ...] = ()


class Restored(Value):
    """The result of a restoration.

    Attributes:
        before: The snapshot of the previous files, which is only referenced by its id.
        written: The number of written files.
        removed: The number of removed files.
    """

    before: str
    written: int
    removed: int

    @property
    def summary(self) -> str:
        """One sentence."""
        if not self.written and not self.removed:
            return "The files are already as they were before the turn."
        return f"Restored {self.written} and removed {self.removed} files. Snapshot {self.before[:12]} contains the previous versions."


class Store:
    """The snapshots of one repository.

    Args:
        home: The folder with the snapshots of all repositories.
        root: The worktree's root.
        folder: The folder in it that is snapshotted, with everything below.
        owner: The id of the thread. Its snapshots share an index, so that only changed files are read.
        search_path: The folders in which git is looked for.
    """

    def __init__(self, home: Path, root: Path, folder: Path, settings: Settings, owner: str, search_path: str) -> None:
        self._root = root
        self._folder = folder
        self._settings = settings
        self._home = home / hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._owner = "".join(character for character in owner if character.isalnum() or character == "-") or "thread"
        self._theirs = _repository(root)
        objects = [path for place in self._theirs if (path := place / "objects").is_dir()]
        self._git = Git(self._home, root, folder, objects, search_path)
        place = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
        self._index = self._home / "indexes" / f"{self._owner}-{place}"

    async def take(self, label: str) -> Snapshot:
        """Take a snapshot.

        Raises:
            SnapshotError: It cannot be taken.
        """
        try:
            await self._prepare()
            chosen = await self._files()
            await self._fill(chosen.files)
            if not await self._complete():
                self._index.unlink(missing_ok=True)
                await self._fill(chosen.files)
            tree = (await self._git.run("write-tree", index=self._index)).decode().strip()
            message = json.dumps({"label": label, "left_out": [os.fsdecode(path) for path in chosen.left_out]})
            commit = (await self._git.run("commit-tree", tree, "-F", "-", given=message.encode())).decode().strip()
            await self._git.run("update-ref", f"{_REFS}/{self._index.name}/{int(time.time())}-{commit[:12]}", commit)
        except OSError as error:
            raise SnapshotError(f"{error.filename or self._home}: {error.strerror}") from error
        return Snapshot(commit, chosen.notes)

    async def restore(self, commit: str) -> Restored:
        """Restore the files of a snapshot, after taking a snapshot of the current files.

        Files that the snapshot left out (ignored, large, in nested repositories) are not touched.

        Raises:
            SnapshotError: The snapshot is gone, or a file could not be written.
        """
        if not self._home.is_dir():
            raise SnapshotError(f"{self._home}, where it was kept, does not exist any more")
        try:
            left_out = _left_out(await self._git.run("cat-file", "commit", commit))
        except SnapshotError:
            raise SnapshotError(f"snapshot {commit[:12]} does not exist any more") from None
        before = (await self.take(f"before going back to {commit}")).commit
        changes = await self._changes(before, commit)
        wanted = [path for status, path in changes if status != b"D"]
        if wanted:
            await self._write(wanted, commit)
        gone = [
            path for status, path in changes if status == b"D" and not left_out.intersection((path, *_parents(path)))
        ]
        removed = await asyncio.to_thread(self._remove, await self._paths_not_ignored(gone))
        return Restored(before, len(wanted), removed)

    async def _write(self, paths: Sequence[bytes], commit: str) -> None:
        """Write files as a snapshot has them, by way of a folder that no command can write."""
        index = self._index.with_suffix(".restored")
        made = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".restored-", dir=self._home))
        try:
            await self._git.run("read-tree", commit, index=index)
            await self._git.run(
                "checkout-index", "-z", "-f", "--stdin", f"--prefix={made}/", given=_lines(paths), index=index
            )
            await asyncio.to_thread(place, made / self._folder.relative_to(self._root), self._folder, paths)
        finally:
            index.unlink(missing_ok=True)
            await asyncio.to_thread(shutil.rmtree, made, ignore_errors=True)

    async def _paths_not_ignored(self, paths: Sequence[bytes]) -> list[bytes]:
        """Return the paths that the ignore files do not exclude, as these files are now that they are restored.

        A file that was ignored before the turn is in no snapshot. It must not be removed because the turn changed ``.gitignore``.
        """
        if not paths:
            return []
        named = [b"./" + path for path in paths]  # so that no name looks like a pattern of git's
        output = await self._git.run(
            "check-ignore", "-z", "--no-index", "--stdin", given=_lines(named), accepted=(0, 1), index=self._index
        )
        ignored = set(output.split(b"\0"))
        return [path for path, name in zip(paths, named, strict=True) if name not in ignored]

    async def _prepare(self) -> None:
        if not self._home.is_dir():
            await self._create()
        self._index.parent.mkdir(exist_ok=True)
        info = self._home / "info"
        (info / "attributes").write_bytes(_ATTRIBUTES)
        (info / "exclude").write_bytes(await asyncio.to_thread(self._their_excludes))
        self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)  # of a git that was killed
        if not self._index.exists():
            await self._expire()
            latest = max(
                self._index.parent.glob(f"*-{self._index.name.rpartition('-')[2]}"),
                key=_modification_time,
                default=None,
            )
            if latest is not None:
                await asyncio.to_thread(
                    shutil.copyfile, latest, self._index
                )  # what it knows of files need not be read again

    async def _create(self) -> None:
        """Create git's folder, whole or not at all: other threads and processes may create it too."""
        self._home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=self._home.parent))
        try:
            await self._git.run("init", "--quiet", "--template=", folder=made)
            (made / "info").mkdir(exist_ok=True)
            try:
                made.rename(self._home)
            except OSError:
                if not self._home.is_dir():
                    raise
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _their_excludes(self) -> bytes:
        for folder in self._theirs:
            with contextlib.suppress(OSError, NotPermittedError):
                return Files().read(str(folder / "info" / "exclude"), _LARGEST_EXCLUDE)
        return b""

    async def _expire(self) -> None:
        """Remove snapshots that are older than the configured number of days."""
        oldest = time.time() - self._settings.keep_days * _DAY_S
        listed = await self._git.run("for-each-ref", "--format=%(refname)", _REFS)
        names = listed.decode(errors="replace").splitlines()
        old = [name for name in names if _second_of(name) < oldest]
        if not old:
            return
        await self._git.run("update-ref", "--stdin", given="".join(f"delete {name}\n" for name in old).encode())
        kept = {name.split("/")[2] for name in names if name not in old}
        for path in self._index.parent.iterdir():
            if path.name not in kept:  # what it names is about to be removed
                path.unlink(missing_ok=True)
        await self._git.run("prune", "--expire=1.hour.ago")

    async def _files(self) -> _Chosen:
        index = self._index.with_suffix(".theirs")
        try:
            tracked = await self._tracked_paths(index)
            others = await self._git.run("ls-files", "-z", "--others", "--exclude-standard", index=index)
        finally:
            index.unlink(missing_ok=True)
        untracked = [path for path in others.split(b"\0") if path and not path.endswith(b"/")]
        return await asyncio.to_thread(self._chosen, tracked, untracked)

    async def _tracked_paths(self, index: Path) -> list[bytes]:
        """Return the paths that the user's repository tracks, read from a copy of its index."""
        try:
            await asyncio.to_thread(copy_file, self._theirs[0] / "index", index, _LARGEST_INDEX)
            staged = await self._git.run("ls-files", "-z", "--stage", index=index)
        except FileNotFoundError:  # a new repository
            return []
        except (OSError, NotPermittedError) as error:
            raise SnapshotError(f"the index of the repository cannot be read: {error}") from None
        except SnapshotError:  # a split index
            index.unlink(missing_ok=True)
            return []
        entries = (line.partition(b"\t") for line in staged.split(b"\0") if line)
        return [path for head, _, path in entries if not head.startswith(_GITLINK)]

    def _chosen(self, tracked: Sequence[bytes], untracked: Sequence[bytes]) -> _Chosen:
        base = os.fsencode(self._folder)
        files: list[bytes] = []
        left_out: dict[bytes, str] = {}
        crowded = _crowded_folders(tracked, untracked, self._settings.most_untracked_files)
        limit = self._settings.largest_untracked_mib * _MIB

        @cache
        def in_place(folder: bytes) -> bool:
            try:
                return stat.S_ISDIR(os.lstat(os.path.join(base, folder)).st_mode)  # noqa: PTH118
            except OSError:
                return False

        for paths, largest in ((tracked, _LARGEST_TRACKED), (untracked, limit)):
            for path in paths:
                full = next((folder for folder in _parents(path) if folder in crowded), None)
                if full is not None:
                    fault = "crowded"
                elif any(not in_place(folder) for folder in _parents(path)):
                    fault = "gone"  # a symlink is in the place of a folder, and the file is somewhere else
                else:
                    fault = _fault(os.path.join(base, path), largest)  # noqa: PTH118
                    if fault == "large" and paths is tracked:
                        fault = "huge"
                if not fault:
                    files.append(path)
                elif fault != "gone":
                    left_out[path if full is None else full] = fault
        counts = Counter(left_out.values())
        notes = tuple(text.format(count=counts[kind]) for kind, text in _NOTES.items() if counts[kind])
        return _Chosen(files, list(left_out), notes)

    async def _fill(self, files: Sequence[bytes]) -> None:
        """Update the index to the current files."""
        known = (await self._git.run("ls-files", "-z", index=self._index)).split(b"\0")
        superfluous = {path for path in known if path} - set(files)
        if superfluous:
            await self._git.run(
                "update-index", "-z", "--force-remove", "--stdin", given=_lines(superfluous), index=self._index
            )
        await self._git.run(
            "update-index", "-z", "--add", "--remove", "--replace", "--stdin", given=_lines(files), index=self._index
        )

    async def _complete(self) -> bool:
        """Return whether all objects of the index are still there. The user's repository may have lost some of its own."""
        staged = await self._git.run("ls-files", "-z", "--stage", index=self._index)
        ids = {line.split(b" ", 2)[1] for line in staged.split(b"\0") if line}
        found = await self._git.run(
            "cat-file", "--batch-check=%(objecttype)", given=b"".join(id_ + b"\n" for id_ in ids)
        )
        return b" missing" not in found

    async def _changes(self, before: str, after: str) -> list[tuple[bytes, bytes]]:
        """Return the status letters and paths of what differs, relative to the folder."""
        output = await self._git.run(
            "diff-tree", "-r", "-z", "--no-renames", "--name-status", "--relative", before, after
        )
        parts = output.split(b"\0")[:-1]
        return list(zip(parts[::2], parts[1::2], strict=True))

    def _remove(self, paths: Iterable[bytes]) -> int:
        """Remove files, and the folders that become empty. No symlink on the way to a file is followed."""
        removed = 0
        for path in paths:
            try:
                with folder_of(self._folder, path) as folder:
                    os.unlink(os.path.basename(path), dir_fd=folder)  # noqa: PTH119  # relative to a descriptor
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):  # something else has its place now
                continue
            except OSError as error:
                raise SnapshotError(f"{os.fsdecode(path)} could not be removed: {error.strerror}") from error
            removed += 1
            for parent in _parents(path):
                try:
                    with folder_of(self._folder, parent) as folder:
                        os.rmdir(os.path.basename(parent), dir_fd=folder)  # noqa: PTH119
                except OSError:
                    break
        return removed


class _Chosen(Value):
    """The paths to snapshot, relative to the folder, the omitted paths, and a sentence on each kind of omission."""

    files: list[bytes]
    left_out: list[bytes]
    notes: tuple[str, ...]


_NOTES = {
    "large": "{count} untracked files are too large for snapshots. Undo does not restore them.",
    "huge": "{count} tracked files have more than 1 GiB. Undo does not restore them.",
    "crowded": "{count} folders have too many untracked files for snapshots. Undo does not restore the files in them.",
    "unreadable": "{count} files cannot be read. Undo does not restore them.",
}


def _repository(root: Path) -> list[Path]:
    """Return the folders of the user's repository: first the one with the index, last the one that linked worktrees share."""
    own = root / ".git"
    if own.is_dir():
        return [own]
    return [Path(folder) for folder in repository_folders(str(own))] or [own]


def _left_out(commit: bytes) -> frozenset[bytes]:
    """Return the omitted parts of a snapshot, from the raw commit."""
    try:
        message = json.loads(commit.partition(b"\n\n")[2])
        return frozenset(os.fsencode(path) for path in message["left_out"])
    except (ValueError, TypeError, KeyError):
        raise SnapshotError("it is not a snapshot") from None


def _fault(place: bytes, largest: int) -> str:
    """Return why a file is left out of a snapshot, or an empty string. ``gone`` is a file that is not there, or none at all."""
    try:
        found = os.lstat(place)
    except OSError:
        return "gone"
    if stat.S_ISLNK(found.st_mode):
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "gone"
    if found.st_size > largest:
        return "large"
    return "" if os.access(place, os.R_OK) else "unreadable"


def _crowded_folders(tracked: Iterable[bytes], untracked: Iterable[bytes], most: int) -> set[bytes]:
    """Return the folders without tracked files that have more than so many untracked ones, themselves and below."""
    inhabited = {folder for path in tracked for folder in _parents(path)}
    counts = Counter(folder for path in untracked for folder in _parents(path))
    return {folder for folder, count in counts.items() if count > most and folder not in inhabited}


def _parents(path: bytes) -> Iterator[bytes]:
    """Yield the folders of a path, the innermost first."""
    while path := path.rpartition(b"/")[0]:
        yield path


def _lines(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _second_of(ref: str) -> float:
    """Return when a snapshot was taken, from its ref."""
    seconds = ref.rpartition("/")[2].partition("-")[0]
    return float(seconds) if seconds.isascii() and seconds.isdigit() else 0.0
