"""Errors of scripts in V8's form, as far as the engine provides the data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from codex_plugin_code_mode.engine.realm import FIRST_LINE

__all__ = ["compile_fault", "script_fault"]

_PLACE = re.compile(r"^    at (?:(?P<name>.*) \()?<input>:(?P<line>\d+):(?P<column>\d+)\)?$")
_CALLEE = re.compile(r"[\w$]+(?:\??\.[\w$]+|\[[^\[\]]*\])*")
_NO_MODULE = "ReferenceError: could not load module"
_UNNAMED = ("<anonymous>", "<eval>")


def script_fault(text: str, frames: str, source: Sequence[str]) -> str:
    """Return the text for an error that a script did not catch.

    Args:
        text: The error as a string.
        frames: Its stack from the engine.
        source: The lines of the script.
    """
    if text.startswith(_NO_MODULE):
        return "unsupported import in exec"
    places = list(_places(frames, source))
    if text == "TypeError: not a function" and places:
        text = f"TypeError: {_callee(places[0], source) or 'it'} is not a function"
    return "\n".join([text, *(f"    at {_format_place(place)}" for place in places)])


def compile_fault(text: str) -> str:
    """Return the text for a script that the engine cannot compile."""
    if text.startswith(_NO_MODULE):
        return f"Unsupported import in exec: {text.removeprefix(_NO_MODULE).strip().strip(chr(39))}"
    return text.strip().replace("<input>", "exec_main.mjs")


_Place = tuple[str, int, int]
"""The name of a function, which may be empty, and a line and a column, from 1."""


def _places(frames: str, source: Sequence[str]) -> Iterator[_Place]:
    """Yield the places of a stack that are in the script."""
    for frame in frames.splitlines():
        found = _PLACE.match(frame)
        if found is None or int(found["line"]) >= FIRST_LINE:
            continue
        line, column = int(found["line"]), int(found["column"])
        name = found["name"] or ""
        yield "" if name in _UNNAMED else name, line, _column(_line(source, line), column)


def _column(line: str, column: int) -> int:
    """Return V8's column: the column of ``new`` or of a member's name, where the engine reports the class or the dot."""
    before = line[: column - 1]
    if before.endswith("new "):
        return column - len("new ")
    return column + 1 if line[column - 1 : column] == "." else column


def _line(source: Sequence[str], number: int) -> str:
    return source[number - 1] if 0 < number <= len(source) else ""


def _callee(place: _Place, source: Sequence[str]) -> str:
    """Return the expression that was called, from the text around a place."""
    _, number, column = place
    line = _line(source, number)
    return next((found[0] for found in _CALLEE.finditer(line) if found.start() < column <= found.end()), "")


def _format_place(place: _Place) -> str:
    name, line, column = place
    at = f"exec_main.mjs:{line}:{column}"
    return f"{name} ({at})" if name else at
