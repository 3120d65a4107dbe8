"""Whatever stands in a file, a person gets a thread or a clear error."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codex_framework import ThreadError
from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.contract.roles.stores import EventEntry, ThreadQuery
from codex_plugin_rollout import RolloutStore

GOLDEN = Path(__file__).with_name("golden.jsonl").read_bytes()
KINDS = ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"]
TYPES = [
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "item_completed",
    "thread_rolled_back",
    "token_count",
]
FIELDS = [
    "id",
    "timestamp",
    "cwd",
    "source",
    "git",
    "role",
    "content",
    "call_id",
    "output",
    "item",
    "info",
    "num_turns",
    "text",
]

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["0001-01-01T00:00:00+14:00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*FIELDS, "type", "summary_text"]), inner, max_size=4)
    ),
    max_leaves=8,
)
payloads = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), values),
)


def load(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "rollout-2026-11-20T18-27-41-x.jsonl"
        path.write_bytes(data)
        store = RolloutStore()
        stored = store.load(str(path), home)
        assert isinstance(stored.meta.id, str)
        assert isinstance(stored.meta.cwd, str)
        store.reopen(stored, home).close()


@given(st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3)), max_size=4))
def test_bytes_changed_anywhere_break_nothing(changes: list[tuple[float, bytes]]) -> None:
    data = bytearray(GOLDEN)
    for place, new in changes:
        start = int(place * len(data))
        data[start : start + 1] = new
    load(bytes(data))


@example([("response_item", {"type": []}), ("event_msg", {"type": {}})])
@given(st.lists(st.tuples(st.sampled_from(KINDS), payloads | values), max_size=8))
def test_lines_of_any_content_break_nothing(lines: list[tuple[str, Any]]) -> None:
    load("\n".join(json.dumps({"type": kind, "payload": payload}) for kind, payload in lines).encode())


def test_an_index_of_any_content_names_no_thread(store: RolloutStore, home: str) -> None:
    Path(home).mkdir()
    index = Path(home) / "session_index.jsonl"
    for line in ("[]", "null", '{"id": 3, "thread_name": "n"}', '{"id": "../../x", "thread_name": "n"}', "\xff", "{"):
        index.write_text(line)
        with pytest.raises(ThreadError, match=r"^no rollout found for thread id n$"):
            store.load("n", home)


DEEP = b"[" * 50_000


@pytest.mark.parametrize("line", [DEEP, b'{"type":"session_meta","payload":' + DEEP])
def test_a_file_that_is_nested_too_deeply_hides_no_other(store: RolloutStore, home: str, line: bytes) -> None:
    folder = Path(home) / "sessions/2026/11/20"
    folder.mkdir(parents=True)
    own = json.loads(GOLDEN.splitlines()[0])["payload"]["id"].encode()
    (folder / "rollout-2026-11-20T18-27-41-good.jsonl").write_bytes(GOLDEN.replace(own, b"good"))
    bad = folder / "rollout-2026-11-20T18-27-42-bad.jsonl"
    bad.write_bytes(line + b"\n")
    assert {summary.id for summary in store.find(ThreadQuery(), home).threads} == {"good", "bad"}
    assert [summary.id for summary in store.find(ThreadQuery(text="e"), home).threads] == ["good"]
    assert store.latest(home) == "good"
    assert {fault.thread_id for fault in store.check(home)} == {"bad"}
    store.delete("bad", home)
    assert not bad.exists()


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("head", [{}, {"history_mode": "paginated"}])
@pytest.mark.parametrize("last", [DEEP, b'{"ordinal":1e999,"type":"x","payload":{}}'])
def test_a_thread_goes_on_after_a_line_that_cannot_be_parsed(
    store: RolloutStore, home: str, rollout: Any, head: dict[str, str], last: bytes, end: bytes
) -> None:
    path = rollout(("event_msg", {"type": "user_message", "message": "hello"}), **head)
    before = path.read_bytes()
    path.write_bytes(before + last + end)
    recorder = store.reopen(store.load(str(path), home), home)
    recorder.append([EventEntry(UserMessageEvent("more"))])
    recorder.close()
    added = path.read_bytes()
    assert added.startswith(before + last + b"\n")
    assert added.count(b"\n") == before.count(b"\n") + 2
    if head:
        assert json.loads(added.splitlines()[-1])["ordinal"] == 3


@pytest.mark.parametrize(
    "data", [b"hello\nworld\n", b"[1]\n" * 3, b"[" * 100_000 + b"\n"], ids=["text", "lists", "deep"]
)
def test_a_file_of_something_else_is_not_gone_on_with(
    store: RolloutStore, home: str, rollout: Any, data: bytes
) -> None:
    path = rollout()
    path.write_bytes(data)
    with pytest.raises(ThreadError, match="it is no rollout file"):
        store.load(str(path), home)
    assert path.read_bytes() == data
