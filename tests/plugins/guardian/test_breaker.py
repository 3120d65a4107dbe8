from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codex_plugin_guardian.breaker import Breaker


def trips(decisions: list[bool]) -> list[int]:
    breaker = Breaker()
    return [number for number, refused in enumerate(decisions, 1) if breaker.record("turn", refused=refused)]


def test_three_in_a_row():
    assert trips([True, True, True]) == [3]
    assert trips([True, True, False, True, True, False]) == []


def test_ten_of_fifty():
    assert trips([True, True, False] * 5) == [14]
    spread = [True, False, False, False, False, False]
    assert trips(spread * 40) == [], "nine of fifty, for ever"
    assert trips([True, False, False, False, False] * 10) == [46]


def test_it_is_said_once_a_turn():
    breaker = Breaker()
    said = [breaker.record("one", refused=True) for _ in range(20)]
    assert [text is not None for text in said] == [False, False, True] + [False] * 17
    assert [breaker.record("two", refused=True) is not None for _ in range(3)] == [False, False, True]


@given(st.lists(st.booleans(), max_size=200))
def test_it_counts_as_a_list_would(decisions: list[bool]):
    expected = None
    for number in range(1, len(decisions) + 1):
        row, recent = decisions[max(number - 3, 0) : number], decisions[max(number - 50, 0) : number]
        if decisions[number - 1] and ((len(row) == 3 and all(row)) or sum(recent) >= 10):
            expected = number
            break
    assert trips(decisions) == ([] if expected is None else [expected])
