"""``codex-framework usage``: sessions, periods, the table and the JSON."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from codex_framework import CodexError
from codex_plugin_usage.dates import moment
from codex_plugin_usage.scan import scan

from .conftest import THREAD, answered, called, counted, turn

OTHER = "01a1fa36-db98-75f0-a6d6-2445f13ac228"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).astimezone()


def names(home: Path, *entries: Any) -> None:
    (home / "session_index.jsonl").write_text("\n".join(json.dumps(entry) for entry in entries) + "\n{broken\n[]\n")


def test_the_table(session: Any, usage: Any, home: Path) -> None:
    names(home, {"id": THREAD, "thread_name": "old"}, {"id": THREAD, "thread_name": "Fix\x1b[31m the tests"})
    session(*turn(model="gpt-5.5"), counted((123456, 100000, 7890, 500), (123456, 100000, 7890, 500)))
    status, out, err = usage()
    assert (status, err) == (0, "")
    header, row, _, total, cost, note, command = out.splitlines()
    titles = "Session Name Last used Model Responses Input Cached Output Reasoning Total Cost"
    assert " ".join(header.split()) == titles
    assert row.startswith(f"{THREAD}  Fix\\x1b[31m the tests  2026-11-20 ")
    assert row.split()[-8:] == ["gpt-5.5", "1", "123,456", "100,000", "7,890", "500", "131,346", "unknown"]
    assert total == (
        "1 sessions, 1 responses: 131,346 tokens = 123,456 input (of which 100,000 cached)"
        " + 7,890 output (of which 500 reasoning)"
    )
    assert cost == "Cost: unknown"
    assert note == "No price is known for mock/gpt-5.5. Set the price of a million tokens:"
    assert shlex.split(command) == [
        "codex-framework", "config", "set", 'framework.plugins.usage.prices."mock/gpt-5.5"', "{input = 0.00, output = 0.00}"
    ]  # fmt: skip


def test_the_json_has_every_row_and_the_documented_fields(session: Any, usage: Any, home: Path) -> None:
    names(home, {"id": THREAD, "thread_name": "Tests"})
    path = session(*turn(THREAD), counted((100, 40, 10, 4), (100, 40, 10, 4)), forked_from_id="f", cli_version="1")
    status, out, err = usage("--json", "--limit", "1")
    tokens = {
        "input": 100,
        "cached_input": 40,
        "cache_write_input": 0,
        "output": 10,
        "reasoning_output": 4,
        "total": 110,
    }
    spent = {"responses": 1, "tokens": tokens, "models": ["m"], "cost": None, "unpriced": ["mock/m"]}
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "format": 1,
        "by": "thread",
        "since": None,
        "until": None,
        "sessions": 1,
        "rows": [
            {
                "key": THREAD,
                "name": "Tests",
                "project": "/w",
                "started": "2026-11-20T18:27:41.623Z",
                "parent": None,
                "forked_from": "f",
                "archived": False,
                "path": str(path),
                "sessions": 1,
                **spent,
            }
        ],
        "total": spent,
        "problems": {"skipped_lines": 0, "damaged_files": 0, "unreadable": 0, "compressed": 0, "places": []},
    }


def test_the_documentation_names_every_field(session: Any, usage: Any) -> None:
    page = (Path(__file__).parents[3] / "docs/plugins/usage.md").read_text()
    session(*turn(), called("a"), answered("x"), counted((100, 40, 10, 4), (100, 40, 10, 4)))

    def keys(value: Any) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(keys, value))
        return set(value).union(*map(keys, value.values())) if isinstance(value, dict) else set()

    for by in ("thread", "model", "day", "project", "tool", "plugin"):
        found = keys(json.loads(usage("--json", "--by", by)[1]))
        assert {key for key in found if f"`{key}`" not in page} == set()


@pytest.mark.parametrize("by", ["thread", "model", "day", "project", "tool", "plugin"])
def test_every_table_has_its_rows_and_the_total(session: Any, usage: Any, by: str) -> None:
    session(*turn(), called("exec_command"), answered("x" * 40), counted((100, 0, 10), (100, 0, 10)))
    status, out, err = usage("--by", by)
    assert (status, err) == (0, "")
    key = {"thread": THREAD, "model": "m", "day": "2026-11-20", "project": "/w"}
    assert key.get(by, "unified_exec") in out
    assert "1 sessions, 1 responses: 110 tokens" in out
    assert ("Estimated" in out) == (by in ("tool", "plugin"))


def test_plugins_are_those_that_offer_the_tools(session: Any, usage: Any) -> None:
    tools = ["exec_command", "container.exec", "mcp__docs__get", "gone"]
    session(*turn(), *(called(tool, tool) for tool in tools))
    found = {row["key"]: row["plugin"] for row in json.loads(usage("--by", "tool", "--json")[1])["rows"]}
    assert found == {"exec_command": "unified_exec", "container.exec": "shell", "mcp__docs__get": "mcp", "gone": None}


def test_more_rows_than_the_limit_are_counted(session: Any, usage: Any) -> None:
    for number in range(5):
        session(*turn(), counted((100, 0, 10), (100, 0, 10)), thread=f"{THREAD[:-1]}{number}")
    _, out, _ = usage("--limit", "2")
    assert out.count(THREAD[:-1]) == 2
    assert "... and 3 more" in out
    assert "5 sessions, 5 responses: 550 tokens" in out


@pytest.mark.parametrize("how", ["id", "name", "path"])
def test_a_session_is_named_by_id_name_or_path(session: Any, usage: Any, home: Path, how: str) -> None:
    path = session(*turn(), counted((100, 0, 10), (100, 0, 10)))
    session(*turn(), counted((100, 0, 10), (100, 0, 10)), thread=OTHER)
    names(home, {"id": OTHER, "thread_name": "mine"}, {"id": THREAD, "thread_name": "mine"})
    status, out, err = usage({"id": THREAD, "name": "mine", "path": str(path)}[how], "--json")
    assert (status, err) == (0, "")
    assert [row["key"] for row in json.loads(out)["rows"]] == [THREAD]


def test_a_file_outside_of_the_home_can_be_named(session: Any, usage: Any, tmp_path: Path) -> None:
    path = session(*turn(), counted((100, 0, 10), (100, 0, 10)), folder=tmp_path / "elsewhere")
    moved = path.rename(path.with_name("any.jsonl"))
    assert [row["key"] for row in json.loads(usage(str(moved), "--json")[1])["rows"]] == [THREAD]


def test_several_sessions_are_summed_and_one_named_twice_counts_once(session: Any, usage: Any) -> None:
    path = session(*turn(), counted((100, 0, 10), (100, 0, 10)))
    session(*turn(), counted((100, 0, 10), (100, 0, 10)), thread=OTHER)
    out = usage(THREAD, str(path), OTHER, THREAD, "--json")[1]
    assert json.loads(out)["total"]["tokens"]["total"] == 220


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["nosuch"], "no session found with the id or name nosuch"),
        ([""], "no session found with the id or name "),
        (["/no/such.jsonl"], "no session file found at /no/such.jsonl"),
        (["such.jsonl"], "no session file found at such.jsonl"),
        (["/"], "no session file found at /"),
        (["~nobody-here/x.jsonl"], "no session file found at ~nobody-here/x.jsonl"),
        (["/" + "x" * 5000], "cannot read /xxx"),
        (["--since", "soon"], "--since 'soon' is not a date"),
        (["--until", "2026-02-30"], "--until '2026-02-30' is not a date"),
        (["--since", "99999999d"], "--since '99999999d' is not a date"),
        (["--since", "999999d"], "--since '999999d' is not a date"),
        (["--since", ""], "--since '' is not a date"),
        (["--since", "2026-11-21", "--until", "2026-11-20"], "--since '2026-11-21' is after --until '2026-11-20'"),
    ],
)
def test_what_cannot_be_done_is_one_error(usage: Any, arguments: list[str], fact: str) -> None:
    status, out, err = usage(*arguments)
    assert (status, out) == (1, "")
    first, hint, address = err.splitlines()
    assert first.startswith(f"Error: {fact}")
    assert hint.endswith(".")
    assert "errors.md#" in address


def test_no_sessions_is_no_error(usage: Any) -> None:
    status, out, err = usage()
    assert (status, err) == (0, "")
    assert out.startswith("No usage found.\n")
    assert json.loads(usage("--json")[1])["rows"] == []
    assert "No tool calls found in this period." in usage("--by", "tool", "--since", "7d")[1]


@pytest.mark.parametrize(
    ("text", "end", "expected"),
    [
        ("7d", False, NOW - timedelta(days=7)),
        ("2w", False, NOW - timedelta(days=14)),
        (" 90m ", False, NOW - timedelta(minutes=90)),
        ("12H", False, NOW - timedelta(hours=12)),
        ("2026-11-20T08:00:00Z", False, datetime(2026, 11, 20, 8, tzinfo=UTC)),
        ("2026-11-20 08:00+02:00", True, datetime(2026, 11, 20, 6, tzinfo=UTC)),
        ("2026-11-18", False, datetime(2026, 11, 18).astimezone()),
        ("2026-11-18", True, datetime(2026, 11, 18, 23, 59, 59, 999999).astimezone()),
        ("9999-12-31", True, datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_dates(text: str, end: bool, expected: datetime) -> None:
    assert moment(text, "--since", now=NOW, end=end) == expected


def test_today_and_yesterday_are_local_days() -> None:
    assert moment("today", "--since", now=NOW).date() == NOW.date()
    assert moment("yesterday", "--until", now=NOW, end=True).date() == NOW.date() - timedelta(days=1)


@pytest.mark.parametrize("text", ["20261120", "11/20/2026", "2026-11", "d7", "7 d", "-7d", "7y", "12:00", "2026-W01-1"])
def test_other_texts_are_no_dates(text: str) -> None:
    with pytest.raises(CodexError) as caught:
        moment(text, "--since", now=NOW)
    assert caught.value.slug == "usage-date"


def at(day: int) -> datetime:
    return datetime(2026, 11, day, tzinfo=UTC)


def test_a_period_cuts_through_sessions(session: Any, total: Any) -> None:
    days = (18, 20, 22)
    counts = [
        counted((100 * n, 0, 10 * n), (100, 0, 10), f"2026-11-{day}T18:00:00.000Z") for n, day in enumerate(days, 1)
    ]
    session(*turn(), *counts, day="2026/11/18")
    assert total() == (300, 0, 30, 0)
    assert total(since=at(19)) == (200, 0, 20, 0)
    assert total(until=at(21)) == (200, 0, 20, 0)
    assert total(since=at(19), until=at(21)) == (100, 0, 10, 0)
    assert total(since=at(23)) == (0, 0, 0, 0)


def test_the_day_of_until_is_included(session: Any, usage: Any) -> None:
    count = counted((100, 0, 10), (100, 0, 10), "2026-11-20T12:00:00.000Z")
    session(*turn(stamp="2026-11-20T12:00:00.000Z"), count)
    for day, tokens in (("2026-11-19", 0), ("2026-11-20", 110)):
        assert json.loads(usage("--until", day, "--json")[1])["total"]["tokens"]["total"] == tokens
    for day, tokens in (("2026-11-20", 110), ("2026-11-21", 0)):
        assert json.loads(usage("--since", day, "--json")[1])["total"]["tokens"]["total"] == tokens


def test_files_that_cannot_be_in_the_period_are_not_opened(session: Any, home: Path) -> None:
    old = session(*turn(), counted((100, 0, 10), (100, 0, 10), "2026-11-10T18:00:00.000Z"), day="2026/11/10")
    os.utime(old, (at(10).timestamp(), at(10).timestamp()))
    session(b"{broken\n", day="2026/11/25", thread=OTHER)
    report = scan(home, since=at(15), until=at(20))
    assert (report.sessions, report.problems.skipped_lines) == (set(), 0)
    old.write_bytes(b"{broken\n")
    os.utime(old, (at(10).timestamp(), at(10).timestamp()))
    assert scan(home, since=at(15)).problems.damaged_files == 1


def test_the_command_runs_as_a_process(session: Any, home: Path) -> None:
    session(*turn(), counted((100, 0, 10), (100, 0, 10)))
    environ = {"CODEX_HOME": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
    argv = [sys.executable, "-m", "codex_framework", "usage", "--by", "day"]
    done = subprocess.run(argv, capture_output=True, text=True, env=environ, cwd=home, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2026-11-20         1          1    100       0      10          0    110  unknown" in done.stdout
