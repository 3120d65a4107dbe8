"""Snapshots of a repository's files, and going back to them: what changes, and what must not."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_plugin_undo.placing import place
from codex_plugin_undo.settings import Settings
from codex_plugin_undo.snapshots import SnapshotError, Store

Make = Callable[..., Store]
PATH = os.environ["PATH"]


@pytest.fixture
def store(tmp_path: Path, repo: Path) -> Make:
    def make(folder: Path = repo, owner: str = "t", path: str = PATH, **settings: Any) -> Store:
        return Store(tmp_path / "home", repo, folder, Settings(**settings), owner, path)

    return make


def state(root: Path) -> dict[str, bytes | str]:
    """Every file with its content, and every symlink with its target, outside of the repository's own folder."""
    found: dict[str, bytes | str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(".git/") or name == ".git":
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def their(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted((root / ".git").rglob("*")) if path.is_file()}


def around(store: Store, change: Callable[[], object]) -> Any:
    """Take a snapshot, change something, and go back."""

    async def story() -> Any:
        snapshot = await store.take("turn")
        await asyncio.to_thread(change)
        return await store.restore(snapshot.commit)

    return asyncio.run(story())


def test_all_that_a_turn_did_is_undone_and_the_repository_is_not_touched(store: Make, repo: Path) -> None:
    before, theirs = state(repo), their(repo)

    def change() -> None:
        (repo / "src" / "a.py").write_text("a = 2\n")
        (repo / "b.txt").unlink()
        (repo / "untracked.txt").write_text("overwritten\n")
        (repo / "new" / "deep").mkdir(parents=True)
        (repo / "new" / "deep" / "file").write_text("new\n")
        (repo / "link").symlink_to("/etc/passwd")
        (repo / "ignored.env").write_text("other\n")

    done = around(store(), change)
    assert state(repo) == {**before, "ignored.env": b"other\n"}
    assert not (repo / "new").exists()
    assert (done.written, done.removed) == (3, 2)
    assert their(repo) == theirs


def test_symlinks_are_restored_as_they_were(store: Make, repo: Path) -> None:
    (repo / "link").symlink_to("b.txt")
    (repo / "away").symlink_to("/nowhere")
    before = state(repo)

    def change() -> None:
        (repo / "link").unlink()
        (repo / "link").write_text("a file")
        (repo / "away").unlink()

    around(store(), change)
    assert state(repo) == before
    assert (repo / "b.txt").read_bytes() == b"one\r\ntwo\n\xff"


def test_nothing_is_lost_by_going_back(store: Make, repo: Path) -> None:
    def change() -> None:
        (repo / "src" / "a.py").write_text("a = 2\n")
        (repo / "made").write_text("made\n")

    done = around(store(), change)
    assert not (repo / "made").exists()
    asyncio.run(store().restore(done.before))
    assert (repo / "made").read_text() == "made\n"
    assert (repo / "src" / "a.py").read_text() == "a = 2\n"


def test_nothing_changed_means_nothing_written(store: Make, repo: Path) -> None:
    inodes = {path: path.stat().st_ino for path in repo.rglob("*")}
    done = around(store(), lambda: None)
    assert done.summary == "The files are already as they were before the turn."
    assert {path: path.stat().st_ino for path in repo.rglob("*")} == inodes


def test_files_are_restored_byte_by_byte_whatever_the_attributes_say(store: Make, repo: Path) -> None:
    (repo / ".gitattributes").write_text("* text eol=crlf ident filter=evil working-tree-encoding=UTF-16\n")
    (repo / "b.txt").write_bytes(b"a\r\nb\n$Id$\n")
    before = state(repo)
    around(store(), lambda: (repo / "b.txt").write_bytes(b"gone"))
    assert state(repo) == before


def test_no_program_of_the_repository_is_run(store: Make, repo: Path, tmp_path: Path, git: Callable[..., str]) -> None:
    proof = tmp_path / "ran"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {proof}\ncat\n")
    script.chmod(0o755)
    hooks = repo / ".git" / "hooks"
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        shutil.copy(script, hooks / hook)
    for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "core.sshCommand", "core.pager"):
        git(repo, "config", key, str(script))
    (repo / ".gitattributes").write_text("* filter=evil\n")
    around(store(), lambda: (repo / "b.txt").write_bytes(b"changed"))
    assert not proof.exists()


def test_what_was_ignored_before_is_not_removed_when_the_turn_changes_the_rules(store: Make, repo: Path) -> None:
    def change() -> None:
        (repo / ".gitignore").write_text("")
        (repo / "new").write_text("")

    around(store(), change)
    assert (repo / "ignored.env").read_text() == "secret\n"
    assert (repo / ".gitignore").read_text() == "ignored*\n"
    assert not (repo / "new").exists()


def test_large_files_and_crowded_folders_are_left_alone_and_told(store: Make, repo: Path) -> None:
    (repo / "large.bin").write_bytes(b"x" * (2 << 20))
    (repo / "many").mkdir()
    for number in range(12):
        (repo / "many" / str(number)).write_text("")
    made = store(largest_untracked_mib=1, most_untracked_files=10)

    async def story() -> Any:
        snapshot = await made.take("turn")
        (repo / "large.bin").write_bytes(b"small now")  # both would be in a snapshot now
        for number in range(5):
            (repo / "many" / str(number)).unlink()
        await made.restore(snapshot.commit)
        return snapshot.notes

    notes = asyncio.run(story())
    assert notes == (
        "1 untracked files are too large for snapshots. Undo does not restore them.",
        "1 folders have too many untracked files for snapshots. Undo does not restore the files in them.",
    )
    assert (repo / "large.bin").read_bytes() == b"small now"
    assert len(list((repo / "many").iterdir())) == 7


def test_names_may_be_anything(store: Make, repo: Path) -> None:
    names = [b"new\nline", b"tab\there", b"\xff\xfe", b"--option", b":(top)magic", b'"quoted"', b" blank ", b"*"]
    root = os.fsencode(repo)
    for name in names:
        Path(os.fsdecode(root + b"/" + name)).write_bytes(name)
    before = state(repo)

    def change() -> None:
        for name in names[::2]:
            Path(os.fsdecode(root + b"/" + name)).unlink()
        for name in names[1::2]:
            Path(os.fsdecode(root + b"/" + name)).write_bytes(b"changed")
        Path(os.fsdecode(root + b"/-\xfd\n")).write_bytes(b"")

    around(store(), change)
    assert state(repo) == before


def test_no_symlink_leads_out_of_the_folder(store: Make, repo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("theirs\n")
    (outside / "extra").write_text("theirs\n")

    def change() -> None:
        shutil.rmtree(repo / "src")
        (repo / "src").symlink_to(outside)

    around(store(), change)
    assert (repo / "src" / "a.py").read_text() == "a = 1\n"
    assert not (repo / "src").is_symlink()
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a.py": "theirs\n", "extra": "theirs\n"}


def test_a_folder_in_place_of_a_file_and_a_file_in_place_of_a_folder(store: Make, repo: Path) -> None:
    before = state(repo)

    def change() -> None:
        shutil.rmtree(repo / "src")
        (repo / "src").write_text("a file")
        (repo / "b.txt").unlink()
        (repo / "b.txt").mkdir()
        (repo / "b.txt" / "inner").write_text("")

    around(store(), change)
    assert state(repo) == before


def test_permissions_survive(store: Make, repo: Path) -> None:
    (repo / "src" / "a.py").chmod(0o600)
    (repo / "b.txt").chmod(0o755)

    def change() -> None:
        (repo / "src" / "a.py").write_text("changed")
        (repo / "b.txt").write_text("changed")
        (repo / "b.txt").chmod(0o644)

    around(store(), change)
    assert stat.S_IMODE((repo / "src" / "a.py").stat().st_mode) == 0o600
    assert (repo / "b.txt").stat().st_mode & 0o111


def test_only_the_folder_of_the_turn_is_restored(store: Make, repo: Path) -> None:
    def change() -> None:
        (repo / "src" / "a.py").write_text("changed")
        (repo / "b.txt").write_text("changed")

    around(store(folder=repo / "src"), change)
    assert (repo / "src" / "a.py").read_text() == "a = 1\n"
    assert (repo / "b.txt").read_text() == "changed"


def test_nested_repositories_and_submodules_are_left_alone(store: Make, repo: Path, git: Callable[..., str]) -> None:
    inner = repo / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "file").write_text("one")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "x")
    git(repo, "add", "inner")
    around(store(), lambda: (inner / "file").write_text("two"))
    assert (inner / "file").read_text() == "two"


def test_a_linked_worktree_and_a_repository_without_commits(
    store: Make, repo: Path, tmp_path: Path, git: Callable[..., str]
) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", str(linked))
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    for root in (linked, empty):
        (root / "file").write_text("one")
        made = Store(tmp_path / "home", root, root, Settings(), "t", PATH)
        around(made, lambda root=root: (root / "file").write_text("two"))
        assert (root / "file").read_text() == "one"


def test_threads_share_what_they_know_and_not_their_snapshots(store: Make, repo: Path) -> None:
    async def story() -> None:
        one, other = store(owner="one"), store(owner="other")
        first, second = await asyncio.gather(one.take("1"), other.take("2"))
        (repo / "b.txt").write_text("changed")
        await one.restore(first.commit)
        (repo / "b.txt").write_text("changed")
        await other.restore(second.commit)

    before = state(repo)
    asyncio.run(story())
    assert state(repo) == before


def test_old_snapshots_are_removed_and_others_kept(store: Make, repo: Path, tmp_path: Path) -> None:
    async def story() -> tuple[str, str]:
        old = (await store(owner="old").take("old")).commit
        home = next((tmp_path / "home").iterdir())
        ref = next((home / "refs" / "snapshots").glob("old-*/*"))
        ref.rename(ref.with_name(f"{int(time.time()) - 15 * 86_400}-{old[:12]}"))
        long_ago = time.time() - 2 * 86_400
        for path in (home / "objects").rglob("*"):
            os.utime(path, (long_ago, long_ago))
        await store(owner="kept").take("kept")
        (repo / "b.txt").write_text("changed since")
        return old, (await store(owner="new").take("new")).commit

    old, new = asyncio.run(story())
    with pytest.raises(SnapshotError, match=f"snapshot {old[:12]} does not exist any more"):
        asyncio.run(store(owner="old").restore(old))
    indexes = next((tmp_path / "home").iterdir()) / "indexes"
    assert {path.name.rpartition("-")[0] for path in indexes.iterdir()} == {"kept", "new"}
    asyncio.run(store(owner="new").restore(new))


@pytest.mark.parametrize("damage", ["commit", "home", "lock"])
def test_damage_is_told_or_repaired(store: Make, repo: Path, tmp_path: Path, damage: str) -> None:
    async def story() -> None:
        commit = (await store().take("turn")).commit
        home = next((tmp_path / "home").iterdir())
        if damage == "commit":
            (home / "objects" / commit[:2] / commit[2:]).unlink()
        elif damage == "home":
            shutil.rmtree(home)
        else:
            for index in (home / "indexes").iterdir():
                index.with_name(f"{index.name}.lock").write_text("")
        await store().restore(commit)

    if damage == "lock":
        asyncio.run(story())
    else:
        with pytest.raises(SnapshotError, match="does not exist any more"):
            asyncio.run(story())


def test_objects_that_the_repository_has_lost_are_stored_again(
    store: Make, repo: Path, git: Callable[..., str]
) -> None:
    async def story() -> None:
        made = store()
        await made.take("first")
        shutil.rmtree(repo / ".git" / "objects")
        (repo / ".git" / "objects").mkdir()
        snapshot = await made.take("second")
        (repo / "b.txt").write_text("changed")
        await made.restore(snapshot.commit)

    before = state(repo)
    asyncio.run(story())
    assert state(repo) == before


def test_without_git_the_reason_is_told(store: Make, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="git was not found"):
        asyncio.run(store(path=str(tmp_path)).take("turn"))


def test_a_file_that_is_not_a_commit_of_ours_is_refused(store: Make, repo: Path, git: Callable[..., str]) -> None:
    asyncio.run(store().take("turn"))
    foreign = git(repo, "rev-parse", "HEAD").strip()
    before = state(repo)
    with pytest.raises(SnapshotError, match=r"not a snapshot|does not exist"):
        asyncio.run(store().restore(foreign))
    assert state(repo) == before


def test_a_folder_that_becomes_a_symlink_while_files_are_removed_is_not_followed(
    store: Make, repo: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("theirs\n")
    shutil.rmtree(repo / "src")
    (repo / "src").symlink_to(outside)
    assert store()._remove([b"src/a.py"]) == 0, "as if it had been put there after the files were compared"
    assert (outside / "a.py").exists()


def test_a_folder_that_becomes_a_symlink_while_files_are_written_is_not_followed(
    store: Make, repo: Path, tmp_path: Path
) -> None:
    folder, outside = repo / "folder", tmp_path / "outside"
    outside.mkdir()
    folder.mkdir()
    for number in range(150):
        (folder / f"{number:03}").write_text(f"{number}\n" * 5000)

    def exchanged() -> None:
        while not folder.exists():
            pass
        folder.rename(repo / "moved")
        folder.symlink_to(outside)

    command = threading.Thread(target=exchanged)

    def change() -> None:
        shutil.rmtree(folder)
        command.start()

    around(store(), change)
    command.join()
    assert list(outside.iterdir()) == []


def test_a_file_that_cannot_be_written_is_told_and_nothing_is_left_of_it(repo: Path, tmp_path: Path) -> None:
    before = state(repo)
    with pytest.raises(SnapshotError, match=r"src/a\.py could not be written: No such file or directory"):
        place(tmp_path / "nowhere", repo, [b"src/a.py"])
    assert state(repo) == before


def test_tracked_files_are_restored_whatever_their_size_and_number(
    store: Make, repo: Path, git: Callable[..., str]
) -> None:
    (repo / "large.bin").write_bytes(b"x" * (2 << 20))
    for number in range(12):
        (repo / "src" / str(number)).write_text("")
    git(repo, "add", "large.bin")
    before = state(repo)

    def change() -> None:
        (repo / "large.bin").unlink()
        (repo / "src" / "3").unlink()

    around(store(largest_untracked_mib=1, most_untracked_files=10), change)
    assert state(repo) == before


def test_a_sparse_tracked_file_is_left_alone_and_told(store: Make, repo: Path) -> None:
    os.truncate(repo / "b.txt", 1 << 40)
    snapshot = asyncio.run(asyncio.wait_for(store().take("turn"), 20))
    assert snapshot.notes == ("1 tracked files have more than 1 GiB. Undo does not restore them.",)


def link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize(
    "exchange",
    [
        lambda index: link(index, "/dev/zero"),
        lambda index: link(index, "/dev/random"),
        lambda index: link(index, "/proc/self/environ"),
        lambda index: (index.unlink(), os.mkfifo(index)),
        lambda index: (index.unlink(), index.mkdir()),
        lambda index: (index.unlink(), os.mkfifo(index.with_name("pipe")), index.symlink_to("pipe")),
        lambda index: os.truncate(index, 1 << 40),
    ],
)
def test_an_index_that_is_no_file_or_too_large_is_not_read(
    store: Make, repo: Path, tmp_path: Path, exchange: Callable[[Path], object]
) -> None:
    exchange(repo / ".git" / "index")
    with pytest.raises(SnapshotError, match="the index of the repository cannot be read"):
        asyncio.run(asyncio.wait_for(store().take("turn"), 20))
    assert sum(path.stat().st_size for path in (tmp_path / "home").rglob("*") if path.is_file()) < 100_000


@pytest.mark.parametrize(
    "name", [".gitattributes", ".gitignore", "src/.gitattributes", "new/.gitignore", ".git/objects/info/alternates"]
)
def test_a_pipe_that_git_would_wait_for_is_told_at_once(store: Make, repo: Path, name: str) -> None:
    path = repo / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    began = time.monotonic()
    with pytest.raises(SnapshotError, match="is a pipe, which git would wait for"):
        asyncio.run(store().take("turn"))
    assert time.monotonic() - began < 15


def test_what_the_user_excludes_without_a_file_in_the_workspace_is_left_alone(store: Make, repo: Path) -> None:
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "exclude").write_text("secret*\n")
    (repo / "secret.txt").write_text("one\n")
    around(store(), lambda: (repo / "secret.txt").write_text("two\n"))
    assert (repo / "secret.txt").read_text() == "two\n"


def test_snapshots_are_the_user_s_alone(store: Make, tmp_path: Path) -> None:
    asyncio.run(store().take("turn"))
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_snapshots_of_other_threads_are_kept_while_they_are_young(store: Make, repo: Path) -> None:
    async def story() -> None:
        first = await store(owner="one").take("1")
        (repo / "b.txt").write_text("changed")
        objects = next((repo.parent / "home").iterdir()) / "objects"
        long_ago = time.time() - 2 * 86_400
        for path in objects.rglob("*"):
            os.utime(path, (long_ago, long_ago))
        await store(owner="other").take("2")
        await store(owner="one").restore(first.commit)

    before = state(repo)
    asyncio.run(story())
    assert state(repo) == before
