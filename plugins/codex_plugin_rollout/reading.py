"""Reading a thread whole: its files, its state, and where its turns begin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.roles.stores import StoredThread, ThreadMeta
from codex_framework.toolkit.regular_files import open_regular
from codex_framework.toolkit.thread_records import ThreadState
from codex_plugin_rollout.files import decompressed, id_of_file, segment_of_file
from codex_plugin_rollout.lineage import Part, lineage_of
from codex_plugin_rollout.lines import meta_from_wire
from codex_plugin_rollout.reconstruction import Place, Reconstruction

__all__ = ["Read", "last_id_of", "read_thread", "reader_of"]


@attrs.frozen
class Read:
    """A thread, read whole.

    Attributes:
        head: The payload of the head of the thread's own file, with the newest values of its fields, if any.
        parts: Its files, oldest first.
        state: Its state. Places are lines.
        end: The place after its last whole line.
        warnings: Problems in its files, as sentences for the user.
    """

    path: Path
    meta: ThreadMeta
    head: Mapping[str, Any] | None
    parts: tuple[Part, ...]
    state: ThreadState[Place]
    end: Place
    warnings: tuple[str, ...]

    def stored(self) -> StoredThread:
        """Return the thread as the kernel wants it."""
        return self.state.stored(self.meta, path=str(self.path), warnings=self.warnings)


def read_thread(path: Path, codex_home: Path) -> Read:
    """Read the thread whose own file is ``path``.

    Raises:
        ThreadError: The file, or a file that it continues, cannot be read.
    """
    try:
        modified = path.stat().st_mtime
        lineage = lineage_of(path, codex_home, reader_of)
        read = _reconstruction(path, lineage.head, lineage.parts)
    except OSError as error:
        raise ThreadError(
            f"cannot read {error.filename or path}: {error.strerror or error}",
            slug="thread-unreadable",
            hint=_hint(path, error),
        ) from error
    meta, warnings = _meta(read, path, modified)
    if read.is_foreign:
        raise ThreadError(
            f"no line of {path} can be read: it is no rollout file",
            slug="thread-unreadable",
            hint="Restore it from a copy, or delete it.",
        )
    head = None if lineage.head is None else read.meta
    return Read(path, meta, head, lineage.parts, read.state, read.end, (*warnings, *read.warnings))


def _hint(path: Path, error: OSError) -> str:
    if error.errno is None and path.suffix == ".zst":  # its content, not the file
        return f"Restore the file from a copy. If it is whole and you trust it: zstd -d --rm {path}"
    return "Make the file readable."


def reader_of(path: Path) -> BinaryIO:
    """Open a rollout file, which may be compressed.

    Raises:
        ThreadError: Nothing can decompress it.
        OSError: It cannot be read.
    """
    if path.suffix != ".zst":
        return open(path, "rb", opener=open_regular)
    reader = decompressed(path)
    if reader is None:
        raise ThreadError(
            f"{path} is compressed, and reading compressed conversations requires the zstandard package",
            slug="thread-unreadable",
            hint=f"Run: pip install zstandard, or: zstd -d --rm {path}",
        )
    return reader


def last_id_of(path: Path) -> str:
    """Return the last id in a file's name, by which a ``history_base`` names it."""
    return segment_of_file(path) or id_of_file(path) or path.stem


def _reconstruction(path: Path, head: Mapping[str, Any] | None, parts: tuple[Part, ...]) -> Reconstruction:
    read = Reconstruction(head)
    for part in parts[:-1]:
        with reader_of(part.path) as lines:
            if not read.take(lines, end=part.end, file=str(part.path)):
                raise ThreadError(
                    f"{path} continues the conversation in {part.path}, whose end is missing",
                    slug="thread-unreadable",
                    hint=f"Restore {part.path.name} from a copy.",
                )
    with reader_of(path) as lines:
        read.take(lines)
    return read


def _meta(read: Reconstruction, path: Path, modified: float) -> tuple[ThreadMeta, tuple[str, ...]]:
    thread_id = id_of_file(path)
    if read.meta is not None:
        meta = meta_from_wire(read.meta, modified)
        if thread_id in (None, meta.id):
            return meta, ()
        warning = f"the first line of {path} has the id of another thread, {meta.id}; the id in the file's name is used"
        return meta.evolve(id=thread_id), (warning,)
    if thread_id is None:
        raise ThreadError(
            f"{path} is not a rollout file: it does not contain the id of its thread",
            slug="thread-unreadable",
            hint="Name a file whose first line is a session_meta line.",
        )
    settings = read.state.turn_context or {}
    cwd = settings.get("cwd")
    meta = meta_from_wire({"id": thread_id, "cwd": cwd if isinstance(cwd, str) else str(Path.cwd())}, modified)
    return meta, ("the first line of the conversation's file is missing; the thread id was taken from the file's name",)
