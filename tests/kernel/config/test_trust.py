from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from codex_framework.commands.protected_paths import find_protected_paths
from codex_framework.toolkit.projects import (
    git_root,
    is_trusted,
    is_trusted_itself,
    main_checkout,
    project_root,
    trust_level,
)


def git(*arguments, cwd):
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=cwd, check=True, capture_output=True
    )


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path.resolve() / "main"
    folder.mkdir()
    git("init", "-q", cwd=folder)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=folder)
    return folder


@pytest.fixture
def worktree(repository):
    folder = repository.parent / "tree"
    git("worktree", "add", "-q", str(folder), cwd=repository)
    return folder


def test_the_checkout_of_a_folder_is_the_nearest_one_upwards(repository, worktree):
    inner = repository / "a" / "b"
    inner.mkdir(parents=True)
    assert git_root(inner) == repository
    assert git_root(worktree) == worktree
    assert git_root(repository.parent) is None


def test_the_main_checkout_of_a_worktree_is_found_without_git(repository, worktree):
    assert main_checkout(worktree) == repository
    assert main_checkout(repository) == repository


def test_trust_in_a_checkout_holds_for_its_worktrees_and_folders(repository, worktree):
    projects = {str(repository): {"trust_level": "trusted"}}
    (worktree / "src").mkdir()
    (repository / "src").mkdir()
    for folder in (repository, repository / "src", worktree, worktree / "src"):
        assert is_trusted(projects, folder)
    assert not is_trusted(projects, repository.parent)


def test_a_folder_is_trusted_itself_if_the_decision_names_it_or_the_checkout_beside_it(repository, worktree):
    projects = {str(repository): {"trust_level": "trusted"}}
    (repository / "src").mkdir()
    (worktree / "src").mkdir()
    git("worktree", "add", "-q", str(repository / "inner"), cwd=repository)
    link = repository.parent / "link"
    link.symlink_to(repository)
    folders = (
        repository,
        link,
        worktree,
        repository / "src",
        worktree / "src",
        repository / "inner",
        repository.parent,
    )
    assert [is_trusted_itself(projects, folder) for folder in folders] == [True, True, True, False, False, False, False]
    assert not is_trusted_itself({str(repository): {"trust_level": "untrusted"}}, repository)


def test_what_worktrees_of_a_trusted_checkout_decide_is_held_back(repository, worktree):
    git("worktree", "add", "-q", str(repository / "inner"), cwd=repository)
    places = find_protected_paths(
        repository / "home", environ={}, projects={str(repository): {"trust_level": "trusted"}}
    )
    wanted = {
        f"{folder}/{name}" for folder in (repository, worktree, repository / "inner") for name in (".codex", ".git")
    }
    assert wanted <= set(places.paths)
    assert not any(
        path.startswith(str(repository)) for path in find_protected_paths("/x", environ={}, projects={}).paths
    )


@pytest.mark.parametrize("kind", ["zeros", "fifo", "empty", "folder"])
def test_a_strange_pointer_to_a_worktree_holds_nothing_up(repository, worktree, kind):
    pointer = repository / ".git" / "worktrees" / "tree" / "gitdir"
    pointer.unlink()
    if kind == "zeros":
        pointer.write_bytes(b"/tmp/a\0b/.git")
    elif kind == "empty":
        pointer.touch()
    else:
        os.mkfifo(pointer) if kind == "fifo" else pointer.mkdir()
    places = find_protected_paths("/x", environ={}, projects={str(repository): {"trust_level": "trusted"}}).paths
    assert f"{repository}/.codex" in places
    assert not [path for path in places if "worktrees" in path or path.startswith(str(worktree))]


def test_a_decision_about_the_folder_itself_counts_first(repository):
    inner = repository / "inner"
    inner.mkdir()
    projects = {str(repository): {"trust_level": "trusted"}, str(inner): {"trust_level": "untrusted"}}
    assert trust_level(projects, inner) == "untrusted"
    assert trust_level(projects, repository) == "trusted"


def test_a_folder_that_only_claims_to_be_a_worktree_is_not_trusted(repository, worktree):
    projects = {str(repository): {"trust_level": "trusted"}}
    fake = repository.parent / "fake"
    fake.mkdir()
    (repository / ".git" / "worktrees" / "strange").mkdir()
    (repository / ".git" / "worktrees" / "strange" / "gitdir").write_text(f"{fake}\0/.git\n")
    for claim in (
        f"gitdir: {repository}/.git/worktrees/fake\n",
        f"gitdir: {repository}/.git/worktrees/tree\n",
        "gitdir: ../main/.git/worktrees/tree",
        f"gitdir: {repository}/.git/worktrees/tr\0ee\n",
        f"gitdir: {repository}/.git/worktrees/strange\n",
        "gitdir:",
        "nonsense",
    ):
        (fake / ".git").write_text(claim)
        assert trust_level(projects, fake) is None


def test_a_folder_is_known_by_its_real_path_too(repository):
    link = repository.parent / "link"
    link.symlink_to(repository)
    assert is_trusted({str(repository): {"trust_level": "trusted"}}, link)
    assert is_trusted({str(link): {"trust_level": "trusted"}}, link)


def test_a_folder_without_git_is_its_own_project(tmp_path):
    inner = tmp_path.resolve() / "inner"
    inner.mkdir()
    projects = {str(inner.parent): {"trust_level": "trusted"}}
    assert is_trusted(projects, inner.parent)
    assert trust_level(projects, inner) is None


def test_a_submodule_is_a_project_of_its_own(repository):
    inner = repository / "sub"
    inner.mkdir()
    (inner / ".git").write_text("gitdir: ../.git/modules/sub\n")
    assert main_checkout(inner) == inner
    assert trust_level({str(repository): {"trust_level": "trusted"}}, inner) is None


def test_without_markers_each_folder_is_a_root(repository):
    inner = repository / "inner"
    inner.mkdir()
    assert project_root(inner) == repository
    assert project_root(inner, ()) == inner


def test_relative_folders_are_followed_up_to_the_working_folder(tmp_path, monkeypatch):
    here = tmp_path / "here"
    (here / "a" / "b").mkdir(parents=True)
    (here / "a" / "inner.mark").touch()
    (here / "outer.mark").touch()
    (tmp_path / "above.mark").touch()
    monkeypatch.chdir(here)
    folder = Path("a/b")
    assert project_root(folder, ("inner.mark",)) == Path("a")
    assert project_root(folder, ("outer.mark",)) == Path()
    assert project_root(folder, ("above.mark",)) is folder
    assert project_root(Path("/"), ("no.mark",)) == Path("/")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_pointer_that_cannot_be_read_is_no_trust(repository, worktree):
    (worktree / ".git").chmod(0)
    assert main_checkout(worktree) == worktree


def test_an_empty_folder_in_the_place_of_dot_git_marks_no_root(tmp_path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / ".git").mkdir()
    before = git_root(tmp_path)
    assert git_root(inner) == before
    (tmp_path / "outer" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert git_root(inner) == tmp_path / "outer"
