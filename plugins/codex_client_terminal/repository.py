"""Facts from git about a repository. It runs no program that the configuration or the attributes of the repository name."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from codex_framework.toolkit.git import git_environment, without_drivers

__all__ = ["branches", "commits", "working_diff"]

_LARGEST = 1 << 20
"""The most bytes of git's output that are read."""

_TIMEOUT_S = 10.0
_MOST_NEW_FILES = 100
_MOST_COMMITS = 100
_SHOW_NAMES = ("-c", "core.quotePath=false")
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")


async def working_diff(folder: Path) -> str | None:
    """Return the uncommitted changes and the new files of a repository as a diff. None if the folder is in no repository.

    Only the first megabyte is returned.

    Raises:
        OSError: git cannot be started.
        TimeoutError: git takes too long.
    """
    async with asyncio.timeout(_TIMEOUT_S):
        env = await asyncio.to_thread(without_drivers, folder, os.environ)
        if not await _run_git(folder, env, "rev-parse", "--show-toplevel"):
            return None
        has_commit = await _run_git(folder, env, "rev-parse", "--verify", "--quiet", "HEAD")
        text = await _run_git(folder, env, *_DIFF, *(("HEAD",) if has_commit else ("--cached",)))
        names = (await _run_git(folder, env, "ls-files", "-z", "--others", "--exclude-standard")).split("\0")
        for name in filter(None, names[:_MOST_NEW_FILES]):
            if len(text) >= _LARGEST:
                break
            text += await _run_git(folder, env, *_DIFF, "--no-index", "--", os.devnull, name)
    return text[:_LARGEST]


async def branches(folder: Path) -> list[str]:
    """Return the local branches of a repository, the one with the newest commit first. Raises OSError."""
    words = ("for-each-ref", "--sort=-committerdate", "--format=%(refname:short)", "refs/heads")
    return (await _run_git(folder, git_environment(os.environ), *words)).splitlines()


async def commits(folder: Path) -> list[tuple[str, str]]:
    """Return the newest commits of a repository: the hash and the title of each. Raises OSError."""
    words = ("log", f"--max-count={_MOST_COMMITS}", "--no-color", "--format=%H %s")
    found = (await _run_git(folder, git_environment(os.environ), *words)).splitlines()
    return [(sha, title) for sha, _, title in (line.partition(" ") for line in found)]


async def _run_git(folder: Path, env: dict[str, str], *words: str) -> str:
    """Return the beginning of git's output, which is empty if git fails."""
    process = await asyncio.create_subprocess_exec(
        "git",
        "--no-pager",
        *_SHOW_NAMES,
        *words,
        cwd=folder,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    data = bytearray()
    try:
        while len(data) < _LARGEST and (part := await process.stdout.read(65_536)):
            data += part
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return data.decode("utf-8", "replace")
