"""Text on its way to the terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import codex_client_terminal
from codex_client_terminal.text import (
    ANSI,
    PLAIN,
    clean,
    cut,
    one_line,
    plain_text,
    rows,
    terminal_encoding,
    to_bytes,
    width_of,
    wrap,
)

HOSTILE = [
    "\x1b[2J\x1b[H",
    "\x1b]0;title\x07",
    "\x1b]52;c;aGk=\x07",
    "\x9b31m",
    "a\x00b\x08c\x7f",
    "\rover",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "zero\u200bwidth",
    "\ud800",
    "\U000e0041\U000e0042",
    "soft\u00adhyphen",
    "\u180e\u3164\u2800",
    "a\u200db\ufe0f",
    "a\u034fb\ufe01c\U000e0100",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_controls_a_terminal_comes_through(text: str) -> None:
    [row] = rows([[(text, "red")]], 80, ANSI)
    assert not set(row) & set("\u3164\u2800\u180e\u200d\ufe0f\u034f\ufe01\U000e0100")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", row)
    assert all(letter.isprintable() for letter in shown), shown
    shown.encode()


def test_bidirectional_marks_are_visible() -> None:
    assert clean("a\u202eb") == "a\\u202eb"


def test_joined_emoji_stay_joined() -> None:
    assert clean("👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3") == "👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3"


def test_a_line_of_ten_million_characters_is_cut() -> None:
    shown = list(rows([[("x" * 10_000_000, "")]], 80, PLAIN))
    assert len(shown) < 110
    assert "more characters" in shown[-1]


@pytest.mark.parametrize("width", [10, 40, 80, 400])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    line = [("• ", ""), ("Some words, 日本語のテキスト and 👍 emoji, and a_very_long_word" * 9, "bold"), (" end", "")]
    shown = [plain_text(row) for row in wrap(line, width)]
    assert all(width_of(row) <= width for row in shown)
    assert "".join("".join(shown).split()) == "".join(plain_text(line).split())


def test_continued_rows_begin_below_the_text() -> None:
    assert [plain_text(row) for row in wrap([("• ", ""), ("aaa bbb ccc", "")], 8)] == ["• aaa ", "  bbb ", "  ccc"]


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("日本", 4), ("e\u0301", 1), ("👍", 2), ("", 0), ("👩\u200d💻", 2), ("👍🏽", 2), ("❤\ufe0f", 2)],
)
def test_widths(text: str, width: int) -> None:
    assert width_of(text) == width


def test_a_cut_line_fits() -> None:
    assert plain_text(cut([("日本語日本語", "")], 6)) == "日本…"
    assert plain_text(cut([("abc", "")], 3)) == "abc"


def test_styles_without_colours() -> None:
    assert list(rows([[("a", "bold red"), ("b", "green")]], 9, PLAIN)) == ["\x1b[1ma\x1b[0mb"]
    assert list(rows([[("a", "bold red")]], 9, ANSI)) == ["\x1b[1;31ma\x1b[0m"]


@pytest.mark.parametrize(
    ("environ", "encoding"),
    [
        ({}, "utf-8"),
        ({"LANG": "C"}, "ascii"),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, "ascii"),
        ({"LANG": "de_DE.ISO-8859-1@euro"}, "iso8859-1"),
        ({"LANG": "de_DE.ISO-8859-1", "LC_CTYPE": "en_GB.UTF-8"}, "utf-8"),
        ({"LANG": "en_GB.nonsense"}, "utf-8"),
        ({"LANG": "en_GB"}, "utf-8"),
    ],
)
def test_the_encoding_of_the_terminal(environ: dict[str, str], encoding: str) -> None:
    assert terminal_encoding(environ) == encoding


def test_a_terminal_without_unicode_gets_marks_of_the_same_width() -> None:
    text = "› • └ … é 日本 e\u0301 👍"
    assert to_bytes(text, "ascii") == b"> * ` ~ ? ???? e ??"
    assert to_bytes(text, "iso8859-1") == b"> * ` ~ \xe9 ???? e ??"
    assert to_bytes(text, "utf-8") == text.encode()


def test_every_mark_of_ours_has_a_form_in_ascii() -> None:
    for file in Path(codex_client_terminal.__file__).parent.glob("*.py"):
        for letter in {*file.read_text()} - {*map(chr, range(128)), "☀"}:  # an example
            assert b"?" not in to_bytes(letter, "ascii"), (file, letter)


def test_one_line_has_no_line_breaks() -> None:
    assert one_line("a\n\n b\tc") == "a b c"
    assert len(one_line("x" * 1000)) == 200


def test_the_first_screen_loads_no_library() -> None:
    script = (
        "import sys; from codex_client_terminal.composer import Composer; from codex_client_terminal.screen import Screen\n"
        "from codex_client_terminal.text import ANSI, rows\n"
        "composer = Composer({}, hint='Ask'); composer.insert('abc'); list(rows(composer.lines(80)[0], 80, ANSI))\n"
        "print(*{'wcwidth', 'pygments', 'asyncio', 'attrs', 'codex_framework.kernel'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "\n"
