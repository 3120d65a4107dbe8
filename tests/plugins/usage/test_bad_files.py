"""Files that are broken, huge or out of reach: what can be read is counted, and the rest is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from codex_plugin_usage import lines
from codex_plugin_usage.folders import file_at
from codex_plugin_usage.scan import scan
from codex_plugin_usage.table import lines_of

from .conftest import THREAD, answered, called, counted, encoded, turn

GOOD = [*turn(), counted((100, 0, 10), (100, 0, 10))]
OTHER = "01a1fa36-db98-75f0-a6d6-2445f13ac228"


@pytest.mark.parametrize(
    "bad",
    [
        b"{broken\n",
        b"\xff\xfe not utf-8\n",
        b'{"timestamp":"\xff","type":"event_msg","payload":{"type":"token_count"}}\n',
        b"[]\n",
        b"null\n",
        b'{"type":"event_msg"}\n',
        b'{"type":7,"payload":{}}\n',
        b"[" * 100_000 + b"\n",
        b'{"timestamp":"2026-11-20T18:27:41.623Z","type":"response_item","payload":{"type":"message","content":"cut\n',
    ],
)
def test_broken_lines_are_skipped_and_counted(session: Any, home: Path, usage: Any, bad: bytes) -> None:
    path = session(*GOOD[:2], bad, bad, GOOD[2])
    report = scan(home)
    assert report.total.amounts.total == 110
    assert (report.problems.skipped_lines, report.problems.damaged_files) == (2, 1)
    status, out, err = usage()
    assert status == 0
    assert err == f"warning: skipped 2 unreadable lines of {path}\n"
    assert "110 tokens" in out


@pytest.mark.parametrize(
    "odd",
    [
        b"\n",
        b"\0" * 100 + b"\n",
        b'{"type":"event_msg","payload":null}\n',
        b'{"type":"new_kind","payload":{}}\n',
        b'{"timestamp":"x","type":"event_msg","payload":{"type":"token_count","info":5}}\r\n',
        encoded(("response_item", {"type": "message", "content": [{"type": "input_text", "text": "x"}]})),
        encoded(("session_meta", {"id": 7})),
        encoded(("turn_context", {"model": 7, "turn_id": []})),
        encoded(("event_msg", {"type": "item_completed", "item": "x"})),
        encoded(("event_msg", {"type": "item_completed", "item": {"id": [], "status": "failed"}})),
        encoded(("event_msg", {"type": "mcp_tool_call_end", "call_id": "c", "result": 7, "duration": "1s"})),
        encoded(("event_msg", {"type": "thread_settings_applied", "thread_settings": [1]})),
        encoded(("event_msg", {"type": "token_count", "info": None})),
        encoded(("token_usage_record", {"usage": [1]})),
        encoded(("response_item", {"type": "function_call_output", "call_id": ["c"], "output": {}})),
    ],
)
@pytest.mark.parametrize("by", ["thread", "tool"])
def test_odd_lines_are_no_problem(session: Any, home: Path, odd: bytes, by: Any) -> None:
    session(odd, *GOOD, odd)
    report = scan(home, by=by)
    assert (report.total.amounts.total, report.problems.skipped_lines) == (110, 0)


ODD_TIMES = ["", "x", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", 7, None]


@pytest.mark.parametrize("stamp", ODD_TIMES)
@pytest.mark.parametrize("by", ["thread", "day"])
def test_a_line_with_an_odd_time_counts(session: Any, usage: Any, stamp: Any, by: str) -> None:
    path = session()
    lines = [json.loads(encoded(line)) | {"timestamp": stamp} for line in GOOD]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    status, out, err = usage("--by", by)
    assert (status, err) == (0, "")
    assert "110 tokens" in out


@pytest.mark.parametrize("by", ["thread", "tool"])
def test_numbers_that_nobody_can_use_up_are_not_counted(session: Any, home: Path, usage: Any, by: str) -> None:
    (home / "config.toml").write_text("[framework.plugins.usage.prices.m]\ninput = 1\noutput = 2\n")
    huge = 10**400
    ended = {"type": "mcp_tool_call_end", "call_id": "c1", "duration": {"secs": huge, "nanos": 0}}
    lines = [*turn(), counted((huge, 0, 7), (huge, 0, 7)), called("x"), ("event_msg", ended)]
    session(*lines)
    status, printed, _ = usage("--by", by, "--json")
    report = json.loads(printed)
    assert (status, report["total"]["tokens"]["total"]) == (0, 7)
    assert by == "thread" or report["rows"][0]["seconds"] == 0


def test_a_name_of_a_session_cannot_control_the_terminal(session: Any) -> None:
    name = "\x1b[31mred"
    path = session(*turn(), counted((1, 0, 1), (1, 0, 1)), id=name)
    path = path.rename(path.with_name("other.jsonl"))
    file = file_at(path)
    assert file is not None
    report = scan(path.parent, sessions=[file])
    assert not any("\x1b" in line for line in lines_of(report, 5))


def test_names_that_are_not_utf_8_are_shown(session: Any, home: Path, usage: Any) -> None:
    odd = "rollout-2026-11-20T18-27-42-\udcff.jsonl"
    path = session()
    path.write_bytes(b"{broken\n" + encoded(GOOD[2]))
    path.rename(home / "sessions/2026/11/20" / odd)
    for arguments in ((), ("--json",)):
        status, out, err = usage(*arguments)
        assert status == 0
        assert "\\udcff" in out
        assert "\\udcff" in err


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_last_line_that_is_cut_is_skipped(session: Any, home: Path, cut: int) -> None:
    path = session(*GOOD, counted((200, 0, 20), (100, 0, 10)))
    path.write_bytes(path.read_bytes()[:-cut])
    report = scan(home)
    expected = (220, 0) if cut == 1 else (110, 1)  # only the line end is missing
    assert (report.total.amounts.total, report.problems.skipped_lines) == expected


def test_a_line_longer_than_the_bound_is_skipped(session: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_LONGEST", 4096)
    session(*GOOD[:2], b'{"x":"' + b"y" * 3_000_000 + b'"}\n', GOOD[2], b"z" * 10_000)
    report = scan(home)
    assert (report.total.amounts.total, report.problems.skipped_lines) == (110, 2)


def test_a_file_without_line_ends_does_not_fill_the_memory(
    session: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_LONGEST", 1 << 20)
    path = session(*GOOD)
    os.truncate(path, 200 << 20)
    tracemalloc.start()
    try:
        report = scan(home)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.total.amounts.total == 110
    assert peak < 20 << 20


def test_files_that_cannot_be_read_are_named(session: Any, home: Path, usage: Any) -> None:
    session(*GOOD)
    folder = home / "sessions/2026/11/20"
    (folder / f"rollout-2026-11-20T18-27-41-{OTHER}.jsonl").mkdir()
    os.mkfifo(folder / "rollout-2026-11-20T18-27-42-pipe.jsonl")
    (folder / "rollout-2026-11-20T18-27-43-gone.jsonl").symlink_to("nowhere")
    (folder / "rollout-2026-11-20T18-27-44-loop.jsonl").symlink_to("rollout-2026-11-20T18-27-44-loop.jsonl")
    (folder / "notes.txt").write_text("x")
    status, out, err = usage()
    assert status == 0
    assert "110 tokens" in out
    assert [line.rsplit(": ", 1)[1] for line in err.splitlines()] == [
        "it is not a regular file",
        "it is not a regular file",
        "No such file or directory",
        "Too many levels of symbolic links",
    ]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that cannot be read")
def test_a_file_that_fails_while_it_is_read_is_named(session: Any, home: Path) -> None:
    session(*GOOD)
    path = home / "sessions/2026/11/20/rollout-2026-11-20T18-27-42-mem.jsonl"
    path.symlink_to("/proc/self/mem")
    report = scan(home)
    assert report.total.amounts.total == 110
    assert report.problems.places == [f"cannot read {path}: Input/output error"]


def test_folders_that_lead_back_are_not_followed_for_ever(session: Any, home: Path) -> None:
    session(*GOOD)
    (home / "sessions/2026/11/21").symlink_to(home / "sessions")
    (home / "sessions/2027").symlink_to(home / "sessions/2027")
    report = scan(home)
    assert (report.total.amounts.total, report.problems.unreadable) == (110, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files_and_folders_are_named(session: Any, home: Path) -> None:
    session(*GOOD)
    file = session(*GOOD, thread=OTHER)
    file.chmod(0)
    session(*GOOD, day="2026/11/21").parent.chmod(0)
    report = scan(home)
    assert (report.total.amounts.total, report.problems.unreadable) == (110, 2)
    (home / "sessions/2026/11/21").chmod(0o700)


def test_sessions_that_are_no_folder_are_an_error(home: Path, usage: Any) -> None:
    (home / "sessions").write_text("x")
    status, out, err = usage()
    assert (status, out) == (1, "")
    assert err.splitlines()[0] == f"Error: cannot read {home}/sessions: Not a directory"


def test_only_some_problems_are_named(session: Any, home: Path) -> None:
    for number in range(30):
        session(b"{broken\n", *GOOD, thread=f"{THREAD[:-2]}{number:02}")
    problems = scan(home).problems
    assert (problems.damaged_files, len(problems.places)) == (30, 20)
    assert problems.sentences()[-1] == "10 more files or folders have such problems"


def compress(path: Path) -> Path:
    zstandard: Any = import_module("zstandard")
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    path.unlink()
    return packed


def test_compressed_sessions_are_read(session: Any, home: Path) -> None:
    pytest.importorskip("zstandard")
    compress(session(*GOOD))
    assert scan(home).total.amounts.total == 110


def test_a_broken_compressed_session_is_named(session: Any, home: Path) -> None:
    pytest.importorskip("zstandard")
    packed = compress(session(*GOOD))
    packed.write_bytes(packed.read_bytes()[:-20])
    assert scan(home).problems.places == [f"cannot read {packed}: its end is missing"]
    packed.write_bytes(b"no zstd")
    assert scan(home).problems.places[0].startswith(f"cannot read {packed}: it is not a zstd file: ")


def test_a_compressed_session_may_have_several_frames(session: Any, home: Path) -> None:
    zstandard: Any = pytest.importorskip("zstandard")
    path = session(*GOOD, counted((200, 0, 20), (100, 0, 10)))
    whole = path.read_bytes()
    packed = compress(path)
    frames = (zstandard.ZstdCompressor().compress(part) for part in (whole[:300], whole[300:]))
    packed.write_bytes(b"".join(frames))
    assert scan(home).total.amounts.total == 220


def test_compressed_sessions_that_cannot_be_read_are_counted(
    session: Any, home: Path, usage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(import_module("sys").modules, "zstandard", None)
    session(*GOOD)
    packed = session(*GOOD, thread=OTHER)
    packed.rename(packed.with_name(f"{packed.name}.zst"))
    status, out, err = usage()
    assert (status, "110 tokens" in out) == (0, True)
    assert err == "warning: 1 compressed session was not read; to include them: pip install zstandard\n"


def test_a_plain_file_has_priority_over_its_compressed_copy(session: Any, home: Path) -> None:
    path = session(*GOOD)
    path.with_name(f"{path.name}.zst").write_bytes(b"no zstd")
    report = scan(home)
    assert (report.total.amounts.total, report.problems.unreadable, report.problems.compressed) == (110, 0, 0)


def test_many_calls_without_an_end_do_not_fill_the_memory(session: Any, home: Path) -> None:
    session(
        *turn(), *(called("a", str(number)) for number in range(10_500)), answered("x", "3"), answered("x", "10400")
    )
    (row,) = scan(home, by="tool").as_json()["rows"]
    assert (row["calls"], row["unfinished"]) == (10_500, 10_499)


def test_a_closed_pipe_ends_quietly(session: Any, home: Path) -> None:
    session(*GOOD)
    command = f"{sys.executable} -m codex_framework usage --json | head -c 1"
    environ = {"CODEX_HOME": str(home), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, env=environ, cwd=home, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (b"{", b"")


def test_a_compressed_session_without_end_is_named(session: Any, home: Path) -> None:
    zstandard: Any = pytest.importorskip("zstandard")
    packed = compress(session(*GOOD))
    packed.write_bytes(packed.read_bytes() + zstandard.ZstdCompressor().compress(bytes(32 << 20)) * 8)
    (place,) = scan(home).problems.places
    assert place.startswith(f"cannot read {packed}: its content is longer than ")
