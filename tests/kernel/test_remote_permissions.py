"""Permissions as they apply in an environment whose files cannot be seen from here."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import CodexError, EnvironmentInfo, FileAccess, NetworkMode, NetworkRules
from codex_framework.commands.remote_permissions import remote_access
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    AdditionalPermissions,
    FileEntry,
    FilePath,
    GlobPattern,
    Special,
    SpecialPath,
)
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite

INFO = EnvironmentInfo(shell="/bin/sh", home="/home/there", temporary="/var/tmp")
WORKSPACE = permissions_of(WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True))


def denying(*paths: FilePath) -> Permissions:
    return WORKSPACE.with_entries([FileEntry(path, AccessMode.DENY) for path in paths])


def reads(access: FileAccess, path: str) -> bool:
    return access.may_read(Path(path))


def writes(access: FileAccess, path: str) -> bool:
    return access.may_write(Path(path))


def test_a_workspace_there_can_be_written_but_for_protected_names() -> None:
    access = remote_access(WORKSPACE.evolve(workspace_roots=("/more",)), "/work", INFO)
    assert access.elsewhere
    assert access.network is NetworkMode.OFF
    assert writes(access, "/work/x")
    assert writes(access, "/more/x")
    assert not any(
        writes(access, path) for path in ("/", "/workx", "/work/.git/config", "/more/.codex/x", "/work/.agents")
    )
    assert not any(writes(access, path) for path in ("/work/../etc/x", "/work/.aws/x", "/tmp/x", "/var/tmp/x"))
    assert reads(access, "/etc/passwd")


def test_the_temporary_folders_are_those_of_the_environment() -> None:
    whole = permissions_of(WorkspaceWrite())
    access = remote_access(whole, "/work", INFO)
    assert writes(access, "/tmp/x")
    assert writes(access, "/var/tmp/x")
    assert not writes(remote_access(whole, "/work", None), "/var/tmp/x")


def test_read_only_and_full_access() -> None:
    access = remote_access(permissions_of(ReadOnly()), "/work", None)
    assert access.confines
    assert reads(access, "/x")
    assert not writes(access, "/work/x")
    full = remote_access(permissions_of(DangerFullAccess()), "/work", None)
    assert (full.full, full.elsewhere, full.confines) == (True, True, False)


def test_rules_of_hosts_stay_rules_of_hosts() -> None:
    rules = NetworkRules(domains={"example.com": "allow"})
    online = permissions_of(WorkspaceWrite(network_access=True)).evolve(network_rules=rules)
    access = remote_access(online, "/work", INFO)
    assert (access.network, access.network_rules) == (NetworkMode.PROXY, rules)
    assert remote_access(WORKSPACE.evolve(network_rules=rules), "/work", INFO).network is NetworkMode.OFF


@pytest.mark.parametrize(
    ("path", "denied", "free"),
    [
        (AbsolutePath("/work/secret"), "/work/secret/x", "/work/secrets"),
        (AbsolutePath("~/.ssh"), "/home/there/.ssh/id", "/home/other/.ssh/id"),
        (AbsolutePath("/work/../etc"), "/etc/passwd", "/work/etc"),
        (GlobPattern("/work/**/*.pem"), "/work/a/b.pem", "/work/a/b.pe"),
        (GlobPattern("*.env"), "/work/x.env", "/x.env"),
        (GlobPattern("~/*.key"), "/home/there/x.key", "/work/x.key"),
        (SpecialPath(Special.WORKSPACE_ROOTS, "private"), "/work/private/x", "/work/public"),
        (SpecialPath(Special.WORKSPACE_ROOTS, "**/*.pem"), "/work/a/b.pem", "/other/b.pem"),
        (SpecialPath(Special.TMPDIR), "/var/tmp/x", "/tmp/x"),
    ],
)
def test_what_is_denied_is_denied_there(path: FilePath, denied: str, free: str) -> None:
    access = remote_access(denying(path), "/work", INFO)
    assert not reads(access, denied)
    assert not writes(access, denied)
    assert reads(access, free)


@pytest.mark.parametrize(
    ("path", "info"),
    [
        (AbsolutePath("~/.ssh"), None),
        (AbsolutePath("~"), EnvironmentInfo(shell="/bin/sh")),
        (GlobPattern("~/*.key"), None),
        (GlobPattern("/work/{a,b"), INFO),
        (SpecialPath(Special.TMPDIR), None),
        (SpecialPath(Special.UNKNOWN), INFO),
        (SpecialPath(Special.WORKSPACE_ROOTS, "../x"), INFO),
        (SpecialPath(Special.WORKSPACE_ROOTS, "../*.pem"), INFO),
    ],
)
def test_what_is_denied_and_has_no_place_there_keeps_everything_from_running(
    path: FilePath, info: EnvironmentInfo | None
) -> None:
    with pytest.raises(CodexError, match="the permission profile denies something that has no place") as caught:
        remote_access(denying(path), "/work", info)
    assert caught.value.hint


def test_a_path_of_this_machine_is_not_looked_up(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")  # which says nothing about the same name there
    access = remote_access(WORKSPACE, str(tmp_path), INFO)
    assert writes(access, f"{tmp_path}/link/x")


def test_more_can_be_granted_there_but_not_what_is_denied_or_in_a_home_that_is_not_this_ones() -> None:
    permissions = denying(AbsolutePath("/secret"))
    access = remote_access(permissions, "/work", INFO)

    def widened(path: str) -> FileAccess:
        more = AdditionalPermissions((FileEntry(AbsolutePath(path), AccessMode.WRITE),))
        return remote_access(permissions.widened(more, access, Path("/work")), "/work", INFO)

    assert writes(widened("/granted"), "/granted/x")
    assert not writes(widened("/granted"), "/other")
    with pytest.raises(ValueError, match="is denied by the permission profile"):
        widened("/secret/x")
    with pytest.raises(ValueError, match="request the whole path"):
        widened("~/x")
