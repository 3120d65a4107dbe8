from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.protocol.items import InputImage, InputText
from codex_framework.toolkit.truncation import line_count, token_count, truncate, truncate_content, truncate_with_lines

SEQ = "".join(f"{number}\n" for number in range(1, 101))


@pytest.mark.parametrize(
    ("text", "policy", "max_tokens", "expected"),
    [
        ("", ("tokens", 0), None, ""),
        ("abcd", ("tokens", 1), None, "abcd"),
        ("abcde", ("tokens", 1), None, "ab…1 tokens truncated…de"),
        ("abcde", ("bytes", 4), None, "ab…1 chars truncated…de"),
        ("abcdefg", ("bytes", 5), None, "ab…2 chars truncated…efg"),
        ("abcdefg", ("bytes", 5), 1, "ab…1 tokens truncated…fg"),
        ("abcdefg", ("bytes", 5), 9, "ab…1 tokens truncated…efg"),
        ("abcdefg", ("tokens", 0), None, "…2 tokens truncated…"),
        ("abcdefg", ("tokens", 10), 0, "…2 tokens truncated…"),
        ("ééé", ("bytes", 4), None, "é…1 chars truncated…é"),
        ("ééé", ("tokens", 1), None, "é…1 tokens truncated…é"),
        ("aé😀éa", ("bytes", 5), None, "a…2 chars truncated…éa"),
        ("😀😀😀", ("bytes", 6), None, "…3 chars truncated…"),
        ("\ud800xxxx", ("bytes", 6), None, "\ud800…1 chars truncated…xxx"),
    ],
)
def test_the_middle_of_long_text_gives_way_to_a_marker(
    text: str, policy: tuple[str, int], max_tokens: int | None, expected: str
) -> None:
    assert truncate(text, policy, max_tokens=max_tokens) == expected


@given(st.text(st.characters(blacklist_categories=("Cs",))), st.integers(0, 40), st.sampled_from(["tokens", "bytes"]))
def test_what_is_kept_is_a_prefix_and_a_suffix_within_the_budget(text: str, limit: int, kind: str) -> None:
    budget = limit * 4 if kind == "tokens" else limit
    short = truncate(text, (kind, limit))
    size = len(text.encode())
    if size <= budget:
        assert short == text
        return
    match = re.fullmatch(r"(?s)(.*)…(\d+) (tokens|chars) truncated…(.*)", short)
    assert match
    head, missing, unit, tail = match[1], int(match[2]), match[3], match[4]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head.encode()) <= budget // 2 < len(head.encode()) + 4
    assert len(tail.encode()) <= budget - budget // 2 < len(tail.encode()) + 4
    assert (unit, missing) == (
        ("tokens", token_count(size - budget)) if kind == "tokens" else ("chars", len(text) - len(head) - len(tail))
    )


def test_shortened_text_can_say_how_many_lines_there_were() -> None:
    assert truncate_with_lines(SEQ, ("tokens", 1000)) == SEQ
    assert truncate_with_lines(SEQ, ("bytes", 8)) == "Total output lines: 100\n\n1\n2\n…284 chars truncated…100\n"


@pytest.mark.parametrize(
    ("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2), ("a\rb\u2028c", 1)]
)
def test_lines_are_counted_by_line_feeds(text: str, lines: int) -> None:
    assert line_count(text) == lines


def test_content_parts_share_one_budget_and_images_stay() -> None:
    image = InputImage("data:image/png;base64,xx")
    content = (InputText("aaaa"), image, InputText("b" * 12), InputText("c"), image, InputText("d"))
    assert truncate_content(content, ("bytes", 8)) == (
        InputText("aaaa"),
        image,
        InputText("bb…8 chars truncated…bb"),
        image,
        InputText("[omitted 2 text items ...]"),
    )
    assert truncate_content(content, ("tokens", 100)) == content
