"""Themes of the terminal."""

from __future__ import annotations

import pytest

from codex_client_terminal.code import TOKEN_STYLES, Code
from codex_client_terminal.text import ANSI, PLAIN, rows
from codex_client_terminal.themes import palette_of, theme_names
from codex_framework import ConfigError


def test_every_theme_has_every_style_and_nothing_but_colours() -> None:
    for name in theme_names():
        palette = palette_of(name)
        assert name == "none" or palette.keys() == ANSI.keys()
        assert all(set(codes) <= set("0123456789;") for codes in palette.values())


def test_a_theme_of_pygments_colours_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    [row] = rows([Code("python").line("def f(): pass")], 80, palette_of("dracula"))
    assert row.startswith("\x1b[38;2;255;121;198mdef\x1b[0m")


@pytest.mark.parametrize(("theme", "code"), [("dark", "38;5;211"), ("light", "38;5;124"), ("ansi", "31"), ("none", "")])
def test_a_theme_colours_marks(monkeypatch: pytest.MonkeyPatch, theme: str, code: str) -> None:
    monkeypatch.delenv("COLORTERM", raising=False)
    [row] = rows([[("failed", "red")]], 80, palette_of(theme))
    assert row == (f"\x1b[{code}mfailed\x1b[0m" if code else "failed")


def test_an_unknown_theme_is_reported_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="there is no theme 'catppuccin-none'") as caught:
        palette_of("catppuccin-none")
    assert "solarized-dark" in caught.value.hint


def test_the_names_of_styles_of_code_are_in_the_palette() -> None:
    assert {*TOKEN_STYLES.values()} <= ANSI.keys() - PLAIN.keys()
