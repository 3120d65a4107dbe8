"""Questions about branches and commits to git, which runs confined: a repository's configuration may name programs."""

from __future__ import annotations

import asyncio

from codex_framework import CodexError, ThreadContext, ThreadError
from codex_framework.toolkit.git import git_environment

__all__ = ["merge_base", "resolved"]

_TIMEOUT_S = 8.0
"""Time limit of one question in seconds."""

_CONFINED = ":read-only"


async def resolved(name: str, thread: ThreadContext, noun: str) -> str | None:
    """Return the hash of the commit that a name means. None if git could not be asked.

    Raises:
        ThreadError: git does not know the name.
    """
    answer = await _run_git(thread, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if answer is None:
        return None
    status, text = answer
    if status == 0 and text:
        return text
    if status == 1:
        raise ThreadError(
            f"the repository has no {noun} {name!r}",
            slug="no-revision",
            hint="`git branch --all` lists the branches, and `git log` the commits.",
        )
    return None


async def merge_base(branch: str, thread: ThreadContext) -> str | None:
    """Return the merge base of ``HEAD`` and a branch, or of the branch's upstream if that is ahead, or None if it is unknown.

    Raises:
        ThreadError: git does not know the branch.
    """
    try:
        known = await resolved(branch, thread, "branch")
    except ThreadError:
        known = await _first(thread, f"origin/{branch}")
        if known is None:
            raise
    if known is None:
        return None
    upstream = await _first(thread, f"{branch}@{{upstream}}")
    if upstream is not None and upstream != known:
        answer = await _run_git(thread, "merge-base", "--is-ancestor", upstream, known)
        known = upstream if answer is not None and answer[0] == 1 else known
    answer = await _run_git(thread, "merge-base", "HEAD", known)
    return answer[1] if answer is not None and answer[0] == 0 and answer[1] else None


async def _first(thread: ThreadContext, name: str) -> str | None:
    try:
        return await resolved(name, thread, "branch")
    except ThreadError:
        return None


async def _run_git(thread: ThreadContext, *argv: str) -> tuple[int, str] | None:
    """Return the exit status of git and its output, or None if it could not run, or not in time."""
    env = git_environment({"LC_ALL": "C.UTF-8"})
    try:
        process = await thread.start_process(("git", *argv), permissions=_CONFINED, env=env)
    except CodexError:
        return None
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            result = await process.wait()
    except TimeoutError:
        return None
    finally:
        await process.kill()
    return result.exit_code, result.stdout.strip()
