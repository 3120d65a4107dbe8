"""What git says about a repository. It runs no program that the configuration or the attributes of the repository name."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

__all__ = ["branches", "commits", "working_diff"]

_LARGEST = 1 << 20
"""The most bytes of git's output that are read."""

_TIMEOUT_S = 10.0
_MOST_NEW_FILES = 100
_MOST_COMMITS = 100
_CONFIG = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "protocol.allow": "never",  # a partial clone would fetch what it lacks, by a program that the repository names
    "safe.bareRepository": "explicit",
}
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")


async def working_diff(folder: Path) -> str | None:
    """Return the uncommitted changes and the new files of a repository as a diff. None if the folder is in no repository.

    Only the first megabyte is returned.

    Raises:
        OSError: git cannot be started.
        TimeoutError: git takes too long.
    """
    async with asyncio.timeout(_TIMEOUT_S):
        if not await _run_git(folder, _CONFIG, "rev-parse", "--show-toplevel"):
            return None
        config = {**_CONFIG, **await _without_filters(folder)}
        has_commit = await _run_git(folder, config, "rev-parse", "--verify", "--quiet", "HEAD")
        text = await _run_git(folder, config, *_DIFF, *(("HEAD",) if has_commit else ("--cached",)))
        names = (await _run_git(folder, config, "ls-files", "-z", "--others", "--exclude-standard")).split("\0")
        for name in filter(None, names[:_MOST_NEW_FILES]):
            if len(text) >= _LARGEST:
                break
            text += await _run_git(folder, config, *_DIFF, "--no-index", "--", os.devnull, name)
    return text[:_LARGEST]


async def branches(folder: Path) -> list[str]:
    """Return the local branches of a repository, the one with the newest commit first. Raises OSError."""
    words = ("for-each-ref", "--sort=-committerdate", "--format=%(refname:short)", "refs/heads")
    return (await _run_git(folder, _CONFIG, *words)).splitlines()


async def commits(folder: Path) -> list[tuple[str, str]]:
    """Return the newest commits of a repository: the hash and the title of each. Raises OSError."""
    words = ("log", f"--max-count={_MOST_COMMITS}", "--no-show-signature", "--no-color", "--format=%H %s")
    found = (await _run_git(folder, _CONFIG, *words)).splitlines()
    return [(sha, title) for sha, _, title in (line.partition(" ") for line in found)]


async def _without_filters(folder: Path) -> dict[str, str]:
    """Return the settings that switch off the filters of a repository's files."""
    found = await _run_git(folder, _CONFIG, "config", "-z", "--name-only", "--get-regexp", r"^filter\.")
    drivers = {name.rpartition(".")[0] for name in found.split("\0") if name}
    return {
        f"{driver}.{key}": value
        for driver in drivers
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    }


async def _run_git(folder: Path, config: dict[str, str], *words: str) -> str:
    """Return the beginning of git's output, which is empty if git fails."""
    process = await asyncio.create_subprocess_exec(
        "git",
        "--no-pager",
        *words,
        cwd=folder,
        env=_environment(config),
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


def _environment(config: dict[str, str]) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(config)),
        **{f"GIT_CONFIG_KEY_{place}": key for place, key in enumerate(config)},
        **{f"GIT_CONFIG_VALUE_{place}": value for place, value in enumerate(config.values())},
    }
