"""Forks, rolled-back threads, sub-agents and archived sessions count once.

``legacy_forks`` was written by Codex 0.169: a thread with four responses, a fork of it after the third with one of its own, and a fork
of the fork with one of its own. Their files repeat the lines of their parents. The files in ``rollout/forked`` refer to their parents.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_plugin_usage.scan import scan

from .conftest import THREAD, answered, called, counted, recorded, tokens_by_key, turn

LEGACY = Path(__file__).with_name("legacy_forks")
PAGINATED = Path(__file__).parents[1] / "rollout/forked"
ROOT, FORK, FORK_OF_FORK = (
    "01a20639-9613-70e1-a7e1-5e90a320722d",
    "01a20639-96ce-7a52-93d0-defe9b66a49a",
    "01a20639-9700-7ff2-8139-79d240587472",
)
PARENT = "01a1fa36-0000-75f0-a6d6-2445f13ac227"
OLD_TURN = "01a1fa36-0001-75f0-a6d6-2445f13ac227"
NEW_TURN = "01a1fa36-dc00-75f0-a6d6-2445f13ac227"
Copy = Callable[[Path], Path]


def test_a_fork_that_repeats_its_parent_counts_only_its_own(home: Path, copied_from: Copy) -> None:
    copied_from(LEGACY)
    assert tokens_by_key(scan(home)) == {ROOT: 480, FORK: 120, FORK_OF_FORK: 120}


def test_calls_that_a_fork_repeats_count_once(home: Path, copied_from: Copy) -> None:
    copied_from(LEGACY)
    (row,) = scan(home, by="tool").as_json()["rows"]
    assert (row["key"], row["calls"], row["failures"], row["sessions"]) == ("exec_command", 1, 1, 1)


@pytest.mark.parametrize("lost", [ROOT, FORK])
def test_a_fork_counts_only_its_own_even_if_its_parent_is_gone(home: Path, copied_from: Copy, lost: str) -> None:
    folder = copied_from(LEGACY)
    next(folder.glob(f"*{lost}*")).unlink()
    expected = {ROOT: 480, FORK: 120, FORK_OF_FORK: 120}
    assert tokens_by_key(scan(home)) == {thread: tokens for thread, tokens in expected.items() if thread != lost}


def test_a_fork_whose_first_line_is_lost_counts_only_its_own(home: Path, copied_from: Copy) -> None:
    path = next(copied_from(LEGACY).glob(f"*{FORK_OF_FORK}*"))
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    assert tokens_by_key(scan(home))[FORK_OF_FORK] == 120


def test_a_fork_that_refers_to_its_parent_counts_only_its_own(home: Path, copied_from: Copy) -> None:
    copied_from(PAGINATED)
    assert tokens_by_key(scan(home)) == {
        "01a20497-a811-7cb3-859b-50b6e7ed89a1": 5 * 120,
        "01a20497-a961-7a71-a514-749609e5140a": 2 * 120,
        "01a20497-aa2d-7661-8851-68136df54adb": 120,
    }


BASE = {"history_base": {"thread_id": PARENT, "end_ordinal_exclusive": 9}}


def test_the_first_count_of_a_fork_that_refers_to_its_parent_is_its_last_response(session: Any, total: Any) -> None:
    session(*turn(NEW_TURN), counted((900, 0, 90), (100, 0, 10)), counted((950, 0, 95), (50, 0, 5)), **BASE)
    assert total() == (150, 0, 15, 0)


def test_a_repetition_of_the_parents_last_count_does_not_count(session: Any, total: Any) -> None:
    session(
        *turn(NEW_TURN),
        counted((900, 0, 90), (100, 0, 10)),  # again, before a compaction
        recorded((70, 0, 7)),
        counted((970, 0, 97), (70, 0, 7)),
        **BASE,
    )
    assert total() == (70, 0, 7, 0)


def test_a_record_and_the_first_count_of_a_fork_count_once(session: Any, total: Any) -> None:
    session(*turn(NEW_TURN), recorded((70, 0, 7)), counted((970, 0, 97), (70, 0, 7)), **BASE)
    assert total() == (70, 0, 7, 0)


def test_a_thread_of_several_files_is_one_session(home: Path, copied_from: Copy) -> None:
    copied_from(PAGINATED)
    assert scan(home).as_json()["sessions"] == 3
    (row,) = scan(home, by="project").as_json()["rows"]
    assert row["sessions"] == 3


def test_an_older_fork_without_ids_of_turns_is_told_by_the_times_of_turns(session: Any, total: Any) -> None:
    session(
        *turn(started_at=1795190000),
        counted((100, 0, 10), (100, 0, 10)),
        *turn(started_at=1795199262),
        counted((150, 0, 15), (50, 0, 5)),
        forked_from_id=PARENT,
    )
    assert total() == (50, 0, 5, 0)


def test_the_oldest_forks_are_told_by_the_times_of_lines(session: Any, total: Any) -> None:
    session(
        *turn(),
        counted((100, 0, 10), (100, 0, 10)),
        *turn(stamp="2026-11-20T18:29:00.000Z"),
        counted((150, 0, 15), (50, 0, 5), "2026-11-20T18:29:09.000Z"),
        forked_from_id=PARENT,
    )
    assert total() == (50, 0, 5, 0)


def test_a_sub_agent_that_begins_with_a_copy_counts_its_own(session: Any, total: Any, rows: Any) -> None:
    session(
        called("exec_command", "copied"),
        answered("x" * 400, "copied"),
        *turn(NEW_TURN),
        called("exec_command", "own"),
        answered("x" * 40, "own"),
        counted((70, 0, 7), (70, 0, 7)),
        parent_thread_id=PARENT,
        source="subagent",
    )
    assert total() == (70, 0, 7, 0)
    assert rows(by="tool")["exec_command"]["estimated_output_tokens"] == 10


def test_a_sub_agent_that_begins_with_turns_of_its_parent_counts_its_own(session: Any, total: Any) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    session(
        *turn(OLD_TURN),
        recorded((100, 0, 10), thread=PARENT),
        ("token_usage_record", {"usage": recorded((100, 0, 10))[1]["usage"]}),
        counted((100, 0, 10), (100, 0, 10)),
        *turn(NEW_TURN),
        counted((130, 0, 13), (30, 0, 3)),
        source=source,
    )
    assert total() == (30, 0, 3, 0)


def test_a_named_session_includes_its_sub_agents_and_not_its_forks(session: Any, home: Path) -> None:
    child, grandchild, fork, other = (f"01a1fa36-db98-75f0-a6d6-00000000000{number}" for number in range(4))
    count = counted((100, 0, 10), (100, 0, 10))
    session(*turn(NEW_TURN), count, thread=grandchild, parent_thread_id=child)
    session(*turn(NEW_TURN), count, thread=child, source={"subagent": {"thread_spawn": {"parent_thread_id": THREAD}}})
    session(*turn(NEW_TURN), count, thread=fork, forked_from_id=THREAD)
    session(*turn(NEW_TURN), count, thread=other)
    session(*turn(NEW_TURN), count)
    report = scan(home, sessions=[THREAD])
    assert tokens_by_key(report) == {THREAD: 110, child: 110, grandchild: 110}
    assert {row["key"]: row["parent"] for row in report.as_json()["rows"]} == {
        THREAD: None,
        child: THREAD,
        grandchild: child,
    }


def test_sub_agents_that_name_each_other_are_read_once(session: Any, home: Path) -> None:
    one, two = (f"01a1fa36-db98-75f0-a6d6-00000000000{number}" for number in range(2))
    count = counted((100, 0, 10), (100, 0, 10))
    session(*turn(NEW_TURN), count, thread=one, parent_thread_id=two)
    session(*turn(NEW_TURN), count, thread=two, parent_thread_id=one)
    assert tokens_by_key(scan(home, sessions=[one])) == {one: 110, two: 110}


def test_archived_sessions_count_once(session: Any, home: Path, total: Any) -> None:
    path = session(*turn(), counted((100, 0, 10), (100, 0, 10)))
    archive = home / "archived_sessions"
    archive.mkdir()
    shutil.copy(path, archive / path.name)
    assert total() == (100, 0, 10, 0)
    path.unlink()
    (row,) = scan(home).as_json()["rows"]
    assert (row["archived"], row["tokens"]["total"]) == (True, 110)


def test_a_resumed_session_counts_once(session: Any, total: Any) -> None:
    session(
        *turn(OLD_TURN),
        counted((100, 0, 10), (100, 0, 10)),
        ("event_msg", {"type": "task_complete", "turn_id": OLD_TURN}),
        *turn(NEW_TURN),
        counted((180, 50, 18), (80, 50, 8)),
    )
    assert total() == (180, 50, 18, 0)


def test_what_a_turn_cost_stays_when_it_is_rolled_back(session: Any, total: Any) -> None:
    session(
        *turn(OLD_TURN),
        counted((100, 0, 10), (100, 0, 10)),
        ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        *turn(NEW_TURN),
        counted((200, 0, 20), (100, 0, 10)),
    )
    assert total() == (200, 0, 20, 0)
