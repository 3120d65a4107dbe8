"""Empty folders in place of protected paths that do not exist, shared by the sandboxes of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework import SandboxError
from codex_framework.toolkit.placeholders import Placeholders, is_placeholder, remove_abandoned

OTHER = """
import sys
from codex_framework.toolkit.placeholders import Placeholders
held = Placeholders(sys.argv[1:])
print("held", flush=True)
sys.stdin.read()
held.release()
"""


def test_missing_paths_are_held_and_go_again(tmp_path: Path) -> None:
    outer, inner, kept = tmp_path / "outer", tmp_path / "outer" / "inner", tmp_path / "kept"
    kept.mkdir()
    umask = os.umask(0o077)
    try:
        held = Placeholders(map(str, (outer, inner, kept)))
    finally:
        os.umask(umask)
    assert is_placeholder(str(outer))
    assert is_placeholder(str(inner))
    assert outer.stat().st_mode & 0o7777 == 0o1755
    assert not is_placeholder(str(kept))
    held.release()
    held.release()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_what_stands_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").mkdir(mode=0o700)
    Placeholders(str(tmp_path / name) for name in ("file", "link", "folder")).release()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]
    assert (tmp_path / "folder").stat().st_mode & 0o7777 == 0o700


def test_a_symlink_that_takes_the_place_of_a_new_one_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, path = tmp_path / "secret", tmp_path / "placeholder"
    secret.touch(mode=0o600)
    make = os.mkdir

    def exchanged(*arguments: object) -> None:
        make(*arguments)  # type: ignore[arg-type]
        path.rmdir()
        path.symlink_to(secret)

    monkeypatch.setattr(os, "mkdir", exchanged)
    Placeholders([str(path)]).release()
    assert secret.stat().st_mode & 0o7777 == 0o600


def test_the_last_process_removes_what_several_hold(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    ours = Placeholders([str(path)])
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        ours.release()
        assert is_placeholder(str(path))
        other.communicate(b"")
    assert not path.exists()


def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "left"
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        other.kill()
    assert is_placeholder(str(path))
    Placeholders([str(path)]).release()
    assert not path.exists()


def test_only_placeholders_that_nobody_holds_are_removed_as_abandoned(tmp_path: Path) -> None:
    paths = {
        name: tmp_path / name
        for name in ("left", "held", "theirs", "used", "folder", "open", "file", "link", "missing")
    }
    mine = [str(paths["held"])]
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(paths["left"]), str(paths["used"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        remove_abandoned(map(str, paths.values()))
        assert is_placeholder(str(paths["left"])), "its process is running"
        other.kill()
    (paths["used"] / "file").touch()
    for name, mode in (("folder", 0o755), ("open", 0o1777)):
        paths[name].mkdir()
        paths[name].chmod(mode)
    paths["file"].touch()
    paths["file"].chmod(0o1755)
    held = Placeholders(mine)
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(paths["theirs"])], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        target = tmp_path / "target"
        target.mkdir()
        target.chmod(0o1755)
        paths["link"].symlink_to(target)
        before = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
        remove_abandoned(map(str, paths.values()))
        after = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
        assert before.keys() - after.keys() == {"left"}
        assert before == after | {"left": before["left"]}
        other.communicate(b"")
    held.release()
    assert not paths["held"].exists()
    assert not paths["theirs"].exists()


def test_one_in_which_something_was_created_becomes_an_ordinary_folder(tmp_path: Path) -> None:
    path = tmp_path / "used"
    held = Placeholders([str(path)])
    (path / "file").touch()
    held.release()
    assert (path / "file").exists()
    assert path.stat().st_mode & 0o7777 == 0o755


def test_a_folder_that_took_its_place_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "replaced"
    held = Placeholders([str(path)])
    path.rmdir()
    path.mkdir()
    held.release()
    assert path.is_dir()


def test_a_place_that_cannot_be_held_is_an_error_or_passed_over(tmp_path: Path) -> None:
    first, impossible = tmp_path / "first", tmp_path / "missing" / "inner"
    with pytest.raises(SandboxError, match=f"a placeholder for {impossible} cannot be created: No such file") as caught:
        Placeholders([str(first), str(impossible)])
    assert caught.value.hint
    assert not first.exists(), "nothing is left when there is an error"
    held = Placeholders([str(impossible), str(first)], lenient=True)
    assert is_placeholder(str(first))
    held.release()
    assert list(tmp_path.iterdir()) == []
