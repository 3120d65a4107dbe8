"""Damaged session files: what a check finds, and what a repair keeps."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from codex_framework import ThreadError
from codex_plugin_rollout import RolloutStore

FORKED = Path(__file__).with_name("forked")
THREAD = "01a20497-a811-7cb3-859b-50b6e7ed89a1"
NAME = f"rollout-2026-11-22T18-49-37-{THREAD}.jsonl"
LINES = (FORKED / NAME).read_bytes().splitlines(keepends=True)


def written(home: str, data: bytes) -> Path:
    path = Path(home) / "sessions/2026/11/22" / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def facts(store: RolloutStore, home: str) -> list[str]:
    return [fault.fact for fault in store.check(home)]


CASES = {
    "the last line is incomplete": b"".join(LINES)[:-20],
    "the last line has no newline": b"".join(LINES)[:-1],
    "1 line(s) (line 3) cannot be read": b"".join([*LINES[:2], b"garbage \xff\n", *LINES[2:]]),
    "1 line(s) (line 5) consist of NUL bytes, as after a power failure": b"".join(
        [*LINES[:4], b"\0" * 40 + b"\n", *LINES[4:]]
    ),
    "the first line is not the head of a thread": b"".join(LINES[1:]),
}


@pytest.mark.parametrize("fact", CASES)
def test_a_damage_is_found_and_repaired_and_the_damaged_file_is_kept(store: RolloutStore, home: str, fact: str) -> None:
    path = written(home, CASES[fact])
    os.utime(path, (1.79e9, 1.79e9))
    before = store.load(THREAD, home)
    assert facts(store, home) == [fact]
    assert path.read_bytes() == CASES[fact], "a check changes nothing"
    assert [fault.fact for fault in store.repair(THREAD, home)] == [fact]
    assert facts(store, home) == []
    after = store.load(THREAD, home)
    assert (after.history, after.events, after.warnings) == (before.history, before.events, ())
    assert (path.with_name(f"{NAME}.damaged-1")).read_bytes() == CASES[fact]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mtime == 1.79e9, "the list of sessions keeps its order"
    assert store.latest(home) == THREAD
    assert store.repair(THREAD, home) == []
    assert not path.with_name(f"{NAME}.damaged-2").exists()


def test_a_line_behind_the_beginning_of_another_one_is_saved(store: RolloutStore, home: str) -> None:
    torn = LINES[5][: len(LINES[5]) // 2]
    path = written(home, b"".join([*LINES[:5], torn + LINES[6], *LINES[7:]]))
    (fault,) = store.repair(THREAD, home)
    assert fault.fact == "1 line(s) (line 6) cannot be read"
    assert "1 line(s) inside them are kept" in (fault.repair or "")
    assert path.read_bytes() == b"".join([*LINES[:5], *LINES[6:]])


@pytest.mark.parametrize(
    ("data", "fact"),
    [(b"", "the file is empty"), (b"not a session\n" * 3, "no line of the file can be read: it is no rollout file")],
)
def test_what_is_no_session_is_told_and_left_alone(store: RolloutStore, home: str, data: bytes, fact: str) -> None:
    path = written(home, data)
    (fault,) = store.repair(str(path), home)
    assert (fault.fact, fault.repair) == (fact, None)
    assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_an_id_that_is_not_that_of_the_name_is_told(store: RolloutStore, home: str) -> None:
    other = "01a20497-aa2d-7661-8851-68136df54adb"
    path = written(home, LINES[0].replace(THREAD.encode(), other.encode()) + b"".join(LINES[1:]))
    (fault,) = store.check(home)
    assert fault.fact == f"its name has the id {THREAD}, and its first line the id {other!r}; rename the file"
    assert (fault.thread_id, fault.repair, fault.path) == (THREAD, None, str(path))


def test_a_missing_base_is_told(store: RolloutStore, home: str) -> None:
    folder = Path(home) / "sessions/2026/11/22"
    shutil.copytree(FORKED, folder)
    assert facts(store, home) == []
    (folder / NAME).unlink()
    found = list(store.check(home))
    assert len(found) == 4
    assert {fault.repair for fault in found} == {None}
    assert all("whose file is missing" in fault.fact for fault in found)


def test_one_session_alone_can_be_checked(store: RolloutStore, home: str) -> None:
    shutil.copytree(FORKED, Path(home) / "sessions/2026/11/22")
    written(home, CASES["the last line is incomplete"])
    assert list(store.check(home, "01a20497-aa2d-7661-8851-68136df54adb")) == []
    with pytest.raises(ThreadError):
        list(store.check(home, "no such session"))


@settings(max_examples=settings.default.max_examples // 2, phases=(Phase.generate,))
@given(st.data())
def test_a_repair_never_loses_a_readable_line(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    home = str(tmp_path_factory.mktemp("home"))
    store = RolloutStore()
    noise = st.sampled_from([b"\n", b"\0\0\0\n", b"{}\n", b'{"timestamp":', b"[1]\n", b"\xff\xfe\n", b'{"type":1}\n'])
    parts: list[bytes] = []
    for line in LINES[:8]:
        parts.append(line)
        if data.draw(st.booleans()):
            parts.append(data.draw(noise))
        if data.draw(st.booleans()):
            cut = data.draw(st.sampled_from(LINES))
            parts.append(cut[: data.draw(st.integers(1, len(cut) - 2))])
    path = written(home, b"".join(parts))
    store.repair(THREAD, home)
    kept = [line for line in path.read_bytes().splitlines(keepends=True) if line.strip()]
    rest = iter(kept)
    assert all(line in rest for line in LINES[:8]), "every line is there, in order"
    assert all(isinstance(json.loads(line), dict) for line in kept)
    assert store.load(THREAD, home).warnings == ()


def test_a_repair_writes_through_no_link(store: RolloutStore, home: str, tmp_path: Path) -> None:
    path = written(home, CASES["the last line is incomplete"])
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.with_name(f".{NAME}.repaired").symlink_to(victim)
    path.with_name(f"{NAME}.damaged-1").symlink_to(tmp_path / "nowhere")
    assert len(list(store.repair(THREAD, home))) == 1
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    assert not path.is_symlink()
    assert facts(store, home) == []
    assert path.with_name(f"{NAME}.damaged-2").read_bytes() == CASES["the last line is incomplete"]


def test_the_rest_of_a_repair_that_was_cut_off_hinders_no_other(store: RolloutStore, home: str) -> None:
    path = written(home, CASES["the last line is incomplete"])
    path.with_name(f".{NAME}.repaired").write_text("a part, which is longer than the file" * 1000)
    store.repair(THREAD, home)
    assert facts(store, home) == []
    assert path.read_bytes() == b"".join(LINES[:-1])


def test_a_compressed_file_is_not_replaced_by_another_one(store: RolloutStore, home: str) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = written(home, CASES["the last line has no newline"])
    compressed = path.rename(path.with_name(f"{NAME}.zst"))
    content = zstandard.ZstdCompressor().compress(compressed.read_bytes())
    compressed.write_bytes(content)
    with pytest.raises(ThreadError, match="is compressed and cannot be repaired") as caught:
        store.repair(THREAD, home)
    assert "zstd -d" in (caught.value.hint or "")
    assert [each.name for each in compressed.parent.iterdir()] == [compressed.name]
    assert compressed.read_bytes() == content
