from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework import FunctionCall, Message, OutputText, ThreadError, ThreadMeta
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    ErrorEvent,
    EventMsg,
    ExecCommandBeginEvent,
    ItemCompletedEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UnknownEvent,
    UserMessageEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import FunctionCallOutput, UnknownItem, message_text, user_message
from codex_framework.contract.roles.stores import EventEntry, ItemEntry, TurnContextEntry
from codex_plugin_rollout import RolloutStore

GOLDEN = Path(__file__).with_name("golden.jsonl")


def lines_of(path: str | None) -> list[dict[str, Any]]:
    assert path is not None
    text = Path(path).read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_a_thread_without_a_turn_leaves_no_file(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    recorder = store.create(meta, home)
    recorder.append(
        [
            ItemEntry(user_message("<permissions instructions>\n...", role="developer")),
            ItemEntry(user_message("<environment_context>\n...")),
            ItemEntry(user_message("# AGENTS.md instructions for /w\n...")),
        ]
    )
    recorder.close()
    assert not Path(home).exists()


def test_a_thread_whose_turn_has_begun_can_be_found(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    recorder = store.create(meta, home)
    recorder.append([EventEntry(TurnStartedEvent("t"))])
    recorder.flush()
    assert store.load(meta.id, home).history == ()
    assert store.latest(home) == meta.id


def test_the_file_is_named_by_local_time_and_id(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    began = time.localtime(meta.created_at)
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', began)}-{meta.id}.jsonl"
    expected = Path(home) / "sessions" / time.strftime("%Y/%m/%d", began) / name
    recorder = store.create(meta, home)
    assert recorder.path == str(expected)
    recorder.append([EventEntry(UserMessageEvent("hello"))])
    assert not expected.exists()
    recorder.flush()
    assert expected.is_file()
    assert expected.stat().st_mode & 0o077 == 0, "conversations are private"


def test_what_is_written_has_the_golden_shape(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    usage = TokenUsage(input_tokens=1234, cached_input_tokens=1000, output_tokens=12, total_tokens=1246)
    meta = meta.evolve(cwd="/w", forked_from_id="01a1fa36-0000-75f0-a6d6-2445f13ac227", extra={"thread_source": "user"})
    meta = meta.evolve(git={"commit_hash": "a" * 40, "branch": "main"})
    recorder = store.create(meta, home)
    recorder.append(
        [
            EventEntry(TurnStartedEvent("t1", 1795199261, 258400)),
            ItemEntry(user_message("<environment_context>\n</environment_context>")),
            TurnContextEntry({"turn_id": "t1", "cwd": "/w", "approval_policy": "never", "model": "m"}),
            ItemEntry(user_message("Grüße")),
            EventEntry(UserMessageEvent("Grüße", local_images=("/w/a.png",))),
            ItemEntry(FunctionCall("exec_command", '{"cmd": "true"}', "c1", id="fc_1")),
            ItemEntry(FunctionCallOutput("c1", "ok")),
            ItemEntry(Message("assistant", (OutputText("Done."),), id="msg_1", phase="final_answer")),
            EventEntry(AgentMessageEvent("Done.", "final_answer")),
            EventEntry(TokenCountEvent(TokenUsageInfo(usage, usage, 258400))),
            EventEntry(TurnCompleteEvent("t1", "Done.", 1795199262, 12, 5)),
        ]
    )
    recorder.close()
    written = lines_of(recorder.path)
    for line in written:
        assert (
            time.time() - 60 < time.mktime(time.strptime(line["timestamp"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        )
        line["timestamp"] = "2026-11-20T18:27:41.623Z"
    assert written == [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def test_an_item_is_written_with_the_bytes_it_came_with(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    encoded = b'{"type":"message" , "role":"user","content":[{"type":"input_text","text":"hi"}],"more":1.50}'
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("hi"), encoded)])
    recorder.close()
    assert recorder.path
    assert encoded in Path(recorder.path).read_bytes()


def test_only_events_worth_keeping_are_kept(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    plan = {"type": "Plan", "id": "p"}
    kept: list[EventMsg] = [
        UserMessageEvent("hi"),
        TurnAbortedEvent("t", "interrupted"),
        ItemCompletedEvent("th", "t", plan, 1),
        UnknownEvent({"type": "web_search_end", "call_id": "c", "query": "q"}),
    ]
    dropped: list[EventMsg] = [
        WarningEvent("w"),
        ErrorEvent("e"),
        AgentMessageContentDeltaEvent("th", "t", "i", "d"),
        ExecCommandBeginEvent(call_id="c", turn_id="t", command=("ls",), cwd="/w", started_at_ms=1),
        ItemCompletedEvent("th", "t", {"type": "AgentMessage", "id": "m"}, 1),
        UnknownEvent({"type": "hook_started"}),
    ]
    recorder = store.create(meta, home)
    recorder.append([EventEntry(msg) for pair in zip(kept, dropped, strict=False) for msg in pair])
    recorder.append([EventEntry(dropped[-1]), ItemEntry(UnknownItem({"type": "compaction_trigger"}))])
    recorder.close()
    kinds = [line["payload"]["type"] for line in lines_of(recorder.path)[1:]]
    assert kinds == ["user_message", "turn_aborted", "item_completed", "web_search_end"]


def test_a_name_that_is_not_utf8_makes_no_broken_line(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    recorder = store.create(meta.evolve(cwd="/w/\udcff"), home)
    recorder.append([ItemEntry(user_message("bad \ud800 text")), EventEntry(UserMessageEvent("bad \ud800 text"))])
    recorder.close()
    assert len(lines_of(recorder.path)) == 3
    assert store.load(meta.id, home).warnings == ()


def test_a_stored_thread_goes_on_in_its_file(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    first = store.create(meta, home)
    first.append([ItemEntry(user_message("one"))])
    first.close()
    stored = store.load(meta.id, home)
    assert stored.meta == meta.evolve(extra={"session_id": meta.id})
    second = store.reopen(stored, home)
    second.append([ItemEntry(user_message("two"))])
    second.close()
    assert second.path == first.path
    assert store.load(meta.id, home).history == (user_message("one"), user_message("two"))


def test_a_file_that_was_archived_meanwhile_is_followed(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("one"))])
    recorder.flush()
    archive = Path(home) / "archived_sessions"
    archive.mkdir()
    assert recorder.path
    moved = Path(recorder.path).rename(archive / Path(recorder.path).name)
    recorder.append([ItemEntry(user_message("two"))])
    recorder.close()
    assert recorder.path == str(moved)
    assert store.load(meta.id, home).history == (user_message("one"), user_message("two"))


def test_a_file_that_was_deleted_meanwhile_begins_again_with_its_head(
    store: RolloutStore, meta: ThreadMeta, home: str
) -> None:
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("one"))])
    recorder.flush()
    assert recorder.path
    Path(recorder.path).unlink()
    recorder.append([ItemEntry(user_message("two"))])
    recorder.close()
    assert store.load(meta.id, home).history == (user_message("two"),)


def test_what_cannot_be_written_is_kept_and_tried_again(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    blocker = Path(home) / "sessions"
    blocker.parent.mkdir()
    blocker.write_text("in the way")
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("one"))])
    with pytest.raises(ThreadError) as caught:
        recorder.flush()
    assert str(caught.value).startswith("cannot write ")
    assert caught.value.slug == "thread-unsaved"
    assert caught.value.hint
    recorder.append([ItemEntry(user_message("two"))])
    blocker.unlink()
    recorder.flush()
    assert store.load(meta.id, home).history == (user_message("one"), user_message("two"))


FULL_DISK = """
import resource, sys
from codex_plugin_rollout import RolloutStore
from codex_framework import ThreadError
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import ItemEntry

store, home, thread = RolloutStore(), sys.argv[1], sys.argv[2]
recorder = store.reopen(store.load(thread, home), home)
before = open(recorder.path, "rb").read()
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 700, hard))  # the file system takes 700 bytes more
recorder.append([ItemEntry(user_message("x" * 400)), ItemEntry(user_message("y" * 400))])
try:
    recorder.flush()
except ThreadError as error:
    print(error.fact)
assert open(recorder.path, "rb").read() == before, "nothing of a failed flush stays behind"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
recorder.close()
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_line_breaks_no_line(
    store: RolloutStore, meta: ThreadMeta, home: str
) -> None:
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("one"))])
    recorder.close()
    done = subprocess.run(
        [sys.executable, "-B", "-c", FULL_DISK, home, meta.id], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == f"cannot write {recorder.path}: File too large"
    stored = store.load(meta.id, home)
    assert stored.warnings == ()
    assert stored.history == (user_message("one"), user_message("x" * 400), user_message("y" * 400))


FULL_DISK_AT_FIRST = """
import os, resource, sys
from codex_plugin_rollout import RolloutStore
from codex_framework import ThreadError, ThreadMeta
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import ItemEntry

store, home, thread = RolloutStore(), sys.argv[1], sys.argv[2]
made_by = dict(originator="test", source="exec", cli_version="0", model_provider="mock")
recorder = store.create(ThreadMeta(id=thread, cwd=home, created_at=1.0, **made_by), home)
recorder.append([ItemEntry(user_message("one"))])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
try:
    recorder.flush()
except ThreadError as error:
    print(error.fact.rpartition(": ")[2])
print(os.listdir(os.path.dirname(recorder.path)))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
recorder.close()
print(os.listdir(os.path.dirname(recorder.path)) == [os.path.basename(recorder.path)])
"""


def test_a_disk_that_is_full_at_first_leaves_no_file_without_a_head(
    store: RolloutStore, meta: ThreadMeta, home: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", FULL_DISK_AT_FIRST, home, meta.id], capture_output=True, text=True, check=False
    )
    assert (done.stdout.splitlines(), done.stderr) == (["File too large", "[]", "True"], "")
    assert store.load(meta.id, home).history == (user_message("one"),)


def test_a_new_file_replaces_no_file_of_another_program(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("two"))])
    other = store.create(meta, home)
    other.append([ItemEntry(user_message("one"))])
    other.close()
    recorder.close()
    assert recorder.path == other.path
    assert store.load(meta.id, home).history == (user_message("one"), user_message("two"))


@pytest.mark.parametrize("tail", [b'{"timestamp":"2026', b"{", b"\0" * 4096, b'{"a":"' + b"z" * 200_000])
def test_a_torn_last_line_is_cut_off_before_the_next_is_written(
    store: RolloutStore, meta: ThreadMeta, home: str, tail: bytes
) -> None:
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("one"))])
    recorder.close()
    assert recorder.path
    with Path(recorder.path).open("ab") as file:
        file.write(tail)
    again = store.reopen(store.load(meta.id, home), home)
    again.append([ItemEntry(user_message("two"))])
    again.close()
    assert len(lines_of(recorder.path)) == 3
    assert store.load(meta.id, home).history == (user_message("one"), user_message("two"))


def test_a_last_line_that_lacks_only_its_newline_is_kept(store: RolloutStore, meta: ThreadMeta, home: str) -> None:
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("one"))])
    recorder.close()
    assert recorder.path
    os.truncate(recorder.path, Path(recorder.path).stat().st_size - 1)
    stored = store.load(meta.id, home)
    assert stored.history == (user_message("one"),)
    again = store.reopen(stored, home)
    again.append([ItemEntry(user_message("two"))])
    again.close()
    assert store.load(meta.id, home).history == (user_message("one"), user_message("two"))


MANY = """
import resource, sys, time
import attrs
from codex_plugin_rollout import RolloutStore
from codex_framework import ThreadMeta
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import ItemEntry

resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
store, home = RolloutStore(), sys.argv[1]
meta = ThreadMeta(id="t", cwd="/", created_at=time.time(), originator="o", source="exec", cli_version="1", model_provider="p")
recorders = [store.create(meta.evolve(id=f"t{number}"), home) for number in range(1000)]
for _ in range(2):
    for recorder in recorders:
        recorder.append([ItemEntry(user_message("hi"))])
        recorder.flush()
for recorder in recorders:
    recorder.close()
assert store.load("t999", home).history == (user_message("hi"), user_message("hi"))
"""


def test_a_thousand_threads_need_no_thousand_open_files(home: str) -> None:
    done = subprocess.run([sys.executable, "-c", MANY, home], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


WRITER = """
import sys, time
from codex_plugin_rollout import RolloutStore
from codex_framework import ThreadMeta
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import ItemEntry

home, thread = sys.argv[1:]
store = RolloutStore()
meta = ThreadMeta(
    id=thread, cwd="/", created_at=1795199261.0, originator="o", source="exec", cli_version="1", model_provider="p"
)
recorder = store.create(meta, home)
number = 0
while True:
    recorder.append([ItemEntry(user_message(f"{number + step} " + "x" * (number * 37 % 5000))) for step in range(7)])
    number += 7
    recorder.flush()
    if number == 7:
        print("writing", flush=True)
"""


@pytest.mark.parametrize("wait_ms", [0, 1, 3, 7, 16, 40])
def test_a_thread_whose_process_is_killed_loads(store: RolloutStore, home: str, wait_ms: int) -> None:
    thread = "01a1fa36-db98-75f0-a6d6-2445f13ac227"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, home, thread], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        time.sleep(wait_ms / 1000)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    history = store.load(thread, home).history
    numbers = [int(item.content[0].text.split()[0]) for item in history if isinstance(item, Message)]  # type: ignore[union-attr]
    assert len(numbers) >= 7
    assert numbers == list(range(len(numbers)))


APPENDER = """
import sys
from pathlib import Path
from codex_plugin_rollout.recorder import RolloutRecorder
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import ItemEntry

path, name = sys.argv[1:]
recorder = RolloutRecorder(Path(path), bytes, begun=True, archive=Path(path).parent)
for number in range(60):
    recorder.append([ItemEntry(user_message(f"{name} {number} " + name * 20_000))])
    recorder.flush()
"""


def test_processes_that_write_one_file_without_its_lock_break_no_line_of_each_other(
    store: RolloutStore, meta: ThreadMeta, home: str
) -> None:
    recorder = store.create(meta, home)
    recorder.append([ItemEntry(user_message("one"))])
    recorder.close()
    writers = [subprocess.Popen([sys.executable, "-c", APPENDER, str(recorder.path), name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(lines_of(recorder.path)) == 2 + 3 * 60
    said = [
        message_text(item).split()[:2] for item in store.load(meta.id, home).history[1:] if isinstance(item, Message)
    ]
    for name in "abc":
        assert [number for who, number in said if who == name] == [str(number) for number in range(60)]


@pytest.mark.parametrize(
    ("source", "written"),
    [("exec", "exec"), ("cli", "cli"), ("custom", {"custom": "custom"}), ("shop", {"custom": "shop"})],
)
def test_the_source_is_written_as_codex_reads_it(
    store: RolloutStore, meta: ThreadMeta, home: str, source: str, written: Any
) -> None:
    recorder = store.create(meta.evolve(source=source), home)
    recorder.append([ItemEntry(user_message("hello"))])
    recorder.close()
    assert recorder.path
    assert lines_of(recorder.path)[0]["payload"]["source"] == written
    stored = store.load(meta.id, home)
    assert (stored.meta.source, stored.meta.extra.get("source_detail")) == (source, None)
    assert store.latest(home) == meta.id, "it is not taken for the thread of a sub-agent"
    store.fork(meta.id, home, new_id="01a1fa36-db98-75f0-a6d6-2445f13ac228")
    assert store.load("01a1fa36-db98-75f0-a6d6-2445f13ac228", home).meta.source == source
