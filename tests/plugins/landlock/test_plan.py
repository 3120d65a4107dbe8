"""A plan allows what the access allows: as a list of mounts, as a list of Landlock rules, and for real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codex_framework.commands.access import file_access
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_plugin_landlock.jail.grants import allowed
from codex_plugin_landlock.jail.parts import parts
from codex_plugin_landlock.plan import plan_for

NAMES = st.sampled_from(["a", "b", ".git", ".codex", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: Path("/no-such-root", *names))


def access_to(roots, cwd):
    policy = WorkspaceWrite(tuple(map(str, roots)), exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    return file_access(permissions_of(policy), cwd, {})


@given(roots=st.lists(PATHS, max_size=4), cwd=PATHS, target=PATHS)
@example(
    roots=[Path("/no-such-root/.git"), Path("/no-such-root/.git/.git/.git/a")],
    cwd=Path("/no-such-root/c"),
    target=Path("/no-such-root/.git/.git/.git"),
)
def test_the_innermost_mount_says_what_the_access_says(roots, cwd, target):
    access = access_to(roots, cwd)
    mounted = [part for part in parts(plan_for(access).data) if target.is_relative_to(part.path)]
    assert access.may_write(target) == (bool(mounted) and mounted[-1].kind == "writable")


@given(roots=st.lists(PATHS, max_size=4), cwd=PATHS)
def test_every_folder_above_a_protected_path_is_pinned(roots, cwd):
    access = access_to(roots, cwd)
    listed = parts(plan_for(access).data)
    mounted = {Path(part.path) for part in listed}
    for kept in (Path(part.path) for part in listed if part.kind == "read-only"):
        movable = [folder for folder in kept.parents if access.may_write(folder.parent)]
        assert set(movable) <= mounted


def test_full_access_without_network_mounts_nothing_anew():
    assert parts(plan_for(FileAccess(full=True)).data) == []


def allowed_in(root, *kept):
    kinds = {"/": "read-only", str(root): "writable", **{str(path): "read-only" for path in kept}}
    return {path for path, rights in allowed(kinds) if rights == -1}


def test_a_folder_without_protected_entries_is_granted_as_a_whole(tmp_path):
    assert allowed_in(tmp_path, tmp_path / ".git") == {str(tmp_path)}


def test_beside_a_protected_entry_each_entry_is_granted_alone(tmp_path):
    for name in (".git", "a", "b/kept", "b/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("/etc")
    granted = allowed_in(tmp_path, tmp_path / ".git", tmp_path / "b" / "kept")
    assert granted == {str(tmp_path / "a"), str(tmp_path / "b" / "c")}


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_real_writes_succeed_exactly_where_the_access_says(harness, place, level):
    if reason := harness.reason_to_skip(level, "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    inner = place.outside / "repo" / ".git" / "inner"
    inner.mkdir(parents=True)
    (place.outside / "repo" / "src").mkdir()
    (place.work / "sub").mkdir()
    roots = (place.work, place.outside / "repo", inner, place.outside / "victim", place.base / "no-such-root")
    kept = [place.work / name for name in (".git", ".codex", "sub/kept")]
    access = FileAccess.writing(*roots, read_only=[*kept, place.outside / "repo" / ".git", inner / ".git"])
    targets = [
        place.work / ".git" / "config",
        place.work / "file",
        place.work / "sub" / "new",
        place.outside / "folder" / "new",
        place.outside / "new",
        place.outside / "repo" / "src" / "new",
        place.outside / "repo" / ".git" / "new",
        inner / "new",
        place.outside / "victim",
        Path("/dev/null"),
        Path("/etc/new"),
    ]
    commands = {str(path): ("/bin/sh", "-c", f": >> {path}") for path in targets}
    ended = harness.run_all(level, "root", access, place.work, commands)
    written = {path for path, one in ended.items() if one.exit_code == 0}
    assert written == {str(path) for path in targets if access.may_write(path) or path == Path("/dev/null")}


def test_a_root_in_dev_shm_can_be_written(harness, tmp_path):
    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    root = Path("/dev/shm") / f"root-{os.getpid()}"
    root.mkdir()
    try:
        access = FileAccess.writing(root, read_only=[root / ".git"])
        command = ("/bin/sh", "-c", "touch a; mkdir .git/x; ls -A; ls /dev/shm")
        ended = harness.run_all("namespaces", "root", access, root, {"it": command})["it"]
        assert ended.output.splitlines()[1:] == [".git", "a", root.name]
        assert [path.name for path in root.iterdir()] == ["a"]
    finally:
        (root / "a").unlink(missing_ok=True)
        root.rmdir()


def test_the_whole_file_system_can_be_a_root(harness, place):
    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    access = FileAccess.writing(Path("/"), read_only=[place.work / ".git"])
    command = ("/bin/sh", "-c", f"touch {place.outside}/new; touch .git/new")
    ended = harness.run_all("namespaces", "root", access, place.work, {"it": command})["it"]
    assert ended.output == "touch: cannot touch '.git/new': Read-only file system\n"
    assert (place.outside / "new").exists()
