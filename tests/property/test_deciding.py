"""Nothing that decides is writable: for generated placements of what decides, of the workspace and of what may be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codex_framework.commands import protected_paths
from codex_framework.commands.access import file_access
from codex_framework.commands.approval import patch_requirement
from codex_framework.contract.errors import ToolRefused
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.events.command import AddFile
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    FileEntry,
    ManagedPermissions,
    RestrictedFiles,
    Special,
    SpecialPath,
    UnrestrictedFiles,
)
from codex_framework.contract.protocol.policies import ApprovalPolicy, WorkspaceWrite

SLOTS = ("x", "x/a", "x/a/b", "x/c", "y")
LINKS = {"x/link": "x/a", "x/c/link": "y", "y/link": "x/c"}
"""Symlinks, some of which lie where commands may write."""

OF_HOME = (
    "config.toml",
    "new.config.toml",
    ".env",
    "auth.json",
    "rules/default.rules",
    "rules/new.rules",
    "tmp/programs/1/x",
)
OF_PREFIX = (
    "bin/python",
    "bin/new",
    "lib/python3/site-packages/httpx.py",
    "lib/python3/site-packages/new.py",
    "pyvenv.cfg",
)
OF_CODE = ("__init__.py", "new.py")
OF_PROJECT = (".codex/config.toml", ".codex/rules/new.rules", ".git/config")

PLACES = st.sampled_from([*SLOTS, *LINKS])
WRITES = st.lists(
    st.one_of(PLACES, st.sampled_from(["x/rules", "x/a/rules", "x/a/bin", "x/c/lib/python3", "x/missing", "/"])),
    max_size=4,
)
LEVELS = st.sampled_from(["workspace", "entries", "unrestricted"])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every folder can be a home, a prefix, a package and a project."""
    root = Path(os.path.realpath(tmp_path_factory.mktemp("tree")))
    for slot in SLOTS:
        for name in (*OF_HOME, *OF_PREFIX, *OF_CODE, *OF_PROJECT):
            if "new" not in name:
                path = root / slot / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("kept")
    for link, target in LINKS.items():
        (root / link).symlink_to(root / target)
    return root


def permissions_for(level: str, writes: list[str], granted: list[str], tree: Path) -> Permissions:
    if level == "unrestricted":
        return Permissions(profile=ManagedPermissions(UnrestrictedFiles()))
    more = tuple(FileEntry(AbsolutePath(str(tree / place)), AccessMode.WRITE) for place in granted)
    if level == "workspace":
        return permissions_of(WorkspaceWrite(writable_roots=tuple(str(tree / place) for place in writes))).evolve(
            granted=more
        )
    entries = [
        FileEntry(SpecialPath(Special.ROOT), AccessMode.READ),
        FileEntry(SpecialPath(Special.WORKSPACE_ROOTS), AccessMode.WRITE),
    ]
    entries += [FileEntry(AbsolutePath(str(tree / place)), AccessMode.WRITE) for place in writes]
    return Permissions(profile=ManagedPermissions(RestrictedFiles(tuple(entries))), granted=more)


def deciding_files(tree: Path, home: str, prefix: str, code: str, project: str) -> Iterator[Path]:
    for place, names in ((home, OF_HOME), (prefix, OF_PREFIX), (code, OF_CODE), (project, OF_PROJECT)):
        for name in names:
            yield tree / place / name
    yield Path(protected_paths.__file__)


@settings(max_examples=settings().max_examples * 2)
@given(
    level=LEVELS,
    writes=WRITES,
    granted=WRITES,
    cwd=PLACES,
    tmp=PLACES,
    home=PLACES,
    prefix=PLACES,
    code=PLACES,
    project=PLACES,
)
@example("workspace", [], [], "x", "y", "x/a", "x/c", "y", "x/a/b")
@example("workspace", [], [], "x", "y", "x", "x", "y", "x")
@example("workspace", [], [], "x/a", "y", "x/link", "x/link", "x/link", "x/link")
@example("workspace", [], [], "x", "x/a", "x", "x/link", "x/link", "x")
@example("entries", ["/"], ["x/rules"], "y", "y", "x", "x/a", "x/a/b", "x/c")
@example("entries", ["x/c/lib/python3"], ["x/rules"], "y", "y", "x", "x/c", "y", "y")
@example("unrestricted", [], [], "x", "y", "x/a", "x/c", "y", "x/a/b")
def test_nothing_that_decides_is_writable(tree, level, writes, granted, cwd, tmp, home, prefix, code, project):
    with mock.patch.object(sys, "prefix", str(tree / prefix)):
        protected_paths._process_paths.cache_clear()
        places = protected_paths.find_protected_paths(
            tree / home, environ={}, projects={str(tree / project): {"trust_level": "trusted"}}, code=[str(tree / code)]
        )
    protected_paths._process_paths.cache_clear()
    permissions = permissions_for(level, writes, granted, tree)
    access = file_access(permissions, tree / cwd, {"TMPDIR": str(tree / tmp)}, places)
    for path in deciding_files(tree, home, prefix, code, project):
        assert access.mode_of(Path(os.path.realpath(path))) is not AccessMode.WRITE, path
        assert not access.may_write(path)
        with pytest.raises(ToolRefused):
            patch_requirement(ApprovalPolicy.NEVER, access, {str(path): AddFile("evil")})
    for place in (home, prefix, code, project):
        for at in (tree / place, *(tree / place).parents):
            if at.is_symlink():
                assert not access.may_write(at.parent) or access.mode_of(at) is not AccessMode.WRITE, at


@given(cwd=st.sampled_from(SLOTS), tmp=PLACES)
def test_elsewhere_everything_stays_as_it_was(tree, cwd, tmp):
    """What decides takes nothing away beside it."""
    permissions, environ = permissions_for("workspace", [], [], tree), {"TMPDIR": str(tree / tmp)}
    places = protected_paths.find_protected_paths(
        tree / "x/a", environ={}, projects={}, code=[str(tree / "x/c/new.py")]
    )
    access = file_access(permissions, tree / cwd, environ, places)
    free = file_access(permissions, tree / cwd, environ, protected_paths.ProtectedPaths())
    for slot in SLOTS:
        for name in ("file", "folder/file"):
            path = tree / slot / name
            inside = path.is_relative_to(tree / "x/a") and not path.is_relative_to(tree / "x/a/b")
            chosen = cwd == "x/a/b" or tmp == "x/a/b"
            if not path.is_relative_to(tree / "x/a") or (chosen and not inside):
                assert access.mode_of(path) is free.mode_of(path)


def test_full_access_writes_everything(tree):
    from codex_framework.contract.protocol.policies import DangerFullAccess

    access = file_access(
        permissions_of(DangerFullAccess()), tree / "x", {}, protected_paths.find_protected_paths(tree / "x", environ={})
    )
    assert access.may_write(tree / "x/config.toml")
    assert not access.confines


def test_a_folder_in_codex_home_can_be_the_workspace(tree):
    """Worktrees and memories are kept there."""
    places = protected_paths.find_protected_paths(tree / "x", environ={})
    access = file_access(permissions_for("workspace", [], [], tree), tree / "x/a", {}, places)
    assert access.may_write(tree / "x/a/file")
    assert not access.may_write(tree / "x/file")
