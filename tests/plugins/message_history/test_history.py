"""The message history: its ops and events, its file, and ``codex-framework history``."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework import CodexError, Kernel
from codex_framework.cli.main import main
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import ErrorEvent
from codex_plugin_message_history.events import GetHistoryEntryResponseEvent, HistoryEntry, HistoryMetadataEvent
from codex_plugin_message_history.history import History, history_of


def asked(home: Path, *ops: tuple[str, dict[str, Any]], settings: tuple[str, ...] = ()) -> list[Any]:
    """Submit ops to a thread of a kernel, and return the events that answer them."""

    async def use() -> list[Any]:
        overrides = ('model="m"', "framework.plugins.disabled=['undo']", *settings)
        config = load_config(cwd=home, environ={"CODEX_HOME": str(home), "HOME": str(home)}, overrides=overrides)
        async with await Kernel.create(config) as kernel:
            thread = await kernel.start_thread()
            heard = thread.events()
            sent = {await thread.submit(kernel.op(tag, **fields)) for tag, fields in ops}
            await thread.shutdown()
            return [event.msg async for event in heard if event.id in sent]

    return asyncio.run(asyncio.wait_for(use(), 60))


def test_a_prompt_is_appended_and_looked_up_by_log_id_and_offset(tmp_path: Path) -> None:
    assert asked(tmp_path, ("get_history_metadata", {})) == [HistoryMetadataEvent(0, 0)]
    assert asked(tmp_path, ("add_to_history", {"text": "first\n☃"}), ("add_to_history", {"text": "second"})) == []
    path = tmp_path / "history.jsonl"
    log_id = path.stat().st_ino
    assert path.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [sorted(line) for line in lines] == [["session_id", "text", "ts"]] * 2
    requests = [(0, log_id), (1, log_id), (2, log_id), (-1, log_id), (0, log_id + 1)]
    answers = asked(
        tmp_path,
        ("get_history_metadata", {}),
        *(("get_history_entry_request", {"offset": offset, "log_id": log}) for offset, log in requests),
    )
    assert answers[0] == HistoryMetadataEvent(log_id, 2)
    entries = [HistoryEntry(line["session_id"], line["ts"], line["text"]) for line in lines]
    assert answers[1:] == [
        GetHistoryEntryResponseEvent(offset, log, entry)
        for (offset, log), entry in zip(requests, [*entries, None, None, None], strict=True)
    ]


def test_without_persistence_nothing_is_written(tmp_path: Path) -> None:
    assert asked(tmp_path, ("add_to_history", {"text": "x"}), settings=('history.persistence="none"',)) == []
    assert not (tmp_path / "history.jsonl").exists()


def test_a_file_that_cannot_be_read_or_written_is_an_error_and_the_thread_goes_on(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").mkdir()
    events = asked(
        tmp_path, ("add_to_history", {"text": "x"}), ("get_history_entry_request", {"offset": 0, "log_id": 1})
    )
    assert [type(event) for event in events] == [ErrorEvent, ErrorEvent]
    assert events[0].message.startswith(f"cannot write {tmp_path}/history.jsonl: Is a directory")
    assert events[1].message.startswith(f"cannot read {tmp_path}/history.jsonl: Is a directory")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()])
def test_a_pipe_or_a_device_is_an_error_and_never_waited_for(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "history.jsonl"
    make(path)
    for act in (lambda: list(History(path).entries()), lambda: History(path).append("s", "x")):
        with pytest.raises(CodexError, match=r"cannot read|cannot write") as error:
            act()
        assert error.value.hint.startswith("Make it a file that you can read.")


def test_a_file_that_is_too_long_loses_its_oldest_entries_and_stays_the_same_file(tmp_path: Path) -> None:
    history = history_of(tmp_path, {"history": {"max_bytes": 1000}})
    for number in range(40):
        history.append("s", f"prompt {number} {'x' * 30}")
        assert history.path.stat().st_size <= 1000
    log_id = history.path.stat().st_ino
    texts = [entry.text.split()[1] for _, entry in history.entries()]
    assert texts == [str(number) for number in range(40 - len(texts), 40)]
    assert len(texts) >= 8
    assert history.path.stat().st_ino == log_id
    history.append("s", "y" * 2000)
    assert [entry.text for _, entry in history.entries()] == ["y" * 2000], "the newest one always stays"


@pytest.mark.parametrize("table", [{}, {"max_bytes": 0}, {"persistence": "save-all"}, {"max_bytes": "many"}, "wrong"])
def test_settings_that_say_nothing_mean_no_limit(tmp_path: Path, table: Any) -> None:
    assert history_of(tmp_path, {"history": table}) == History(tmp_path / "history.jsonl")


def test_torn_and_foreign_lines_keep_their_offsets_and_are_no_entries(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.path.write_bytes(
        b'{"conversation_id":"old","ts":1.5,"text":"a"}\n[]\n\xff\n{"ts":1}\n{"session_id":"s","ts":2,"text":'
    )
    history.append("s", "b")
    assert [(offset, entry.session_id, entry.text) for offset, entry in history.entries()] == [
        (0, "old", "a"),
        (5, "s", "b"),
    ]
    assert history.metadata()[1] == 6


def test_a_lock_that_another_program_keeps_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_plugin_message_history.history._PAUSE_S", 0.001)
    history = History(tmp_path / "history.jsonl")
    with history.path.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(CodexError, match="another program keeps it locked"):
            history.append("s", "x")
    history.append("s", "x")


WRITER = """
import sys
from pathlib import Path
from codex_plugin_message_history.history import History
history = History(Path(sys.argv[1]), max_bytes=int(sys.argv[3]) or None)
for number in range(50):
    history.append(sys.argv[2], f"{number} " + "x" * 200)
"""


@pytest.mark.parametrize("limit", [0, 6000])
def test_processes_that_append_at_once_lose_and_mix_nothing(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "history.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, str(limit)]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    found = [(entry.session_id, int(entry.text.split()[0])) for _, entry in History(path).entries()]
    assert len(found) == History(path).metadata()[1], "every line is whole"
    for name in "ab":
        numbers = [number for session, number in found if session == name]
        assert numbers == list(range(50))[50 - len(numbers) :]
    assert limit or len(found) == 100


def test_the_command_shows_prompts_and_searches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["history"]) == 0
    history = History(tmp_path / "history.jsonl")
    for session, text in (("aaaa", "fix the\nbug \x1b[31m"), ("bbbb", "explain"), ("aaaa", "Fix it")):
        history.append(session, text)
    capsys.readouterr()
    assert main(["history", "fix", "--session", "aa"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == ["aaaa  fix the bug [31m", "aaaa  Fix it"]
    assert main(["history", "--json", "--limit", "1"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["offset"], shown["text"], shown["log_id"]) == (2, "Fix it", history.path.stat().st_ino)


@pytest.mark.parametrize("ts", ["1e999", "-1e999", "NaN", "1e400", "true", "[" * 5000, "9" * 5000, "null"])
def test_a_time_that_is_none_hides_no_other_prompt(tmp_path: Path, ts: str, monkeypatch: Any, capsys: Any) -> None:
    history = History(tmp_path / "history.jsonl")
    history.path.write_text(f'{{"session_id":"s","ts":{ts},"text":"bad"}}\n')
    history.append("s", "good")
    assert [entry.text for _, entry in history.entries()][-1] == "good"
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    assert main(["history"]) == 0
    assert capsys.readouterr().out.endswith("  s  good\n")
    event = asked(tmp_path, ("get_history_entry_request", {"offset": 0, "log_id": history.path.stat().st_ino}))[0]
    assert isinstance(event, GetHistoryEntryResponseEvent)


def test_nothing_in_the_history_controls_the_terminal(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    evil = "\x1b]0;evil\x07\x9b\x7f"
    line = {"session_id": evil, "ts": 1, "text": f"a{evil}"}
    (tmp_path / "history.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    assert main(["history"]) == 0
    assert capsys.readouterr().out.endswith("  ]0;evil  a]0;evil\n")
