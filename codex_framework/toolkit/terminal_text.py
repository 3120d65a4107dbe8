"""Text for terminals that others wrote: servers, files, models and projects.

Control characters could move the cursor, hide a part of a text, or make it look like other output.
"""

from __future__ import annotations

import os

__all__ = ["clean", "diff_style", "is_colour_wanted", "one_line", "printable"]

_LONGEST = 300

_CONTROLS: dict[int, str | None] = {
    **{number: None for number in (*range(0x20), *range(0x7F, 0xA0)) if chr(number) not in "\t\n"},
    **{
        number: f"\\u{number:04x}"
        for number in (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
}
"""Control characters are removed. Characters that change the writing direction, and other line ends, are shown escaped."""


def is_colour_wanted() -> bool:
    """Return whether colours may be printed on a terminal: neither is ``NO_COLOR`` set, nor is it a dumb terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Return a text in which all characters are escaped that cannot be printed, such as escapes of a terminal and line breaks."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def one_line(text: str, longest: int = _LONGEST) -> str:
    """Return the beginning of a text as one line, for quoting it in a message. Characters that cannot be printed become spaces.

    Args:
        longest: The maximum length in characters.
    """
    return "".join(char if char.isprintable() else " " for char in text[:longest])


def clean(text: str) -> str:
    """Return a text of several lines that can neither control the terminal nor be shown in another order than it is read."""
    return text.translate(_CONTROLS)


def diff_style(line: str) -> str:
    """Return the style of a line of a unified diff: ``bold`` for headings, ``green``, ``red`` or ``cyan``, or an empty text."""
    if line.startswith(("+++", "---", "diff ", "index ", "new file", "deleted file")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
