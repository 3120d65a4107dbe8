"""Threads of several files: forks, and threads from which turns were taken back.

The files in ``forked`` were written by Codex 0.169: a thread whose second turn was taken back, a fork of it, another turn taken back,
and a fork of the fork.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_framework import ThreadError, ThreadMeta
from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import EventEntry, ItemEntry
from codex_framework.testing.replies import say
from codex_framework.testing.server import ResponsesServer
from codex_plugin_rollout import RolloutStore
from codex_plugin_rollout.lineage import Lineage, Part, lineage_of
from tests.plugins.rollout.forked_sessions import FORK, FORK_OF_FORK, THREAD, copied, said

FIRST_SEGMENT = "01a20497-a8bc-7ed0-a838-793710aca588"


@pytest.fixture
def recorded(home: str) -> Path:
    return copied(home)


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        (THREAD, "q1 a1 q3 a3 q5 a6"),
        (FORK, "q1 a1 q3 a3 q4 a4 f1 a5 f2 a7"),
        (FORK_OF_FORK, "q1 a1 q3 a3 q4 a4 f1 a5 f2 a7 g1 a8"),
    ],
)
def test_a_thread_has_the_history_that_it_continues(
    store: RolloutStore, home: str, recorded: Path, thread: str, expected: str
) -> None:
    stored = store.load(thread, home)
    assert said(stored) == expected.split()
    assert [msg.message for msg in stored.events if isinstance(msg, UserMessageEvent)] == expected.split()[::2]
    assert stored.warnings == ()
    assert stored.meta.id == thread
    assert stored.path is not None
    assert stored.path.startswith(str(recorded))


def test_the_forks_of_a_thread_name_their_parents(store: RolloutStore, home: str, recorded: Path) -> None:
    assert recorded
    parents = [store.load(thread, home).meta.forked_from_id for thread in (THREAD, FORK, FORK_OF_FORK)]
    assert parents == [None, THREAD, FORK]


def test_a_file_named_by_its_path_is_read_as_it_was_then(store: RolloutStore, recorded: Path) -> None:
    base = next(recorded.glob(f"*-{THREAD}.jsonl"))
    segment = next(recorded.glob(f"*_{FIRST_SEGMENT}.jsonl"))
    assert said(store.load(str(base), "/nowhere")) == ["q1", "a1", "q2", "a2"]
    assert said(store.load(str(segment), "/nowhere")) == ["q1", "a1", "q3", "a3", "q4", "a4"]


def test_a_thread_goes_on_in_its_newest_file_with_the_next_ordinal(
    store: RolloutStore, home: str, recorded: Path
) -> None:
    stored = store.load(THREAD, home)
    before = {path: path.read_bytes() for path in recorded.iterdir()}
    recorder = store.reopen(stored, home)
    recorder.append([ItemEntry(user_message("q6")), EventEntry(UserMessageEvent("q6"))])
    recorder.close()
    assert [path for path in recorded.iterdir() if path.read_bytes() != before[path]] == [Path(stored.path or "")]
    ordinals = [json.loads(line)["ordinal"] for line in Path(stored.path or "").read_text().splitlines()]
    assert ordinals == list(range(25, 25 + len(ordinals)))
    assert said(store.load(THREAD, home)) == ["q1", "a1", "q3", "a3", "q5", "a6", "q6"]


def test_a_deleted_file_begins_again_with_its_first_ordinal(store: RolloutStore, home: str, recorded: Path) -> None:
    stored = store.load(THREAD, home)
    recorder = store.reopen(stored, home)
    assert stored.path
    Path(stored.path).unlink()
    recorder.append([ItemEntry(user_message("q6"))])
    recorder.close()
    assert json.loads(Path(stored.path).read_text().splitlines()[0])["ordinal"] == 25
    assert said(store.load(THREAD, home)) == ["q1", "a1", "q3", "a3", "q6"]


def test_a_base_may_be_archived(store: RolloutStore, home: str, recorded: Path) -> None:
    archive = Path(home) / "archived_sessions"
    archive.mkdir()
    for path in recorded.glob(f"*-{THREAD}*.jsonl"):
        path.rename(archive / path.name)
    assert said(store.load(FORK, home))[:4] == ["q1", "a1", "q3", "a3"]


def test_a_thread_whose_base_is_missing_is_refused(store: RolloutStore, home: str, recorded: Path) -> None:
    next(recorded.glob(f"*-{THREAD}.jsonl")).unlink()
    for thread in (THREAD, FORK, FORK_OF_FORK):
        with pytest.raises(ThreadError) as caught:
            store.load(thread, home)
        assert caught.value.slug == "thread-unreadable"
        assert f"continues the conversation {THREAD}, whose file is missing" in str(caught.value)
        assert f"rollout-...-{THREAD}.jsonl" in caught.value.hint


def test_a_thread_whose_base_is_cut_short_is_refused(store: RolloutStore, home: str, recorded: Path) -> None:
    base = next(recorded.glob(f"*-{THREAD}.jsonl"))
    base.write_text("".join(base.read_text().splitlines(keepends=True)[:13]))
    with pytest.raises(ThreadError, match="whose end is missing"):
        store.load(THREAD, home)
    next(recorded.glob(f"*_{FIRST_SEGMENT}.jsonl")).write_text("")
    with pytest.raises(ThreadError, match="whose end is missing"):
        store.load(FORK, home)


@pytest.mark.parametrize("base", [7, {}, {"thread_id": THREAD}, {"thread_id": "", "end_ordinal_exclusive": 3}])
def test_a_base_that_is_not_understood_is_refused(store: RolloutStore, home: str, rollout: Any, base: Any) -> None:
    rollout(history_base=base)
    with pytest.raises(ThreadError, match="history_base is not understood"):
        store.load("01a1fa36-db98-75f0-a6d6-2445f13ac227", home)


@pytest.mark.parametrize("change", [{"type": "event_msg"}, {"type": None}, {"id": 7}])
def test_only_the_head_of_a_file_says_what_it_continues(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-11-22T00-00-00-x.jsonl"
    line = {"type": "session_meta", "payload": {"id": "x", "history_base": 7}}
    for key, value in change.items():
        (line if key in line else line["payload"])[key] = value  # type: ignore[index]
    path.write_text(json.dumps(line) + "\n")
    assert lineage_of(path, tmp_path, lambda file: file.open("rb")) == Lineage(None, (Part(path, None),))


def test_files_that_continue_each_other_are_refused(store: RolloutStore, home: str, rollout: Any) -> None:
    rollout(thread_id="one", history_base={"thread_id": "two", "end_ordinal_exclusive": 1})
    rollout(thread_id="two", history_base={"thread_id": "one", "end_ordinal_exclusive": 1})
    with pytest.raises(ThreadError, match="whose file is missing"):
        store.load("one", home)


def test_an_unreadable_line_of_a_base_is_told_with_its_file(store: RolloutStore, home: str, recorded: Path) -> None:
    base = next(recorded.glob(f"*-{THREAD}.jsonl"))
    lines = base.read_text().splitlines(keepends=True)
    base.write_text("".join([*lines[:8], "{broken\n", *lines[9:]]))
    stored = store.load(THREAD, home)
    assert stored.warnings == (f"1 unreadable line(s) of {base} were skipped (line 9)",)
    assert said(stored) == ["q1", "a1", "q3", "a3", "q5", "a6"]
    base.write_text("".join([*lines[:13], "{broken\n", *lines[14:]]))
    assert said(store.load(FORK, home))[:4] == ["q1", "a1", "q3", "a3"]


def test_a_fork_in_the_middle_of_a_turn_ends_that_turn(store: RolloutStore, home: str, recorded: Path) -> None:
    """The base is cut before the answer of its first turn, and a rollback of the fork takes back the fork's turn only."""
    path = next(recorded.glob(f"*-{FORK}.jsonl"))
    head = json.loads(path.read_text().splitlines()[0])
    head["payload"]["history_base"] = {"thread_id": THREAD, "end_ordinal_exclusive": 10}
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "f1"}]}
    lines = [head, {"ordinal": 35, "type": "response_item", "payload": asked}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert said(store.load(FORK, home)) == ["q1", "f1"]
    rollback = {"ordinal": 36, "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    with path.open("a") as file:
        file.write(json.dumps(rollback) + "\n")
    assert said(store.load(FORK, home)) == ["q1"]


class Files:
    """Writes files as Codex does: turns of three lines, a new segment for a revert, a new file for a fork."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.files: list[tuple[Path, str]] = []
        self.lines: list[list[tuple[int, str]]] = []  # for each thread: the next ordinal and text of its turns
        self.names: list[str] = []
        self.ids: list[str] = []
        self.segments = 0

    def write(self, thread: int, kind: str, payload: dict[str, Any], ordinal: int) -> None:
        line = {"timestamp": "2026-11-22T18:49:37.000Z", "ordinal": ordinal, "type": kind, "payload": payload}
        with self.files[thread][0].open("a") as file:
            file.write(json.dumps(line) + "\n")

    def begin(self, thread: int, name: str, base: dict[str, Any] | None, first: int) -> None:
        path = self.folder / f"rollout-2026-11-22T18-49-37-{name}.jsonl"
        self.files[thread : thread + 1] = [(path, name.rpartition("_")[2])]
        head = {"id": self.ids[thread], "cwd": "/w", "history_mode": "paginated", "history_base": base}
        self.write(thread, "session_meta", head, first)

    def start(self) -> None:
        thread = len(self.ids)
        self.ids.append(str(uuid.uuid4()))
        self.lines.append([(1, "")])
        self.begin(thread, self.ids[thread], None, 0)

    def turn(self, thread: int, text: str) -> None:
        ordinal = self.lines[thread][-1][0]
        self.write(thread, "event_msg", {"type": "task_started", "turn_id": text}, ordinal)
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        self.write(thread, "response_item", item, ordinal + 1)
        self.write(thread, "event_msg", {"type": "task_complete", "turn_id": text}, ordinal + 2)
        self.lines[thread].append((ordinal + 3, text))

    def owner(self, thread: int, end: int) -> tuple[str, int]:
        """The newest file of the thread's chain that has the line before ``end``."""
        path, name = self.files[thread]
        while True:
            first = json.loads(path.read_text().splitlines()[0])
            base = first["payload"]["history_base"]
            if base is None or first["ordinal"] < end:
                return name, end
            name = base["thread_id"]
            path = next(path for path in self.folder.iterdir() if path.stem.endswith(name))

    def revert(self, thread: int, turns: int) -> None:
        kept = self.lines[thread][: max(1, len(self.lines[thread]) - turns)]
        name, end = self.owner(thread, kept[-1][0])
        self.segments += 1
        self.lines[thread] = [*kept[:-1], (end + 1, kept[-1][1])]
        segment = f"{self.ids[thread]}_00000000-0000-7000-8000-{self.segments:012x}"
        self.begin(thread, segment, {"thread_id": name, "end_ordinal_exclusive": end}, end)

    def fork(self, thread: int) -> None:
        name, end = self.owner(thread, self.lines[thread][-1][0])
        self.ids.append(str(uuid.uuid4()))
        self.lines.append([*self.lines[thread][:-1], (end + 1, self.lines[thread][-1][1])])
        base = {"thread_id": name, "end_ordinal_exclusive": end}
        self.begin(len(self.ids) - 1, self.ids[-1], base, end)


STEPS = st.lists(st.tuples(st.sampled_from(["turn", "turn", "revert", "fork"]), st.integers(0, 5)), max_size=14)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_every_thread_has_its_own_history_however_they_fork_and_revert(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    home = tmp_path_factory.mktemp("home")
    files = Files(home / "sessions/2026/11/22")
    files.start()
    for number, (step, choice) in enumerate(steps):
        thread = choice % len(files.ids)
        if step == "turn":
            files.turn(thread, f"turn {number}")
        elif step == "revert":
            files.revert(thread, 1 + choice % 3)
        else:
            files.fork(thread)
    store = RolloutStore()
    for thread, name in enumerate(files.ids):
        stored = store.load(name, str(home))
        assert said(stored) == [text for _, text in files.lines[thread] if text]
        assert stored.meta.id == name
        assert stored.warnings == ()


def test_codex_goes_on_with_what_we_add_to_a_reverted_thread_and_its_fork(
    store: RolloutStore, home: str, meta: ThreadMeta, app_server: Any
) -> None:

    def add(thread: str, text: str) -> list[str]:
        stored = store.load(thread, home)
        recorder = store.reopen(stored, home)
        recorder.append([ItemEntry(user_message(text)), EventEntry(UserMessageEvent(text))])
        recorder.close()
        return said(stored)

    with ResponsesServer([say(f"a{number}") for number in range(1, 9)]) as server:
        with app_server(server.url) as app:
            thread = app.request("thread/start", cwd=meta.cwd, historyMode="paginated")["thread"]["id"]
            app.turn(thread, "q1")
            second = app.turn(thread, "q2")
            app.request("thread/revert", threadId=thread, beforeTurnId=second)
            app.turn(thread, "q3")
            fork = app.request("thread/fork", threadId=thread)["thread"]["id"]
            app.turn(fork, "f1")
        assert add(thread, "ours") == ["q1", "a1", "q3", "a3"]
        assert add(fork, "forked") == ["q1", "a1", "q3", "a3", "f1", "a4"]
        with app_server(server.url) as app:
            for name in (thread, fork):
                app.request("thread/resume", threadId=name, excludeTurns=True)
                app.turn(name, "go on")
    texts = [
        [part["text"] for item in body if item.get("role") != "developer" for part in item.get("content", ())]
        for body in server.inputs[-2:]
    ]
    asked = [[text for text in body if not text.startswith("<")] for body in texts]
    assert asked == [
        ["q1", "a1", "q3", "a3", "ours", "go on"],
        ["q1", "a1", "q3", "a3", "f1", "a4", "forked", "go on"],
    ]
