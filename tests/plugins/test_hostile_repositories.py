"""Repositories whose configuration names programs: none of them runs, whatever the framework asks git."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import codex_client_apply
import codex_plugin_review.git as review_git
from codex_client_terminal.repository import branches, commits, working_diff
from codex_framework.cli.worktrees import create_worktree
from codex_framework.config import load_config
from codex_framework.testing import say
from codex_framework.toolkit.git import without_drivers
from codex_plugin_review import Review, ReviewRequest
from codex_plugin_undo.settings import Settings
from codex_plugin_undo.snapshots import Store

BASE, OURS, THEIRS, MERGED = (f"{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n" for first, last in ("19", "a9", "1b", "ab"))
SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"


def git(folder: Path, *words: str, given: str | None = None) -> str:
    named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True, text=True, input=given)
    return done.stdout


@attrs.frozen
class Hostile:
    """A repository, a change that others made of it, and the list of the programs that ran."""

    folder: Path
    change: str
    ran: Path

    def programs(self) -> set[str]:
        return {*self.ran.read_text().split()} if self.ran.exists() else set()


@pytest.fixture
def repository(workspace: Path) -> tuple[Path, str]:
    """A repository with a signed commit and an uncommitted change, and a diff that has to be merged."""
    git(workspace, "init", "-q")
    for name, text in (
        ("a.txt", BASE),
        ("b.bin", BASE),
        (".gitattributes", "*.txt merge=evil diff=evil\n*.bin filter=a=b\n"),
    ):
        (workspace / name).write_text(text)
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "base")
    (workspace / "a.txt").write_text(THEIRS)
    change = git(workspace, "diff")
    (workspace / "a.txt").write_text(OURS)
    git(workspace, "commit", "-qam", "ours")
    head, _, message = git(workspace, "cat-file", "commit", "HEAD").partition("\n\n")
    signed = git(workspace, "hash-object", "-t", "commit", "-w", "--stdin", given=f"{head}\n{SIGNATURE}\n{message}")
    git(workspace, "reset", "-q", "--hard", signed.strip())
    return workspace, change


@pytest.fixture
def hostile(repository: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    folder, change = repository
    programs = tmp_path / "programs"
    programs.mkdir()

    def spy(name: str) -> str:
        path = programs / name
        path.write_text(f'#!/bin/sh\necho {name} >> {tmp_path}/ran\n[ "$1" = - ] && cat\nexit 0\n')
        path.chmod(0o700)
        return str(path)

    hooks = programs / "hooks"
    hooks.mkdir()
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(spy("hook"), hooks / hook)
    included = programs / "included"
    git(folder, "config", "--file", str(included), "filter.a=b.smudge", f"{spy('filter')} -")
    git(folder, "config", "--file", str(included), "filter.a=b.clean", f"{spy('filter')} -")
    for key, value in {
        "includeIf.gitdir:**.path": str(included),
        "merge.evil.driver": spy("merge"),
        "diff.evil.textconv": spy("textconv"),
        "diff.external": spy("external"),
        "core.fsmonitor": spy("monitor"),
        "core.hooksPath": str(hooks),
        "core.sshCommand": spy("ssh"),
        "core.pager": spy("pager"),
        "gpg.program": spy("gpg"),
        "log.showSignature": "true",
        **{f"alias.{word}": f"!{spy('alias')}" for word in ("apply", "diff", "log", "rev-parse", "worktree")},
    }.items():
        git(folder, "config", key, value)
    (folder / "b.bin").write_text(OURS)
    variables = {"GIT_SSH_COMMAND": spy("variable"), "GIT_CONFIG_COUNT": "1", "GIT_EXTERNAL_DIFF": spy("variable")}
    for name, value in {
        **variables,
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": spy("variable"),
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "ran").unlink(missing_ok=True)
    return Hostile(folder, change, tmp_path / "ran")


def add_worktree(hostile: Hostile, home: Path) -> None:
    tree = create_worktree(load_config(cwd=hostile.folder, environ={"CODEX_HOME": str(home)}))
    assert (tree / "b.bin").read_text() == BASE


def apply_change(hostile: Hostile, _home: Path) -> None:
    codex_client_apply._apply(hostile.folder, hostile.change)
    assert (hostile.folder / "a.txt").read_text() == MERGED


def show_changes(hostile: Hostile, _home: Path) -> None:
    assert "b.bin" in str(asyncio.run(working_diff(hostile.folder)))
    assert [title for _, title in asyncio.run(commits(hostile.folder))] == ["ours", "base"]
    assert asyncio.run(branches(hostile.folder)) == ["main"]


def restore_snapshot(hostile: Hostile, home: Path) -> None:
    async def story() -> None:
        store = Store(home, hostile.folder, hostile.folder, Settings(), "t", os.environ["PATH"])
        snapshot = await store.take("turn")
        (hostile.folder / "a.txt").write_text("lost\n")
        (hostile.folder / "b.bin").write_text("lost\n")
        await store.restore(snapshot.commit)

    asyncio.run(story())
    assert (hostile.folder / "b.bin").read_text() == OURS


USERS = [add_worktree, apply_change, show_changes, restore_snapshot]


@pytest.mark.parametrize("use", USERS)
def test_no_program_of_a_repository_runs(
    hostile: Hostile, use: Callable[[Hostile, Path], None], tmp_path: Path
) -> None:
    use(hostile, tmp_path / "home")
    assert hostile.programs() == set()


@pytest.mark.parametrize("use", USERS)
def test_a_repository_that_lacks_objects_fetches_nothing(
    hostile: Hostile, use: Callable[[Hostile, Path], None], tmp_path: Path
) -> None:
    blob = git(hostile.folder, "rev-parse", "HEAD:b.bin").strip()
    (hostile.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "remote.origin.url": "ssh://localhost/x",
        "remote.origin.promisor": "true",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
    }.items():
        git(hostile.folder, "config", key, value)
    hostile.ran.unlink(missing_ok=True)
    with contextlib.suppress(Exception):  # what is missing cannot be shown or restored
        use(hostile, tmp_path / "home")
    assert hostile.programs() == set()
    subprocess.run(["git", "cat-file", "-p", blob], cwd=hostile.folder, capture_output=True, check=False)
    assert hostile.programs() == {"variable"}, "an unprotected git fetches it"


def test_a_review_runs_no_program_of_a_repository_even_without_its_sandbox(
    hostile: Hostile, scene: Any, carry_out: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_git, "_CONFINED", ":danger-full-access")

    async def story(kernel: Any) -> None:
        thread = await kernel.start_thread()
        await carry_out(thread, Review(ReviewRequest({"type": "baseBranch", "branch": "main"})))

    scene.play(story, [say("Fine.")])
    assert "git diff" in str(scene.asked[0])
    assert hostile.programs() == set()


def test_each_program_runs_with_an_unprotected_git(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (
        ["diff", "HEAD"],
        ["log", "-1"],
        ["update-ref", "refs/heads/other", "HEAD"],
        ["apply", "--3way", "-"],
    ):
        git(hostile.folder, *words, given=hostile.change)
    git(hostile.folder, "worktree", "add", "-q", "--detach", "../tree")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for words in (["diff", "HEAD"], ["log", "-p"]):
        git(hostile.folder, *words)
    expected = {"filter", "external", "gpg", "hook", "merge", "monitor", "textconv", "variable"}
    assert hostile.programs() == expected  # git ignores these aliases


def test_filters_of_the_user_run(hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text('[filter "own"]\n\tsmudge = tr 1 x\n')
    (hostile.folder / ".git" / "info").mkdir(exist_ok=True)
    (hostile.folder / ".git" / "info" / "attributes").write_text("b.bin filter=own\n")
    env = without_drivers(hostile.folder, os.environ)
    subprocess.run(["git", "checkout", "-q", "--", "b.bin"], cwd=hostile.folder, env=env, check=True)
    assert (hostile.folder / "b.bin").read_text() == BASE.replace("1", "x")
    assert hostile.programs() == set()
