"""Text that others wrote (models, servers, commands, files), as the command line shows it on a terminal."""

from __future__ import annotations

__all__ = ["clean"]

_CONTROLS: dict[int, str | None] = {
    **{number: None for number in (*range(0x20), *range(0x7F, 0xA0)) if chr(number) not in "\t\n"},
    **{
        number: f"\\u{number:04x}"
        for number in (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
}
"""Control characters are removed. Those that change the direction of writing, and other line ends, are shown escaped."""


def clean(text: str) -> str:
    """Return a text that can neither control the terminal nor be shown in another order than it is read."""
    return text.translate(_CONTROLS)
