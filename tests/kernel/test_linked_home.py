"""Files of ``$CODEX_HOME`` that are links to files elsewhere, as those who keep their settings in a repository have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework.commands.access import file_access
from codex_framework.commands.protected_paths import find_protected_paths
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import WorkspaceWrite


@pytest.mark.parametrize(
    ("name", "held"), [("config.toml", True), ("hooks.json", True), ("rules", True), ("skills", False)]
)
def test_what_a_linked_file_of_the_home_leads_to_cannot_be_written_in_the_workspace(
    tmp_path: Path, name: str, held: bool
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    target = work / "settings" / name
    target.parent.mkdir(parents=True)
    if "." in name:
        target.write_text("")
        inside = target
    else:
        target.mkdir()
        inside = target / "new"
    (home / name).symlink_to(target)
    access = file_access(
        permissions_of(WorkspaceWrite()), work, deciding=find_protected_paths(home, environ={}), environ={}
    )
    assert access.may_write(inside) is not held
    assert access.may_write(work / "other")
