"""Text for terminals that others wrote: servers, files, models and projects.

Control characters could move the cursor, hide a part of a text, or make it look like other output.
"""

from __future__ import annotations

__all__ = ["one_line", "printable"]

_LONGEST = 300


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
