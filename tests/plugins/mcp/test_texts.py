"""Texts of servers, made fit to be shown."""

from __future__ import annotations

import pytest

from codex_plugin_mcp.texts import one_line, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;https://evil\x1b\\link", "link"),
        ("a\rb\x08c\x9bd", "abcd"),
        ("\u202egnp.exe", "gnp.exe"),
        ("grüße 日本", "grüße 日本"),
        ("x" * 101, "x" * 100 + "..."),
    ],
)
def test_only_printable_text_is_left(text, shown):
    assert plain(text, 100) == shown


def test_a_line_has_no_line_breaks():
    assert one_line(" a\n\r\n b\tc ") == "a b c"
    assert one_line("x" * 300) == "x" * 200 + "..."
