from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ThreadError
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.stores import ItemEntry, ThreadQuery
from codex_plugin_rollout import RolloutStore
from codex_plugin_rollout.files import id_of_file

Rollout = Callable[..., Path]
HELLO = ("response_item", to_wire(user_message("hello")))


def test_a_thread_is_found_by_id(store: RolloutStore, home: str, rollout: Rollout) -> None:
    rollout(HELLO, thread_id="other", day="2026/11/21")
    path = rollout(HELLO, thread_id="wanted", day="2025/01/02")
    assert store.load("wanted", home).path == str(path)


def test_a_thread_is_found_by_path(
    store: RolloutStore, home: str, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rollout(HELLO)
    assert store.load(str(path), "/nowhere").history == (user_message("hello"),)
    monkeypatch.chdir(path.parent)
    assert store.load(path.name, "/nowhere").path == str(path)


def test_a_thread_is_found_by_its_newest_name(store: RolloutStore, home: str, rollout: Rollout) -> None:
    rollout(HELLO, thread_id="a")
    rollout(HELLO, thread_id="b")
    rollout(HELLO, thread_id="c")
    entries = [("a", "fix"), ("b", "fix"), ("c", "other"), ("b", "renamed"), ("c", "fix")]
    index = Path(home) / "session_index.jsonl"
    lines = [json.dumps({"id": thread, "thread_name": name, "updated_at": "2026"}) for thread, name in entries]
    index.write_text("\n".join(["torn {", *lines, '{"id": "a", "thr']))
    assert store.load("fix", home).meta.id == "c"
    assert store.load("renamed", home).meta.id == "b"
    with pytest.raises(ThreadError, match="no rollout found for thread id other"):
        store.load("other", home)


def test_an_archived_thread_is_found_and_must_be_unarchived_to_go_on(
    store: RolloutStore, home: str, rollout: Rollout
) -> None:
    path = rollout(HELLO)
    archive = Path(home) / "archived_sessions"
    archive.mkdir()
    path = path.rename(archive / path.name)
    stored = store.load("01a1fa36-db98-75f0-a6d6-2445f13ac227", home)
    assert stored.path == str(path)
    assert store.latest(home) is None
    with pytest.raises(ThreadError, match=f"session {stored.meta.id} is archived"):
        store.reopen(stored, home)
    store.unarchive(stored.meta.id, home)
    recorder = store.reopen(store.load(stored.meta.id, home), home)
    recorder.append([ItemEntry(user_message("more"))])
    recorder.close()
    assert store.load(stored.meta.id, home).history == (user_message("hello"), user_message("more"))
    assert store.latest(home) == stored.meta.id


@pytest.mark.parametrize("wanted", ["01a1fa36-0000-75f0-a6d6-2445f13ac227", "no such name", "2445f13ac227", ""])
def test_an_unknown_thread_is_an_error_with_the_known_text(
    store: RolloutStore, home: str, rollout: Rollout, wanted: str
) -> None:
    rollout(HELLO, thread_id="01a1fa36-db98-75f0-a6d6-2445f13ac227")
    with pytest.raises(ThreadError) as caught:
        store.load(wanted, home)
    assert str(caught.value) == f"no rollout found for thread id {wanted}"
    assert caught.value.slug == "thread-not-found"
    assert "CODEX_HOME" in caught.value.hint


def test_a_missing_path_is_an_error_that_names_it(store: RolloutStore, home: str, tmp_path: Path) -> None:
    with pytest.raises(ThreadError, match=f"no rollout found at {tmp_path}/gone.jsonl"):
        store.load(str(tmp_path / "gone.jsonl"), home)


def test_a_compressed_file_says_what_it_needs(store: RolloutStore, home: str, rollout: Rollout) -> None:
    path = rollout(HELLO)
    compressed = path.rename(path.with_name(path.name + ".zst"))
    if find_spec("zstandard") is None:
        with pytest.raises(ThreadError, match="is compressed") as caught:
            store.load("01a1fa36-db98-75f0-a6d6-2445f13ac227", home)
        assert "pip install zstandard" in caught.value.hint
        return
    zstandard: Any = import_module("zstandard")
    compressed.write_bytes(zstandard.ZstdCompressor().compress(compressed.read_bytes()))
    stored = store.load("01a1fa36-db98-75f0-a6d6-2445f13ac227", home)
    assert stored.history == (user_message("hello"),)
    with pytest.raises(ThreadError, match="is not in a file that can be continued") as caught:
        store.reopen(stored, home)
    assert "zstd -d" in caught.value.hint
    compressed.write_bytes(b"not compressed at all")
    with pytest.raises(ThreadError, match="cannot read"):
        store.load("01a1fa36-db98-75f0-a6d6-2445f13ac227", home)


def test_a_folder_in_place_of_a_file_is_an_error(store: RolloutStore, home: str) -> None:
    folder = Path(home) / "sessions/2026/11/20/rollout-2026-11-20T18-27-41-dir.jsonl"
    folder.mkdir(parents=True)
    with pytest.raises(ThreadError, match="Is a directory") as caught:
        store.load("dir", home)
    assert caught.value.slug == "thread-unreadable"


def test_only_a_damaged_content_is_to_be_decompressed(store: RolloutStore, home: str, rollout: Rollout) -> None:
    path = rollout(HELLO)
    path.unlink()
    path.with_name(f"{path.name}.zst").mkdir()
    with pytest.raises(ThreadError, match="Is a directory") as caught:
        store.load(id_of_file(path), home)
    assert caught.value.hint == "Make the file readable."


def test_the_latest_thread_is_the_one_written_last(store: RolloutStore, home: str, rollout: Rollout) -> None:
    older = rollout(HELLO, thread_id="older", day="2026/11/01")
    rollout(HELLO, thread_id="newer", day="2026/11/02")
    for number, path in enumerate(sorted(Path(home).rglob("*.jsonl"))):
        os.utime(path, (number, number))
    assert store.latest(home) == "newer"
    os.utime(older, (99, 99))
    assert store.latest(home) == "older"


def test_the_latest_thread_of_a_folder_was_begun_there(
    store: RolloutStore, home: str, rollout: Rollout, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "link").symlink_to(work)
    for number, (thread, cwd) in enumerate([("here", str(work)), ("there", "/elsewhere"), ("nowhere", None)]):
        os.utime(rollout(HELLO, thread_id=thread, cwd=cwd), (number, number))
    assert store.latest(home) == "nowhere"
    assert store.latest(home, cwd="/elsewhere") == "there"
    assert store.latest(home, cwd=str(tmp_path / "link")) == "here"
    assert store.latest(home, cwd="/never") is None


def test_a_thread_of_a_folder_whose_name_is_not_utf_8_is_found_there(
    store: RolloutStore, home: str, rollout: Rollout, tmp_path: Path
) -> None:
    work = tmp_path / os.fsdecode(b"caf\xe9")
    work.mkdir()
    (tmp_path / "link").symlink_to(work)
    rollout(HELLO, thread_id="here", cwd=str(work).encode("utf-8", "replace").decode())  # as it is recorded
    for folder in (work, tmp_path / "link"):
        assert store.latest(home, cwd=str(folder)) == "here"
        assert [found.id for found in store.find(ThreadQuery(cwd=str(folder)), home).threads] == ["here"]
    assert store.latest(home, cwd=str(tmp_path)) is None


def test_the_latest_thread_is_a_persons_and_whole_enough_to_go_on(
    store: RolloutStore, home: str, rollout: Rollout
) -> None:
    good = rollout(HELLO, thread_id="good")
    agent = rollout(HELLO, thread_id="agent", source={"subagent": "review"})
    torn = rollout(HELLO, thread_id="torn")
    torn.write_bytes(torn.read_bytes()[:50])
    other = good.with_name("notes.jsonl")
    other.write_text("{}")
    for number, path in enumerate([good, agent, torn, other]):
        os.utime(path, (number, number))
    assert store.latest(home) == "good"


def test_there_is_no_latest_thread_in_an_empty_home(store: RolloutStore, home: str) -> None:
    assert store.latest(home) is None


def test_a_compressed_file_without_end_is_an_error_and_hides_no_other(
    store: RolloutStore, home: str, rollout: Rollout
) -> None:
    zstandard: Any = pytest.importorskip("zstandard")
    compress = zstandard.ZstdCompressor().compress
    good, bomb = rollout(HELLO), rollout(HELLO, thread_id="bomb")
    compressed = bomb.rename(f"{bomb}.zst")
    compressed.write_bytes(compress(compressed.read_bytes()) + compress(bytes(32 << 20)) * 8)
    with pytest.raises(ThreadError, match="its content is longer than 67108864 bytes") as caught:
        store.load("bomb", home)
    assert f"zstd -d --rm {compressed}" in caught.value.hint
    assert {summary.id for summary in store.find(ThreadQuery(), home).threads} == {"bomb", id_of_file(good)}
    assert store.find(ThreadQuery(text="no such text"), home).threads == ()
    (fault,) = store.check(home)
    assert (fault.path, "its content is longer" in fault.fact) == (str(compressed), True)
