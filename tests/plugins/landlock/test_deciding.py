"""What decides about later commands and sessions cannot be written, wherever it lies: real commands, in each level, as each user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_framework.commands.access import file_access
from codex_framework.commands.protected_paths import find_protected_paths
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_framework.testing.conformance.attempts import Scene, deciding_attempts

MODES = [(level, user) for level in ("namespaces", "landlock") for user in ("root", "ordinary")]


@pytest.fixture
def base() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="deciding-"))
    yield made
    shutil.rmtree(made)


def give(folder: Path, uid: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, -1, follow_symlinks=False)


def user_of(harness, level: str, user: str) -> int:
    reason = harness.reason_to_skip(level, user)
    if reason:
        pytest.skip(reason)
    return harness.ORDINARY_UID if user == "ordinary" and os.geteuid() == 0 else os.geteuid()


@pytest.mark.parametrize(("level", "user"), MODES)
def test_what_decides_stays_as_it_is(harness, base: Path, level: str, user: str):
    uid = user_of(harness, level, user)
    scene = Scene(base)
    try:
        give(base, uid)
        attempts = deciding_attempts(scene)
        commands = {attempt.what: attempt.argv for attempt in attempts}
        commands["work"] = ("/bin/sh", "-c", f"echo done > {scene.work}/folder/done")
        ended = harness.run_all(level, user, scene.access(), scene.work, commands)
        assert (scene.work / "folder" / "done").read_text() == "done\n"
        assert {attempt.what for attempt in attempts if attempt.succeeded(ended[attempt.what].output)} == set()
    finally:
        scene.close()


@pytest.mark.parametrize(("level", "user"), MODES)
def test_symlinks_that_lead_to_what_decides_cannot_be_exchanged(harness, base: Path, level: str, user: str):
    uid = user_of(harness, level, user)
    work, real, evil = base / "work", base / "real", base / "work" / "evil"
    for folder in (work / "sub", real / "rules", evil / "rules"):
        folder.mkdir(parents=True)
    (evil / "rules" / "x.rules").write_text("evil")
    home = work / "sub" / "home"
    home.symlink_to(real)
    give(base, uid)
    permissions = permissions_of(WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True))
    access = file_access(permissions, work, {}, find_protected_paths(home, environ={}))
    scripts = {
        "exchange": f"ln -sfn {evil} {home}",
        "remove": f"rm {home}; ln -s {evil} {home}",
        "rename": f"ln -s {evil} {work}/other; mv -T {work}/other {home}",
        "around": f"mv {work}/sub {work}/old; mkdir {work}/sub; ln -s {evil} {home}",
    }
    commands = {name: ("/bin/sh", "-c", script) for name, script in scripts.items()}
    harness.run_all(level, user, access, work, commands)
    assert home.readlink() == real
    assert not (home / "rules" / "x.rules").exists()
