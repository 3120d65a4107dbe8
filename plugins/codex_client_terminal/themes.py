"""Themes: which escapes show the styles of text and of code.

``ansi`` uses the terminal's own colours, which suit its background. The others have their own: two of ours, and the styles of pygments
and of its plugins, also under the names that Codex has for the same colours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from codex_client_terminal.code import TOKEN_STYLES
from codex_client_terminal.text import ANSI, PLAIN, Palette
from codex_framework import ConfigError

__all__ = ["DEFAULT_THEME", "palette_of", "theme_names"]

DEFAULT_THEME = "ansi"

_DARK = {
    "red": "#f38ba8",
    "green": "#a6e3a1",
    "yellow": "#f9e2af",
    "blue": "#89b4fa",
    "magenta": "#cba6f7",
    "cyan": "#94e2d5",
}
_LIGHT = {
    "red": "#b3002d",
    "green": "#1f6f1f",
    "yellow": "#7a5200",
    "blue": "#0b46b0",
    "magenta": "#7a1fa2",
    "cyan": "#00606e",
}
_CODEX_NAMES = {
    "github": "default",
    "inspired-github": "default",
    "monokai-extended": "monokai",
    "monokai-extended-bright": "monokai",
    "monokai-extended-origin": "monokai",
    "one-half-dark": "one-dark",
    "two-dark": "one-dark",
}
"""Styles of pygments with about the colours of Codex's themes."""


def theme_names() -> list[str]:
    """Return the names of all themes."""
    from pygments.styles import get_all_styles

    return [DEFAULT_THEME, "dark", "light", "none", *sorted({*_CODEX_NAMES, *get_all_styles()})]


def palette_of(name: str) -> Palette:
    """Return the escapes for the styles of a theme.

    Raises:
        ConfigError: There is no such theme.
    """
    match name:
        case "none":
            return PLAIN
        case "ansi":
            return ANSI
        case "dark" | "light":
            return _with_colours(_DARK if name == "dark" else _LIGHT)
        case _:
            return {**ANSI, **dict(_code_palette(name))}


def _with_colours(colours: Mapping[str, str]) -> Palette:
    """Return the terminal's own palette with other colours in place of its six."""
    codes = {ANSI[word]: _colour(colour) for word, colour in colours.items()}
    return {word: codes.get(code, code) for word, code in ANSI.items()}


def _code_palette(name: str) -> Iterator[tuple[str, str]]:
    """Yield the styles of code with their escapes, from a style of pygments."""
    from pygments.styles import get_style_by_name
    from pygments.token import string_to_tokentype
    from pygments.util import ClassNotFound

    try:
        style = get_style_by_name(_CODEX_NAMES.get(name, name))
    except ClassNotFound:
        hint = f"Use one of: {', '.join(theme_names())}."
        raise ConfigError(f"`tui.theme`: there is no theme {name!r} here", key="tui.theme", hint=hint) from None
    for kind, word in TOKEN_STYLES.items():
        look = style.style_for_token(string_to_tokentype(f"Token.{kind}"))
        codes = [
            code for code, is_on in (("1", look["bold"]), ("3", look["italic"]), ("4", look["underline"])) if is_on
        ]
        if look["color"]:
            codes.append(_colour(f"#{look['color']}"))
        yield word, ";".join(codes)


def _colour(colour: str) -> str:
    """Return the escape for ``#rrggbb``: the colour itself, or the nearest of the 216 that every terminal has."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return f"38;2;{';'.join(map(str, parts))}"
    red, green, blue = (0 if part < 48 else 1 if part < 115 else (part - 35) // 40 for part in parts)
    return f"38;5;{16 + 36 * red + 6 * green + blue}"
