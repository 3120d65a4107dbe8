"""Text of others for terminals."""

from __future__ import annotations

from codex_framework.toolkit.terminal_text import one_line, printable

HOSTILE = "a\x1b[2J\r\n\x9b5n\u202eb\ud800\x00é"


def test_nothing_that_controls_a_terminal_is_left() -> None:
    assert printable(HOSTILE) == "a\\x1b[2J\\r\\n\\x9b5n\\u202eb\\ud800\\x00é"
    assert one_line(HOSTILE) == "a [2J   5n b  é"
    assert printable("plain é") == "plain é"


def test_a_quoted_text_has_a_longest_length() -> None:
    assert one_line("x" * 1000) == "x" * 300
    assert one_line("\n" * 1000, 5) == " " * 5
