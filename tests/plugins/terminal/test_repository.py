"""The changes of a repository that wants to run programs when somebody looks at them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from codex_client_terminal import repository as repository_module
from codex_client_terminal.repository import working_diff


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "one")
    (folder / "a.txt").write_text("two\n")
    (folder / "new file.txt").write_text("hello\n")
    return folder


def test_changes_and_new_files_are_shown(repository: Path) -> None:
    text = asyncio.run(working_diff(repository))
    assert text is not None
    assert "-one\n+two\n" in text
    assert "+++ b/new file.txt" in text
    assert "+hello" in text


def test_a_repository_without_a_commit_and_a_folder_without_one(tmp_path: Path) -> None:
    assert asyncio.run(working_diff(tmp_path)) is None
    git(tmp_path, "init")
    (tmp_path / "a").write_text("first\n")
    git(tmp_path, "add", "a")
    assert "+first" in str(asyncio.run(working_diff(tmp_path)))


def test_no_program_of_the_repository_runs(repository: Path) -> None:
    spy = repository.parent / "spy"
    spy.write_text(f'#!/bin/sh\necho "$0 $*" >> {repository.parent}/ran\ncat "$@" 2>/dev/null\n')
    spy.chmod(0o700)
    for key in (
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "filter.a=b.c.clean"),
        *("diff.evil.textconv", "diff.evil.command", "diff.external", "core.fsmonitor", "core.pager", "pager.diff"),
    ):
        git(repository, "config", key, str(spy))
    git(repository, "config", "filter.evil.required", "true")
    (repository / ".git" / "info" / "attributes").write_text("new* filter=a=b.c diff=evil\n")
    (repository / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    os.utime(repository / "a.txt")
    text = asyncio.run(working_diff(repository))
    assert not (repository.parent / "ran").exists()
    assert "-one\n+two\n" in str(text)
    assert "+hello" in str(text)


def test_endless_changes_are_cut(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_module, "_LARGEST", 10_000)
    (repository / "a.txt").write_text("line\n" * 100_000)
    assert len(str(asyncio.run(working_diff(repository)))) == 10_000
