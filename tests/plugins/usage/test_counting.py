"""What one session file says, and that nothing of it counts twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import counted, recorded, sums, turn

Total = Callable[..., tuple[int, int, int, int]]


def test_the_last_sum_is_the_usage(session: Any, total: Total) -> None:
    session(*turn(), counted((100, 0, 10), (100, 0, 10)), counted((250, 90, 25, 5), (150, 90, 15, 5)))
    assert total() == (250, 90, 25, 5)


def test_cached_tokens_are_in_the_input_and_reasoning_tokens_in_the_output(session: Any, rows: Any) -> None:
    session(*turn(), counted((1234, 1000, 12, 4), (1234, 1000, 12, 4)))
    (row,) = rows().values()
    assert row["tokens"] == {
        "input": 1234,
        "cached_input": 1000,
        "cache_write_input": 0,
        "output": 12,
        "reasoning_output": 4,
        "total": 1246,
    }


def test_a_repeated_count_counts_once(session: Any, total: Total, rows: Any) -> None:
    count = counted((100, 0, 10), (100, 0, 10))
    session(*turn(), count, count, count, counted((200, 0, 20), (100, 0, 10)), counted((200, 0, 20), (100, 0, 10)))
    assert total() == (200, 0, 20, 0)
    (row,) = rows().values()
    assert row["responses"] == 2


def test_two_equal_responses_count_twice(session: Any, total: Total) -> None:
    session(*turn(), counted((100, 0, 10), (100, 0, 10)), counted((200, 0, 20), (100, 0, 10)))
    assert total() == (200, 0, 20, 0)


def test_the_length_after_a_compaction_is_no_usage(session: Any, total: Total) -> None:
    length = ("event_msg", {"type": "token_count", "info": {"total_token_usage": sums(500, 0, 50), "last_token_usage": {
        "input_tokens": 0, "output_tokens": 0, "total_tokens": 6873}}})  # fmt: skip
    session(*turn(), counted((500, 0, 50), (500, 0, 50)), ("compacted", {"message": "s"}), length)
    assert total() == (500, 0, 50, 0)


def test_a_full_context_window_is_no_usage_and_the_count_begins_anew(session: Any, total: Total) -> None:
    full = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 258400}
    lines = ("event_msg", {"type": "token_count", "info": {"total_token_usage": full, "last_token_usage": full}})
    session(*turn(), counted((300, 0, 30), (300, 0, 30)), lines, counted((70, 0, 7), (70, 0, 7)))
    assert total() == (370, 0, 37, 0)


def test_a_count_that_begins_anew_with_a_greater_response_is_counted_whole(session: Any, total: Total) -> None:
    session(*turn(), counted((100, 0, 10), (100, 0, 10)), *turn(), counted((900, 0, 90), (900, 0, 90)))
    assert total() == (1000, 0, 100, 0)


def test_two_processes_that_go_on_with_a_thread_both_count(session: Any, total: Total) -> None:
    session(
        *turn(),
        counted((100, 0, 10), (100, 0, 10)),
        counted((200, 0, 20), (100, 0, 10)),  # one process
        counted((150, 0, 15), (50, 0, 5)),  # the other, which knows nothing of the first
    )
    assert total() == (250, 0, 25, 0)


def test_a_lost_count_is_in_the_next_sum(session: Any, total: Total) -> None:
    session(*turn(), counted((100, 0, 10), (100, 0, 10)), b"{broken\n", counted((300, 0, 30), (100, 0, 10)))
    assert total() == (300, 0, 30, 0)


def test_records_and_counts_of_the_same_response_count_once(session: Any, total: Total, rows: Any) -> None:
    session(
        *turn(),
        recorded((100, 40, 10, 2)),
        counted((100, 40, 10, 2), (100, 40, 10, 2)),
        recorded((200, 0, 20)),
        counted((300, 40, 30, 2), (200, 0, 20)),
    )
    assert total() == (300, 40, 30, 2)
    (row,) = rows().values()
    assert row["responses"] == 2


def test_a_record_without_a_count_counts(session: Any, total: Total) -> None:
    session(*turn(), recorded((100, 0, 10)))
    assert total() == (100, 0, 10, 0)


def test_two_records_before_one_count_count_once(session: Any, total: Total) -> None:
    session(*turn(), recorded((100, 0, 10)), recorded((60, 0, 6)), counted((160, 0, 16), (60, 0, 6)))
    assert total() == (160, 0, 16, 0)


def test_counts_of_a_program_that_writes_no_records_are_added(session: Any, total: Total) -> None:
    session(
        *turn(), recorded((100, 0, 10)), counted((100, 0, 10), (100, 0, 10)), *turn(), counted((180, 0, 18), (80, 0, 8))
    )
    assert total() == (180, 0, 18, 0)


def test_a_record_of_another_thread_does_not_count(session: Any, total: Total) -> None:
    session(*turn(), recorded((100, 0, 10), thread="01a1fa36-0000-75f0-a6d6-2445f13ac227"))
    assert total() == (0, 0, 0, 0)


def test_a_record_without_usage_leaves_it_to_the_count(session: Any, total: Total) -> None:
    session(*turn(), ("token_usage_record", {"thread_id": "x"}), counted((100, 0, 10), (100, 0, 10)))
    assert total() == (100, 0, 10, 0)


@pytest.mark.parametrize(
    "info",
    [None, [], "x", {}, {"total_token_usage": None}, {"total_token_usage": {"input_tokens": "many", "output_tokens": []}},
     {"total_token_usage": {"input_tokens": -5, "output_tokens": True}}],
)  # fmt: skip
def test_a_count_that_is_none_counts_nothing(session: Any, total: Total, info: Any) -> None:
    session(*turn(), ("event_msg", {"type": "token_count", "info": info}), counted((100, 0, 10), (100, 0, 10)))
    assert total() == (100, 0, 10, 0)


def test_the_model_is_that_of_the_turn(session: Any, rows: Any) -> None:
    session(
        *turn(model="one"),
        counted((100, 0, 10), (100, 0, 10)),
        *turn(model="two"),
        counted((300, 0, 30), (200, 0, 20)),
        ("event_msg", {"type": "thread_settings_applied", "thread_settings": {"model_provider_id": "other"}}),
        counted((310, 0, 31), (10, 0, 1)),
    )
    found = {key: (row["provider"], row["model"], row["tokens"]["total"]) for key, row in rows(by="model").items()}
    assert found == {
        "mock/one": ("mock", "one", 110),
        "mock/two": ("mock", "two", 220),
        "other/two": ("other", "two", 11),
    }


def test_usage_without_a_model_is_of_an_unknown_one(session: Any, rows: Any) -> None:
    session(counted((100, 0, 10), (100, 0, 10)))
    assert list(rows(by="model")) == ["mock/unknown"]


def test_tokens_that_went_into_the_cache_are_kept(session: Any, rows: Any) -> None:
    usage = {**sums(100, 20, 10), "cache_write_input_tokens": 30}
    session(*turn(), ("token_usage_record", {"thread_id": "01a1fa36-db98-75f0-a6d6-2445f13ac227", "usage": usage}))
    (row,) = rows().values()
    assert (row["tokens"]["cache_write_input"], row["tokens"]["total"]) == (30, 110)


def test_days_are_those_of_the_lines_not_of_the_file(session: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session(
        *turn(),
        counted((100, 0, 10), (100, 0, 10), "2026-11-20T12:00:00.000Z"),
        counted((150, 0, 15), (50, 0, 5), "2026-11-22T12:00:00.000Z"),
    )
    assert {key: row["tokens"]["total"] for key, row in rows(by="day").items()} == {"2026-11-20": 110, "2026-11-22": 55}


def test_projects_are_the_folders_in_which_sessions_began(session: Any, rows: Any) -> None:
    session(*turn(), counted((100, 0, 10), (100, 0, 10)), cwd="/a")
    session(*turn(), counted((10, 0, 1), (10, 0, 1)), cwd="/b", thread="01a1fa36-db98-75f0-a6d6-2445f13ac228")
    session(*turn(), counted((10, 0, 1), (10, 0, 1)), cwd="/b", thread="01a1fa36-db98-75f0-a6d6-2445f13ac229")
    found = {key: (row["sessions"], row["tokens"]["total"]) for key, row in rows(by="project").items()}
    assert found == {"/a": (1, 110), "/b": (2, 22)}
