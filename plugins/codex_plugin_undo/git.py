"""Runs git on a repository of the plugin's own, with nothing of the user's or the workspace's configuration.

The workspace belongs to whoever wrote the repository, and to the model. So the folder ``.git`` of the workspace is never git's
folder here: its configuration could name programs to run (filters, monitors, hooks). Only its index is copied, and its objects
are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from codex_framework.toolkit.git import git_environment
from codex_plugin_undo.workspace_files import find_pipe

__all__ = ["Git", "SnapshotError"]

_TIMEOUT_S = 60.0
_PATIENCE_S = 1.0
"""How long a command may run before the workspace is searched for files that block it, in seconds."""

_LARGEST_MESSAGE = 300

_CONFIG = {
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "core.logAllRefUpdates": "false",
    "core.looseCompression": "1",
    "core.quotePath": "false",
    "core.splitIndex": "false",
    "core.symlinks": "true",
    "core.untrackedCache": "false",
    "gc.auto": "0",
    "index.threads": "1",
}


class SnapshotError(Exception):
    """A snapshot cannot be taken or restored. The text says why, and what to do."""


class Git:
    """git for one worktree.

    Args:
        folder: git's own folder. It is created at the first use.
        worktree: The files.
        cwd: The folder in the worktree to which all commands are limited.
        objects: Folders with further objects, which are only read.
        search_path: The folders in which the program is looked for.
    """

    def __init__(self, folder: Path, worktree: Path, cwd: Path, objects: Sequence[Path], search_path: str) -> None:
        self.folder = folder
        self._worktree = worktree
        self._cwd = cwd
        self._objects = objects
        self._program = shutil.which("git", path=search_path)
        self._env = {
            **git_environment({"PATH": search_path, "LC_ALL": "C.UTF-8"}, _CONFIG),
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(worktree),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(f'"{_quote_path(path)}"' for path in objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            **{f"GIT_{who}_{what}": "codex-framework" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }

    async def run(
        self,
        *argv: str,
        given: bytes = b"",
        index: Path | None = None,
        folder: Path | None = None,
        accepted: Sequence[int] = (0,),
    ) -> bytes:
        """Run a command and return its output.

        Args:
            given: Its standard input.
            index: Its index. By default, the index in git's folder.
            folder: git's own folder for this command, if it is another one.
            accepted: The exit statuses of a success.

        Raises:
            SnapshotError: It failed, or did not end in time.
        """
        env = dict(self._env)
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        if folder is not None:
            env["GIT_DIR"] = str(folder)
        if self._program is None:
            raise SnapshotError("git was not found. Install git, or set `snapshots = false`.")
        try:
            process = await asyncio.create_subprocess_exec(
                self._program,
                *(() if argv[0] == "check-ignore" else ("--literal-pathspecs",)),  # which refuses the option
                *argv,
                cwd=self._cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in the terminal is not for it
            )
        except OSError as error:
            raise SnapshotError(f"git could not be started in {self._cwd}: {error.strerror}") from error
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                output, errors = await self._communicate(process, given)
        except TimeoutError:
            raise SnapshotError(f"git {argv[0]} did not end within {_TIMEOUT_S:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode not in accepted:
            raise SnapshotError(f"git {argv[0]} failed: {_error_text(errors) or f'exit status {process.returncode}'}")
        return output

    async def _communicate(self, process: asyncio.subprocess.Process, given: bytes) -> tuple[bytes, bytes]:
        """Return the output and errors of git.

        Raises:
            SnapshotError: It waits for a pipe in the place of a file.
        """
        answer = asyncio.ensure_future(process.communicate(given))
        try:
            await asyncio.wait((answer,), timeout=_PATIENCE_S)
            while not answer.done():
                pipe = await asyncio.to_thread(find_pipe, self._worktree, self._objects)
                if pipe is not None:
                    raise SnapshotError(f"{pipe} is a pipe, which git would wait for. Remove it.")
                await asyncio.wait((answer,), timeout=10 * _PATIENCE_S)
            return answer.result()
        finally:
            answer.cancel()


def _quote_path(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


def _error_text(errors: bytes) -> str:
    text = " ".join(errors.decode(errors="replace").split())
    return text if len(text) <= _LARGEST_MESSAGE else f"{text[:_LARGEST_MESSAGE]}..."
