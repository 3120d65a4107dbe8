"""Writing a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_client_terminal.app import image_path
from codex_client_terminal.composer import Choice, Composer
from codex_client_terminal.keys import Key, Paste
from codex_client_terminal.text import plain_text, width_of
from codex_client_terminal.vi import ViKeys


def _composer(**completers: Any) -> Composer:
    return Composer({{"slash": "/", "at": "@"}[name]: function for name, function in completers.items()})


def _press(composer: Composer, *keys: str) -> Composer:
    for key in keys:
        if len(key) > 1 and not (key in Composer._ACTIONS or key in ("tab", "esc")):
            for letter in key:
                composer.press(Key(letter))
        else:
            composer.press(Key(key))
    return composer


@pytest.mark.parametrize(
    ("keys", "text", "cursor"),
    [
        (("hello world", "backspace", "left", "X"), "hello worXl", 10),
        (("hello world", "c-a", "X"), "Xhello world", 1),
        (("hello world", "c-w"), "hello ", 6),
        (("hello world  ", "c-w"), "hello ", 6),
        (("hello world", "m-b", "c-k", "c-y", "c-y"), "hello worldworld", 16),
        (("hello world", "c-u"), "", 0),
        (("one", "c-j", "two", "up", "X"), "oneX\ntwo", 4),
        (("one", "c-j", "three", "up", "down", "X"), "one\nthreeX", 10),
        (("ab", "c-t"), "ba", 2),
        (("abc", "c-w", "c-_"), "abc", 3),
        (("e\u0301", "backspace"), "", 0),
        (("👩\u200d💻", "left", "right", "left", "X"), "X👩\u200d💻", 1),
        (("👩\u200d💻", "backspace"), "", 0),
        (("a b", "m-b", "m-b", "m-d"), " b", 0),
        (("ab", "home", "delete"), "b", 0),
    ],
)
def test_keys_edit_the_text(keys: tuple[str, ...], text: str, cursor: int) -> None:
    composer = _press(_composer(), *keys)
    assert (composer.text, composer.cursor) == (text, cursor)


def test_a_long_paste_is_one_block_that_is_sent_whole_and_deleted_whole() -> None:
    composer = _press(_composer(), "see ")
    pasted = "x" * 1_000_000
    composer.press(Paste(pasted))
    assert composer.text == "see [Pasted Content 1000000 chars]"
    assert composer.whole == f"see {pasted}"
    _press(composer, "backspace")
    assert composer.text == "see "


def test_two_pastes_of_one_length_stay_apart() -> None:
    composer = _composer()
    composer.press(Paste("a" * 2000))
    composer.press(Paste("b" * 2000))
    assert composer.whole == "a" * 2000 + "b" * 2000


def test_history_goes_back_and_returns_to_the_draft() -> None:
    composer = _composer()
    composer.load_history(["old"])
    composer.set("first")
    composer.take()
    _press(composer, "draft", "up")
    assert composer.text == "first"
    _press(composer, "up", "up")
    assert composer.text == "old"
    _press(composer, "down", "down")
    assert composer.text == "draft"


def _commands(word: str) -> list[Choice]:
    return [Choice(name, "about") for name in ("/model", "/mcp", "/new") if name.startswith(word)]


def test_a_slash_command_is_completed_at_the_beginning_only() -> None:
    composer = _press(_composer(slash=_commands), "/m")
    assert [choice.text for choice in composer.choices] == ["/model", "/mcp"]
    _press(composer, "down", "tab")
    assert composer.text == "/mcp "
    assert not _press(composer, "/m").choices


def test_a_file_is_completed_in_the_middle() -> None:
    composer = _press(_composer(at=lambda word: [Choice("src/main.py")]), "see @ma", "tab", "now")
    assert composer.text == "see src/main.py now"


@pytest.mark.parametrize("width", [12, 40, 400])
def test_the_rows_fit_and_the_cursor_is_in_them(width: int) -> None:
    composer = _press(_composer(), "日本語 and words " * 20, "c-j", "more")
    lines, (row, column) = composer.lines(width)
    assert len(lines) <= 10
    assert all(width_of(plain_text(line)) <= width for line in lines)
    assert row == len(lines) - 1
    assert column == 2 + len("more")


def test_pasted_escapes_are_harmless() -> None:
    composer = _composer()
    composer.press(Paste("\x1b[2J"))
    assert plain_text(composer.lines(40)[0][0]) == "› [2J"


def test_a_pasted_path_of_an_image_is_attached(tmp_path: Path) -> None:
    file = tmp_path / "a picture.png"
    file.write_bytes(b"x")
    for text in (str(file), f"'{file}'", str(file).replace(" ", "\\ "), f"file://{file}"):
        assert image_path(text) == str(file)
    assert image_path(f"see {file}") is None
    assert image_path("/nowhere.png") is None
    composer = _press(_composer(), "see ")
    composer.attach(str(file))
    assert composer.text == "see [Image #1] "
    assert composer.images_in(composer.whole) == [str(file)]
    _press(composer, "backspace", "backspace")
    assert composer.text == "see "


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("x", "one tw"),
        ("0x", "ne two"),
        ("bdw", "one "),
        ("0dwi2", "2 two"),
        ("bcwnew", "one new"),
        ("dd", ""),
        ("A three", "one two three"),
        ("I>", ">one two"),
        ("0a-", "o-ne two"),
        ("ddu", "one two"),
        ("osecond", "one two\nsecond"),
        ("0D", ""),
        ("0whx", "onetwo"),
        ("qz", "one two"),
    ],
)
def test_keys_of_vi(keys: str, text: str) -> None:
    composer, vi = _press(_composer(), "one two"), ViKeys()
    for key in ("esc", *keys):
        translated = vi.translate(key)
        for each in (key,) if translated is None else translated:
            composer.press(Key(each))
    assert composer.text == text


def test_vi_leaves_other_keys_to_the_terminal() -> None:
    vi = ViKeys()
    assert vi.translate("enter") is None
    assert vi.translate("esc") == ("left",)
    assert vi.translate("esc") is None
    assert vi.translate("enter") is None


def test_pasted_lines_are_never_a_shell_command() -> None:
    composer = Composer({})
    composer.press(Paste("!rm -rf x\nmore"))
    assert not composer.is_shell_command
    assert composer.take() == "\n!rm -rf x\nmore"
    composer.press(Key("up"))
    assert not composer.is_shell_command
    composer.set("")
    for key in "!ls":
        composer.press(Key(key))
    composer.press(Paste(" a\nb"))
    assert composer.is_shell_command  # and the screen says so
