"""Replacing files: whole or not at all, and only where it is allowed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from codex_framework.toolkit.replacement import NotPermittedError, replace_file


class Asked:
    """Permissions of which a function decides."""

    def __init__(self, may_write: Callable[[Path], bool]) -> None:
        self._may_write = may_write

    def permits_reading(self, path: str, links: Iterable[str] = ()) -> bool:
        return False

    def permits_writing(self, path: str, links: Iterable[str] = ()) -> bool:
        return self._may_write(Path(path))


def below(root: Path) -> Asked:
    return Asked(lambda path: path.is_relative_to(root))


def test_a_file_is_made_with_its_folders_and_replaced_with_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b.txt"
    replace_file(target, b"one", below(tmp_path))
    target.chmod(0o640)
    replace_file(target, b"two", below(tmp_path))
    assert target.read_bytes() == b"two"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["b.txt"], "no temporary file is left"


def test_a_symlink_out_of_the_permitted_folder_is_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (inside / "link").symlink_to(outside / "kept")
    (inside / "folder").symlink_to(outside)
    for target in (inside / "link", inside / "folder" / "new", inside / ".." / "out" / "new"):
        with pytest.raises(NotPermittedError):
            replace_file(target, b"x", below(inside))
    assert (outside / "kept").read_text() == "kept"
    assert [path.name for path in outside.iterdir()] == ["kept"]


def test_a_folder_swapped_between_the_check_and_the_write_does_not_redirect_it(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    swapped = False

    def may_write(path: Path) -> bool:
        nonlocal swapped
        allowed = path.is_relative_to(inside)
        if not swapped:  # what an attacker does as soon as the path has been looked at
            swapped = True
            (inside / "sub").rename(inside / "old")
            (inside / "sub").symlink_to(outside)
        return allowed

    replace_file(inside / "sub" / "file", b"x", Asked(may_write))
    assert list(outside.iterdir()) == []
    assert (inside / "old" / "file").read_bytes() == b"x", (
        "it goes to the folder that was checked, whatever its name is now"
    )


def test_folders_pipes_and_devices_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(OSError, match=r"directory|regular"):
            replace_file(tmp_path / name, b"x", below(tmp_path))


def test_the_new_content_is_on_the_disk_before_the_old_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, synced, fsync = tmp_path / "file", [], os.fsync
    target.write_bytes(b"old")

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.fstat(descriptor).st_size, os.fstat(descriptor).st_mode & 0o777, target.read_bytes()))

    monkeypatch.setattr(os, "fsync", watched)
    replace_file(target, b"newer", mode=0o600)
    assert synced == [(5, 0o600, b"old")]
    replace_file(target, b"unsynced", sync=False)
    assert len(synced) == 1
    assert target.read_bytes() == b"unsynced"


def test_a_mode_that_is_asked_for_holds_whatever_the_umask_and_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"")
    target.chmod(0o640)
    replace_file(target, b"", mode=0o777)
    assert target.stat().st_mode & 0o777 == 0o777


def test_without_a_check_a_symlink_is_followed_and_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real/file")
    replace_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_bytes() == b"new"


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_the_last_look_at_the_old_file_raises_keeps_it(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def ready() -> None:
        assert target.read_text() == "old"
        raise RuntimeError("changed")

    with pytest.raises(RuntimeError, match="changed"):
        replace_file(target, b"new", ready=ready)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    os.chown(target, 1234, 1235)
    target.chmod(0o640)
    replace_file(target, b"new")
    status = target.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (1234, 1235, 0o640)
