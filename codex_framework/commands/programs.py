"""A folder of small launchers on the ``PATH`` of commands, for ``apply_patch`` and the programs of plugins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

__all__ = ["ProgramFolder"]


class ProgramFolder:
    """A folder of launchers, created when it is first needed.

    Its name contains a digest of its content, so all processes share it and it is never out of date.

    Args:
        codex_home: The folder in which to create it.
        programs: The argv for each program name. Further arguments are appended.
    """

    def __init__(self, codex_home: Path, programs: Mapping[str, Sequence[str]]) -> None:
        self._codex_home = codex_home
        self._programs = programs
        self._path: str | None = None
        self._tried = False
        self._private: Path | None = None

    @cached_property
    def _scripts(self) -> dict[str, bytes]:
        import shlex

        return {
            name: f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n'.encode() for name, argv in sorted(self._programs.items())
        }

    @cached_property
    def private(self) -> tuple[str, ...]:
        """The folder that this process uses if ``$CODEX_HOME`` is read-only; otherwise empty.

        It is created immediately, before any command, so that all commands can be denied access to it.
        """
        if self._programs and not _is_writable(self._codex_home):
            self._tried, self._path = True, self._private_folder()
        return () if self._private is None else (str(self._private),)

    def path(self) -> str | None:
        """Return the folder, or None if there are no programs or no writable location."""
        if not self._tried:
            self._tried = True
            self._path = self._create()
        return self._path

    def _create(self) -> str | None:
        if not self._scripts:
            return None
        import hashlib

        digest = hashlib.sha256(repr(self._scripts).encode()).hexdigest()[:12]
        try:
            return self._prepare_folder(self._codex_home / "tmp" / "programs" / digest)
        except OSError:  # the disk is full, perhaps: commands do without these programs
            return None

    def _private_folder(self) -> str | None:
        import tempfile

        try:
            self._private = Path(tempfile.mkdtemp(prefix="codex-framework-programs-"))
            return self._prepare_folder(self._private)
        except OSError:
            return None

    def close(self) -> None:
        """Remove the folder that only this process uses."""
        if self._private is not None:
            import shutil

            shutil.rmtree(self._private, ignore_errors=True)
            self._private = None

    def _prepare_folder(self, folder: Path) -> str:
        self._fill(folder)
        return str(folder)

    def _fill(self, folder: Path) -> None:
        from codex_framework.toolkit.replacement import replace_file

        for name, script in self._scripts.items():
            target = folder / name
            if target.exists() and target.read_bytes() == script:
                continue
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(
                target, script, mode=0o755, sync=False
            )  # a torn launcher is found and replaced at the next start


def _is_writable(folder: Path) -> bool:
    """Return whether a folder can be written, or made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)
