"""Tables for people: they fit the width, no word is broken, and nothing is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import width as cells_of

from codex_framework.toolkit.tables import fit, short_path, shortened, table_lines

HEADER = ("Name", "State", "Contributes")
ROWS = [
    ("realtime", "loaded", "config keys: realtime, experimental_realtime_webrtc_call_base_url; ops: realtime_conversation_start"),
    ("plan", "\x1b[32mloaded\x1b[0m", "tools: update_plan, 日本語 の 道具, and a few more that need some room on a line"),
    "a remark on the plan, which is long enough to need more than one line of a narrow terminal",
    ("empty", "-", ""),
]  # fmt: skip


@pytest.mark.parametrize("limit", range(40, 201, 4))
def test_a_table_fits_and_keeps_every_word(limit: int) -> None:
    lines = list(table_lines(HEADER, ROWS, limit=limit))
    longest = "experimental_realtime_webrtc_call_base_url;"
    assert all(cells_of(line) <= max(limit, len(longest) + 4) for line in lines)
    shown = re.sub(r"\x1b\[\d*m", "", " ".join(lines)).split()
    for row in ROWS:
        for word in " ".join([row] if isinstance(row, str) else row).split():
            assert re.sub(r"\x1b\[\d*m", "", word) in shown or word == "-"


def test_a_table_that_fits_is_aligned() -> None:
    rows = [("a", "1", "x y"), ("bcd", "1,000", "")]
    assert list(table_lines(("Name", "Size", "Text"), rows, right=["Size"], limit=40)) == [
        "Name   Size  Text",
        "a         1  x y",
        "bcd   1,000",
    ]
    assert list(table_lines((), rows, limit=40)) == ["a    1      x y", "bcd  1,000"]


def test_the_widest_column_is_wrapped_first() -> None:
    assert list(table_lines(("Name", "Text"), [("some name", "one two three four five six seven")], limit=36)) == [
        "Name       Text",
        "some name  one two three four five",
        "           six seven",
    ]


def test_a_word_that_is_too_long_for_the_last_column_is_below_its_row() -> None:
    rows = [("name", f"{'w' * 38} x"), ("other", "y")]
    assert list(table_lines(("Name", "Text"), rows, limit=44)) == [
        "Name   Text",
        "name",
        f"    {'w' * 38} x",
        "other  y",
    ]


def test_without_a_limit_columns_are_as_wide_as_their_cells() -> None:
    rows = [("a " * 60, "b"), ("c", "d")]
    assert list(table_lines((), rows)) == [f"{'a ' * 60}  b", f"c{' ' * 119}  d"]


def test_a_table_that_cannot_fit_becomes_paragraphs() -> None:
    rows = [("a" * 30, "b" * 30, "-"), ("c", "d", "e")]
    assert list(table_lines(("Name", "Size", "Text"), rows, limit=40)) == [
        "a" * 30,
        f"  Size: {'b' * 30}",
        "",
        "c",
        "  Size: d",
        "  Text: e",
    ]


@given(
    st.lists(st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]), max_size=30), min_size=1, max_size=4)
)
def test_without_a_terminal_nothing_is_changed(cells: list[str]) -> None:
    (line,) = table_lines((), [cells])
    assert line == "  ".join(cells).rstrip()
    assert fit(cells[0]) == shortened(cells[0], 3) == short_path(cells[0], 3) == cells[0]
