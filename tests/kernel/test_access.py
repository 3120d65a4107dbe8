"""Policies become real folders, and protected names in them stay protected by whatever root they are reached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.commands.access import deny_write_text
from codex_framework.commands.access import file_access as resolved
from codex_framework.contract.permissions.file_access import PROTECTED_NAMES, FileAccess, NetworkMode, WritableRoot
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import DangerFullAccess, ExternalSandbox, ReadOnly, WorkspaceWrite


def file_access(policy, cwd, environ):
    return resolved(permissions_of(policy), cwd, environ)


def only_workspace(*roots: Path, **options: bool) -> WorkspaceWrite:
    return WorkspaceWrite(tuple(map(str, roots)), exclude_slash_tmp=True, exclude_tmpdir_env_var=True, **options)


@pytest.mark.parametrize("policy", [DangerFullAccess(), ExternalSandbox(), ExternalSandbox("enabled")])
def test_full_access_and_outside_sandboxes_leave_nothing_to_confine(policy, tmp_path):
    access = file_access(policy, tmp_path, {})
    assert access == FileAccess(full=True, network=NetworkMode.ON)
    assert not access.confines


def test_read_only_writes_nowhere(tmp_path):
    assert file_access(ReadOnly(), tmp_path, {}) == FileAccess()
    assert file_access(ReadOnly(network_access=True), tmp_path, {}) == FileAccess(network=NetworkMode.ON)
    assert not FileAccess().may_write(tmp_path / "file")


def test_a_workspace_is_writable_but_for_the_protected_names(tmp_path):
    access = file_access(only_workspace(), tmp_path, {})
    kept = [tmp_path / name for name in (*PROTECTED_NAMES, ".aws")]
    assert access == FileAccess.writing(tmp_path, read_only=kept)
    assert access.roots == (WritableRoot(tmp_path, tuple(sorted(kept))),)
    assert access.may_write(tmp_path / "deep" / "file")
    assert not access.may_write(tmp_path / ".git" / "config")
    assert not access.may_write(tmp_path / ".codex")
    assert access.may_write(tmp_path / ".gitignore")
    assert not access.may_write(tmp_path.parent / "other")


def test_the_temp_folders_are_roots_unless_excluded(tmp_path):
    temp = tmp_path / "temp"
    temp.mkdir()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    environ = {"TMPDIR": str(temp)}

    def roots(policy):
        return {root.root for root in file_access(policy, workspace, environ).roots}

    assert roots(WorkspaceWrite()) == {workspace, Path("/tmp").resolve(), temp}
    assert roots(WorkspaceWrite(exclude_slash_tmp=True)) == {workspace, temp}
    assert roots(WorkspaceWrite(exclude_tmpdir_env_var=True)) == {workspace, Path("/tmp").resolve()}
    assert roots(WorkspaceWrite((str(temp),), exclude_slash_tmp=True)) == {temp, workspace}


@pytest.mark.parametrize("tmpdir", ["", "relative/folder", "with\0null"])
def test_a_useless_tmpdir_is_no_root(tmpdir, tmp_path):
    access = file_access(WorkspaceWrite(exclude_slash_tmp=True), tmp_path, {"TMPDIR": tmpdir})
    assert [root.root for root in access.roots] == [tmp_path]


def test_roots_are_real_paths_and_each_stands_once(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    access = file_access(only_workspace(link, Path("../real")), real, {})
    assert [root.root for root in access.roots] == [real]


def test_a_workspace_inside_another_root_stays_protected(tmp_path):
    workspace = tmp_path / "project"
    workspace.mkdir()
    access = file_access(only_workspace(tmp_path), workspace, {})
    assert access.may_write(tmp_path / "other")
    assert not access.may_write(workspace / ".git" / "hooks" / "pre-commit")
    assert not access.may_write(tmp_path / ".git")


def test_a_protected_name_that_is_asked_for_can_be_written(tmp_path):
    access = file_access(only_workspace(tmp_path / ".git"), tmp_path, {})
    assert access.may_write(tmp_path / ".git" / "config")
    assert not access.may_write(tmp_path / ".codex" / "config.toml")


def test_a_git_file_protects_what_it_points_to(tmp_path):
    main = tmp_path / "main" / ".git"
    linked = main / "worktrees" / "one"
    linked.mkdir(parents=True)
    (linked / "commondir").write_text("../..\n")
    workspace = tmp_path / "one"
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {linked}\n")
    access = file_access(only_workspace(tmp_path), workspace, {})
    for kept in (workspace / ".git", linked / "HEAD", main / "hooks" / "post-checkout"):
        assert not access.may_write(kept)
    assert access.may_write(tmp_path / "main" / "file")


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\0gitdir: x", b"gitdir:", b"gitdir: a\0b", b"gitdir: ../../..\n", b"x" * 100_000]
)
def test_a_strange_git_file_is_protected_itself(content, tmp_path):
    (tmp_path / ".git").write_bytes(content)
    access = file_access(only_workspace(), tmp_path, {})
    assert not access.may_write(tmp_path / ".git")
    assert access.may_write(tmp_path / "file")


def test_a_git_fifo_does_not_block(tmp_path):
    os.mkfifo(tmp_path / ".git")
    assert not file_access(only_workspace(), tmp_path, {}).may_write(tmp_path / ".git")


def test_a_protected_symlink_protects_its_target_too(tmp_path):
    (tmp_path / "settings").mkdir()
    (tmp_path / ".codex").symlink_to("settings")
    access = file_access(only_workspace(), tmp_path, {})
    assert not access.may_write(tmp_path / ".codex" / "config.toml")
    assert not access.may_write(tmp_path / "settings" / "config.toml")


def test_symlinks_do_not_lead_out(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "out").symlink_to(tmp_path)
    (workspace / "loop").symlink_to("loop")
    access = file_access(only_workspace(), workspace, {})
    assert not access.may_write(workspace / "out" / "file")


def test_equal_accesses_are_one_object(tmp_path):
    assert file_access(only_workspace(), tmp_path, {}) is file_access(only_workspace(), tmp_path, {"HOME": "/x"})


def test_the_words_of_a_refusal_say_whether_anything_can_be_written(tmp_path):
    assert deny_write_text(file_access(only_workspace(), tmp_path, {})) == "writing outside of the project"
    assert deny_write_text(FileAccess()) == "writing is blocked by read-only sandbox"


NAMES = st.sampled_from(["a", "b", ".git", ".codex", ".agents", "..."])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: Path("/no-such-root", *parts))


@given(roots=st.lists(PATHS, max_size=4), cwd=PATHS, target=PATHS)
def test_writing_is_allowed_exactly_below_a_root_and_outside_of_what_is_kept(roots, cwd, target):
    access = file_access(only_workspace(*roots), cwd, {})
    named = {*roots, cwd}
    kept = {root / name for root in named for name in PROTECTED_NAMES} - named
    # the nearest of both kinds decides, and a root that was named wins over a name that is protected by default
    around = [path for path in (target, *target.parents) if path in named or path in kept]
    assert access.may_write(target) == (bool(around) and around[0] in named)


@given(roots=st.lists(PATHS, max_size=4), cwd=PATHS)
def test_kept_paths_lie_below_their_root_and_are_no_roots_themselves(roots, cwd):
    for root in file_access(only_workspace(*roots), cwd, {}).roots:
        assert all(path.is_relative_to(root.root) and path != root.root for path in root.read_only)


def test_credentials_in_a_workspace_are_protected_present_or_not(tmp_path):
    access = file_access(only_workspace(), tmp_path, {})
    assert not access.may_write(tmp_path / ".aws" / "config")
    (tmp_path / ".aws").mkdir()
    access = file_access(only_workspace(), tmp_path, {})
    assert not access.may_write(tmp_path / ".aws" / "config")
    assert access.may_read(tmp_path / ".aws" / "config")
