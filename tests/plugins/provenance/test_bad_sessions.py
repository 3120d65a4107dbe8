"""Damaged, hostile and missing files: one clear line each, and the rest is read."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ThreadError
from tests.plugins.provenance.conftest import HOUSE, ID, OTHER, called, noted, returned, said, started

GOOD = noted(did="refused", what="call", by=HOUSE, call_id="c1", reason="no")


def test_torn_and_foreign_lines_are_left_out_and_said(sessions: Any, why: Any) -> None:
    lines = [
        started(),
        b"\xff\xfe\x00garbage\n",
        said("hello"),
        b"[1,2]\n",
        b"\0\0\0\n",
        b"\n",
        called(),
        GOOD,
        b'{"type": "respo',
    ]
    sessions.write(lines)
    answer = why("last")
    assert "refused the call: no" in answer
    assert "Warning: 3 unreadable lines of rollout-" in answer
    assert "(line 3, 5, 10)" in answer


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"did": "changed"},
        {"did": "changed", "what": "call", "by": "me"},
        {"did": "changed", "what": "call", "by": HOUSE, "patch": "x"},
        {"did": "changed", "what": "call", "by": HOUSE, "seconds": "x"},
        {"did": "sang", "what": "call", "by": HOUSE},
    ],
)
def test_a_damaged_record_is_left_out_and_said(sessions: Any, why: Any, data: Any) -> None:
    bad = ("plugin_entry", {"plugin": "house", "kind": "provenance", "data": data})
    sessions.write([started(), said("hello"), called(), bad, GOOD])
    answer = why("last")
    assert "refused the call: no" in answer
    assert "Warning: 1 unreadable record of provenance" in answer


@pytest.mark.parametrize(
    "patch",
    [
        [{}],
        [{"op": "remove"}],
        [{"op": "replace", "path": "/nowhere/0", "value": 1}],
        [{"op": "replace", "path": "", "value": 1}],
        [{"op": 3, "path": 4}],
        [{"op": "replace", "path": "/arguments/text", "value": {"deep": [1]}}],
    ],
)
def test_a_patch_that_does_not_fit_is_shown_as_it_is(sessions: Any, why: Any, patch: Any) -> None:
    note = noted(did="changed", what="call", by=HOUSE, call_id="c1", patch=patch)
    sessions.write([started(), said("hello"), called(text="a"), note, note])
    assert "guard (plugin house)" in why("last", "c1")
    assert len(json.loads(why("last", "c1", "--json"))["notes"]) == 2


def test_control_characters_are_shown_escaped(sessions: Any, why: Any) -> None:
    evil = {"role": "interceptor", "name": "x\x1b[2J", "plugin": "y\r", "causes": ["\u202ez"]}
    sessions.write(
        [
            started("\x1b[1m"),
            said("\x1b[31mred"),
            called("c\x1b1", "t\x07"),
            noted(did="refused", what="call", by=evil, reason="\x1b]0;x\x07"),
        ]
    )
    for answer in (why("last"), why("last", "2"), why("last", "1")):
        assert not {"\x1b", "\r", "\x07", "\u202e"} & set(answer)


def test_deep_and_odd_payloads_are_survived(sessions: Any, why: Any) -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    odd = [
        ("response_item", {}),
        ("response_item", {"type": 3, "role": [], "content": [1, None, {"text": 3}], "call_id": {}}),
        ("response_item", {"type": "message", "role": "user", "content": deep}),
        ("response_item", {"type": "function_call", "name": 1, "arguments": deep, "call_id": "d"}),
        ("event_msg", {"type": "thread_rolled_back", "num_turns": "many"}),
        ("event_msg", {"type": "task_started", "turn_id": 7}),
        ("plugin_entry", {"plugin": 1, "kind": "offered_tools", "data": {"names": 3}}),
        (b"[" * 100_000 + b"\n"),
        noted(
            did="changed",
            what="call",
            by=HOUSE,
            call_id="d",
            patch=[{"op": "replace", "path": "/arguments", "value": deep}],
        ),
    ]
    sessions.write([started(), *odd])
    why("last")
    why("last", "--json")
    why("last", "d")


@pytest.mark.parametrize(("depth", "is_shown"), [(290, True), (600, False), (900, False)])
def test_data_that_are_nested_too_deeply_are_left_out_and_said(
    sessions: Any, why: Any, depth: int, is_shown: bool
) -> None:
    deep = "[" * depth + "]" * depth
    patch = [{"op": "replace", "path": "/arguments/a", "value": json.loads(deep)}]
    call = {"type": "function_call", "name": "echo", "arguments": f'{{"a": {deep}}}', "call_id": "c1"}
    sessions.write(
        [started(), ("response_item", call), *[noted(did="changed", what="call", by=HOUSE, patch=patch)] * 2]
    )
    for words in ((), ("--json",), ("c1",), ("c1", "--json")):
        assert ("2 unreadable lines" not in why("last", *words)) is is_shown


def test_numbers_that_json_cannot_write_are_no_record(sessions: Any, why: Any) -> None:
    bad = [noted(did="refused", what="call", by=HOUSE, seconds=number) for number in (float("nan"), float("inf"))]
    sessions.write([started(), *bad, b'{"type": "event_msg", "payload": {"seconds": 1e999}}\n'])
    assert json.loads(why("last", "--json"), parse_constant=pytest.fail)["faults"]


def test_a_place_with_a_number_of_many_digits_is_shown_as_it_is(sessions: Any, why: Any) -> None:
    patch = [{"op": "replace", "path": f"/arguments/a/{'9' * 5000}", "value": 1}]
    note = noted(did="changed", what="call", by=HOUSE, call_id="c1", patch=patch)
    sessions.write([started(), called(a=[1]), note])
    assert "99: 1" in why("last", "c1")


def test_a_file_that_is_no_session_is_an_error(why: Any, tmp_path: Path) -> None:
    for name, content in (("a.jsonl", b"hello\n"), ("b.jsonl", b""), ("c.jsonl", gzip.compress(b"x"))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ThreadError, match="is not the file of a session"):
            why(str(tmp_path / name))


@pytest.mark.parametrize("name", ["nowhere/x.jsonl", "nowhere.jsonl", "x" * 300 + ".jsonl", "./"])
def test_a_path_without_a_file_is_an_error(why: Any, name: str) -> None:
    with pytest.raises(ThreadError, match=r"is no file|is a folder"):
        why(name)


def test_pipes_and_circles_of_links_are_no_files(why: Any, tmp_path: Path, sessions: Any) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "circle.jsonl").symlink_to(tmp_path / "circle.jsonl")
    for name in ("pipe.jsonl", "circle.jsonl"):
        with pytest.raises(ThreadError, match="is no file"):
            why(str(tmp_path / name))
    sessions.write([started(), said("hello")])
    (sessions.home / "sessions" / "2027").symlink_to(sessions.home / "sessions")
    day = sessions.home / "sessions" / "2026" / "11" / "23"
    (day / f"rollout-2026-11-24T02-53-17-{OTHER}.jsonl").mkdir()
    os.mkfifo(day / f"rollout-2026-11-25T02-53-17-{OTHER}.jsonl")
    assert why("last").startswith(f"Session {ID}")


def test_without_sessions_last_is_an_error(why: Any) -> None:
    with pytest.raises(ThreadError, match="there are no sessions"):
        why("last")


@pytest.mark.parametrize("name", ["", "*", "..", "\x1b[2J", "ä"])
def test_odd_names_are_errors(sessions: Any, why: Any, name: str) -> None:
    sessions.write([started(), said("hello"), called(), returned("x")])
    with pytest.raises(ThreadError):
        why(name)
    with pytest.raises(ThreadError):
        why("last", name or "  ")


def test_a_missing_parent_and_a_circle_of_parents_are_survived(sessions: Any, why: Any) -> None:
    base = {"history_base": {"thread_id": "gone", "end_ordinal_exclusive": 3}}
    sessions.write([started(), said("hello")], **base)
    assert "Warning: the thread continues another one, whose file is missing" in why("last")
    sessions.write([started(), said("hello")], forked_from_id=OTHER)
    sessions.write([started(), said("hello")], id=OTHER, forked_from_id=ID)
    assert why(ID).startswith(f"Session {ID}: 1 turn, 1 item")


def test_a_compressed_session_is_read_and_one_without_end_is_an_error(why: Any, sessions: Any) -> None:
    zstandard: Any = pytest.importorskip("zstandard")
    compress = zstandard.ZstdCompressor().compress
    path: Path = sessions.write([started(), said("hello"), called(), GOOD])
    whole = path.read_bytes()
    packed = path.rename(f"{path}.zst")
    packed.write_bytes(compress(whole))
    assert "refused the call: no" in why(str(packed))
    packed.write_bytes(compress(whole + bytes(256 << 20)))
    with pytest.raises(ThreadError, match="its content is longer than"):
        why(str(packed))
