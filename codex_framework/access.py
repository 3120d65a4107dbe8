"""A sandbox policy, realised: which real folders a turn may write, and what in them stays read-only.

Policies are symbolic ("the workspace", "the temp folder"); :func:`file_access` looks at the file system once per turn and gives
a frozen :class:`~codex_framework.roles.sandboxes.FileAccess`, by which file tools decide and sandboxes plan.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import assert_never

from codex_framework.protocol.policies import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from codex_framework.roles.sandboxes import PROTECTED_NAMES, FileAccess, WritableRoot

__all__ = ["FileAccess", "deny_write_text", "file_access"]

_POINTER_LIMIT = 64 * 1024
"""Bytes read of a ``.git`` file; a real one has a single line."""

_UNLIMITED = FileAccess(full=True, network=True)
_interned: dict[FileAccess, FileAccess] = {}
_INTERNED_LIMIT = 64


def file_access(policy: SandboxPolicy, cwd: Path, environ: Mapping[str, str]) -> FileAccess:
    """Realise a policy for a turn in ``cwd``.

    Equal answers are one object, so that plans can be found by identity. Some 30 system calls; nothing is written.

    Args:
        policy: The thread's policy.
        cwd: The turn's folder, absolute.
        environ: The environment commands get; ``TMPDIR`` is read.
    """
    match policy:
        case DangerFullAccess() | ExternalSandbox():
            return _UNLIMITED
        case ReadOnly():
            access = FileAccess(network=policy.network_access)
        case WorkspaceWrite():
            access = FileAccess(roots=_writable_roots(_root_paths(policy, cwd, environ)), network=policy.network_access)
        case _:
            assert_never(policy)
    if len(_interned) >= _INTERNED_LIMIT:
        _interned.clear()
    return _interned.setdefault(access, access)


def deny_write_text(access: FileAccess) -> str:
    """The words with which a write outside of ``access`` is refused to the model."""
    return "writing outside of the project" if access.roots else "writing is blocked by read-only sandbox"


def _root_paths(policy: WorkspaceWrite, cwd: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The writable folders, real, each once, in Codex's order: configured, workspace, ``/tmp``, ``$TMPDIR``."""
    wanted = [os.path.join(cwd, os.path.expanduser(root)) for root in policy.writable_roots]  # noqa: PTH111, PTH118
    wanted.append(str(cwd))
    if not policy.exclude_slash_tmp and os.path.isdir("/tmp"):  # noqa: PTH112, S108
        wanted.append("/tmp")  # noqa: S108
    tmpdir = environ.get("TMPDIR", "")
    if not policy.exclude_tmpdir_env_var and os.path.isabs(tmpdir):  # noqa: PTH117
        wanted.append(tmpdir)
    return tuple(dict.fromkeys(os.path.realpath(root) for root in wanted if "\0" not in root))


def _writable_roots(roots: Iterable[str]) -> tuple[WritableRoot, ...]:
    """Give each root every protected path that lies below it, whichever root it belongs to.

    ``/tmp`` would otherwise open what a workspace in ``/tmp/project`` keeps shut. A root that *is* a protected path was named on
    purpose and stays writable by its own entry.
    """
    roots = tuple(roots)
    kept = dict.fromkeys(path for root in roots for path in _protected(root))
    return tuple(
        WritableRoot(Path(root), tuple(Path(path) for path in kept if path != root and _below(path, root)))
        for root in roots
    )


def _below(path: str, root: str) -> bool:
    return path.startswith(root if root.endswith("/") else f"{root}/")


def _protected(root: str) -> Iterator[str]:
    for name in PROTECTED_NAMES:
        path = os.path.join(root, name)  # noqa: PTH118
        yield path
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISLNK(mode):  # both the link and what it leads to
            path = os.path.realpath(path)
            yield path
        if name == ".git" and not stat.S_ISDIR(mode):
            yield from _pointed_folders(path)


def _pointed_folders(pointer: str) -> Iterator[str]:
    """Where a ``gitdir: FOLDER`` file points, and the repository that a linked worktree there shares."""
    target = _first_line(pointer)
    if not target.startswith("gitdir:"):
        return
    folder = os.path.realpath(os.path.join(os.path.dirname(pointer), target.removeprefix("gitdir:").strip()))  # noqa: PTH118, PTH120
    yield folder
    common = _first_line(os.path.join(folder, "commondir"))  # noqa: PTH118
    if common:
        yield os.path.realpath(os.path.join(folder, common))  # noqa: PTH118


def _first_line(path: str) -> str:
    """The first line of a small regular file, or ``""`` where there is none to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        data = os.read(descriptor, _POINTER_LIMIT)
    finally:
        os.close(descriptor)
    line = os.fsdecode(data).split("\n", 1)[0].strip()
    return "" if "\0" in line else line
