"""Which places are protected, and that neither a workspace above them nor a grant inside them makes them writable."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from codex_framework.commands import protected_paths
from codex_framework.commands.access import file_access
from codex_framework.commands.protected_paths import find_protected_paths
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.permissions import AbsolutePath, AccessMode, FileEntry
from codex_framework.contract.protocol.policies import WorkspaceWrite


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def prefix(root: Path) -> Iterator[Path]:
    """An interpreter of this test alone."""
    folder = root / "venv"
    (folder / "lib" / "python3" / "site-packages").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "project").mkdir()
    with mock.patch.object(sys, "prefix", str(folder)):
        protected_paths._process_paths.cache_clear()
        yield folder
    protected_paths._process_paths.cache_clear()


def access_to(cwd: Path, *granted: Path, deciding: protected_paths.ProtectedPaths) -> FileAccess:
    """The access of a turn in ``cwd``, to which the user has granted further folders."""
    entries = tuple(FileEntry(AbsolutePath(str(path)), AccessMode.WRITE) for path in granted)
    permissions = permissions_of(WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True))
    return file_access(permissions.evolve(granted=entries), cwd, {}, deciding)


@pytest.mark.parametrize("found_by", ["argument", "CODEX_HOME", "HOME"])
def test_the_home_is_protected_as_a_whole_in_a_workspace_around_it(root: Path, found_by: str) -> None:
    home = root / "user" / (".codex" if found_by == "HOME" else "settings")
    home.mkdir(parents=True)
    environ = {"argument": {}, "CODEX_HOME": {"CODEX_HOME": str(home)}, "HOME": {"HOME": str(home.parent)}}[found_by]
    deciding = find_protected_paths(home if found_by == "argument" else None, environ=environ)
    assert deciding.homes == (str(home),)
    access = access_to(root, deciding=deciding)
    assert access.may_write(home.parent / "file")
    for name in ("config.toml", "what_comes_with_the_next_version.toml", "folder/file"):
        assert not access.may_write(home / name), name


def test_a_relative_codex_home_begins_in_the_working_folder_of_the_process(root: Path, monkeypatch) -> None:
    monkeypatch.chdir(root)
    assert find_protected_paths(environ={"CODEX_HOME": "here", "HOME": "/nowhere"}).homes == (str(root / "here"),)
    assert find_protected_paths(environ={"HOME": "not/absolute"}).homes == ()


def test_the_home_does_not_become_writable_as_the_workspace(root: Path) -> None:
    access = access_to(root, root, deciding=find_protected_paths(root, environ={}))
    assert not access.may_write(root / "file")
    assert not access.may_write(root / "config.toml")


def test_a_folder_of_the_home_can_be_the_workspace_unless_it_decides(root: Path) -> None:
    for name in ("worktrees", "rules", "rules_of_mine"):
        (root / name).mkdir()
    deciding = find_protected_paths(root, environ={})
    assert access_to(root / "worktrees", deciding=deciding).may_write(root / "worktrees/file")
    assert access_to(root / "rules_of_mine", deciding=deciding).may_write(root / "rules_of_mine/file")
    assert not access_to(root / "rules", deciding=deciding).may_write(root / "rules/file")


@pytest.mark.parametrize("inside", ["rules", "rules/deep", "rules/deep/deeper", "skills/mine", "plugins/mine/src"])
def test_a_grant_within_a_protected_folder_grants_nothing(root: Path, inside: str) -> None:
    home, work = root / "home", root / "work"
    (home / inside).mkdir(parents=True)
    work.mkdir()
    access = access_to(work, home / inside, deciding=find_protected_paths(home, environ={}))
    assert not access.may_write(home / inside / "file")
    assert access.mode_of(home / inside / "file") is AccessMode.READ
    assert access.may_write(work / "file")


def test_code_of_plugins_is_protected_wherever_it_is(root: Path) -> None:
    work = root / "work"
    for name in ("plugins/mine", "plugins_of_mine"):
        (work / name).mkdir(parents=True)
    (work / "one_file.py").touch()
    code = [str(work / "plugins"), str(work / "one_file.py"), str(work / "plugins/mine/inner.py")]
    access = access_to(work, work / "plugins/mine", deciding=find_protected_paths(root / "home", environ={}, code=code))
    written = {path: access.may_write(work / path) for path in ("plugins/mine/inner.py", "plugins/new", "one_file.py")}
    assert not any(written.values()), written
    assert access.may_write(work / "plugins_of_mine/file")


def test_code_in_the_interpreters_folder_is_protected_by_its_own_path_unless_that_is_protected(
    root: Path, prefix: Path
) -> None:
    """A plugin in site-packages is covered by ``lib``, one of an editable install beside it is not."""
    covered = prefix / "lib/python3/site-packages/covered.py"
    editable = [prefix / name for name in ("project/plugin.py", "library/plugin.py", "bin_of_mine/plugin.py")]
    deciding = find_protected_paths(root / "home", environ={}, code=map(str, (covered, *editable)))
    assert str(covered) not in deciding.paths
    access = access_to(prefix, deciding=deciding)
    for path in (covered, *editable, prefix / "bin/python"):
        assert not access.may_write(path), path
    assert access.may_write(prefix / "project/file")


def test_code_that_is_only_linked_into_the_interpreters_folder_is_protected_where_it_is(
    root: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is how ``uv`` installs with ``link-mode = "symlink"``: folders, with links to files in its cache."""
    installed, cache = prefix / "lib/python3/site-packages", root / "work/cache"
    for archive, name in (("a1", "plugin/__init__.py"), ("a1", "plugin/inner/deep.py"), ("b2", "other.py")):
        distribution = f"{name.split('/')[0]}-1.0.dist-info/METADATA"
        for part in (name, distribution):
            for place in (cache / archive / part, installed / part):
                place.parent.mkdir(parents=True, exist_ok=True)
            (cache / archive / part).touch()
            if not (installed / part).is_symlink():
                (installed / part).symlink_to(cache / archive / part)
    (installed / "own-1.0.dist-info").mkdir()
    (installed / "own-1.0.dist-info/METADATA").touch()
    monkeypatch.setattr(sys, "path", [str(installed), str(root / "missing"), ""])
    protected_paths._process_paths.cache_clear()
    deciding = find_protected_paths(root / "home", environ={}, code=[str(installed / "plugin")])
    access = access_to(root / "work", deciding=deciding)
    for path in ("a1/plugin/__init__.py", "a1/plugin/inner/deep.py", "a1/plugin/new.py", "b2/other.py", "b2/new.py"):
        assert not access.may_write(cache / path), path
    assert access.may_write(cache / "c3/file")
    assert access.may_write(root / "work/file")


def test_the_interpreter_is_protected_as_a_whole_in_a_workspace_around_it(root: Path, prefix: Path) -> None:
    access = access_to(root, deciding=find_protected_paths(root / "home", environ={}))
    assert not access.may_write(prefix / "new" / "file")
    assert access.may_write(root / "file")
