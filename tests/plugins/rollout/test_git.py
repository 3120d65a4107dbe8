from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from codex_framework import ThreadMeta
from codex_plugin_rollout.git import git_facts
from codex_plugin_rollout.head import Head

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def test_commit_and_branch_are_read(repo: Path) -> None:
    deep = repo / "a/b"
    deep.mkdir(parents=True)
    assert git_facts(deep) == {"commit_hash": git(repo, "rev-parse", "HEAD"), "branch": "main"}


def test_a_packed_branch_is_read(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "topic/one")
    git(repo, "pack-refs", "--all")
    assert git_facts(repo) == {"commit_hash": git(repo, "rev-parse", "HEAD"), "branch": "topic/one"}


def test_a_detached_head_has_no_branch(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    assert git_facts(repo) == {"commit_hash": git(repo, "rev-parse", "HEAD")}


def test_a_branch_without_a_commit_has_no_hash(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "fresh")
    assert git_facts(tmp_path) == {"branch": "fresh"}


def test_a_linked_worktree_has_a_branch_of_its_own(repo: Path, tmp_path: Path) -> None:
    git(repo, "remote", "add", "origin", "git@example.org:team/repo.git")
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    assert git_facts(tmp_path / "side") == {
        "commit_hash": git(tmp_path / "side", "rev-parse", "HEAD"),
        "branch": "side",
        "repository_url": "git@example.org:team/repo.git",
    }


def test_only_the_remote_origin_counts(repo: Path) -> None:
    git(repo, "remote", "add", "upstream", "https://example.org/up.git")
    assert "repository_url" not in git_facts(repo)
    git(repo, "remote", "add", "origin", "https://example.org/mine.git")
    git(repo, "remote", "add", "zz", "https://example.org/zz.git")
    assert git_facts(repo)["repository_url"] == "https://example.org/mine.git"


def test_a_login_in_the_url_is_left_out(repo: Path) -> None:
    git(repo, "remote", "add", "origin", "https://me:secret@example.org/mine.git")
    assert git_facts(repo)["repository_url"] == "https://example.org/mine.git"


@pytest.mark.parametrize("content", [b"", b"gitdir: /nowhere", b"\xff\0nonsense"])
def test_a_broken_repository_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert git_facts(tmp_path) == {}


def test_pipes_and_files_of_the_system_in_place_of_gits_are_not_read(repo: Path) -> None:
    head = repo / ".git" / "HEAD"
    (repo / ".git" / "config").unlink()
    os.mkfifo(repo / ".git" / "config")
    assert git_facts(repo)["branch"] == "main"
    head.unlink()
    head.symlink_to("/proc/self/environ")
    assert git_facts(repo) == {}
    (repo / ".git").rename(repo / "was")
    os.mkfifo(repo / ".git")
    assert git_facts(repo) == {}


@pytest.mark.parametrize("name", ["HEAD", "commondir", "config", "packed-refs"])
def test_a_sparse_file_in_place_of_gits_is_not_read(repo: Path, name: str) -> None:
    git(repo, "pack-refs", "--all")
    known = git_facts(repo)
    (repo / ".git" / name).touch()
    os.truncate(repo / ".git" / name, 1 << 40)
    assert git_facts(repo).items() <= known.items()


def test_a_folder_that_is_gone_has_no_facts(tmp_path: Path) -> None:
    assert git_facts(tmp_path / "gone") == {}


def test_a_new_session_records_the_commit_and_a_continued_one_keeps_its_own(meta: ThreadMeta, repo: Path) -> None:
    here = meta.evolve(cwd=str(repo))
    new, continued = (json.loads(Head(here, begun=begun).line())["payload"].get("git") for begun in (False, True))
    assert new == {"commit_hash": git(repo, "rev-parse", "HEAD"), "branch": "main"}
    assert continued is None
