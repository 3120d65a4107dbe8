"""Lists to choose from, with a search: threads, models, permissions, earlier messages and so on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from codex_client_terminal.keys import Key, Paste
from codex_client_terminal.text import Line, cut, one_line, wrap

__all__ = ["Entry", "Picker"]

MOST_SHOWN = 10


class Entry(NamedTuple):
    """Something to choose.

    Attributes:
        label: What is shown, and searched.
        value: What is chosen.
        about: More about it, which is shown dimly and searched too.
        preview: Lines that are shown below the list while it is the chosen one.
    """

    label: str
    value: Any
    about: str = ""
    preview: str = ""


class Picker:
    """A list on the screen. It takes the place of the composer.

    Args:
        on_choice: Called with the value, or with None if nothing was chosen.
        chosen: The place of the entry that is chosen at the beginning.
    """

    def __init__(
        self, title: str, entries: Sequence[Entry], on_choice: Callable[[Any], None], *, chosen: int = 0
    ) -> None:
        self._title = title
        self._entries = entries
        self._on_choice = on_choice
        self._chosen = chosen
        self._search = ""

    @property
    def found(self) -> list[Entry]:
        """The entries that contain all words of the search."""
        words = self._search.casefold().split()
        return [
            each for each in self._entries if all(word in f"{each.label} {each.about}".casefold() for word in words)
        ]

    def press(self, key: Key | Paste) -> bool:
        """Take a key."""
        found = self.found
        if isinstance(key, Paste) or key.is_text:
            self._search += one_line(str(key)) if isinstance(key, Paste) else str(key)
            self._chosen = 0
        elif key == "backspace":
            self._search = self._search[:-1]
            self._chosen = 0
        elif key in ("esc", "c-c"):
            self._on_choice(None)
        elif key == "enter":
            if found:
                self._on_choice(found[min(self._chosen, len(found) - 1)].value)
        elif found and key in _STEPS:
            self._chosen = max(0, min(len(found) - 1, self._chosen + _STEPS[key]))
        return True

    def lines(self, width: int) -> tuple[list[Line], tuple[int, int]]:
        """Return the lines to draw, and where the cursor is."""
        found = self.found
        first = max(0, min(self._chosen - MOST_SHOWN + 1, len(found) - MOST_SHOWN))
        first = max(first, 0)
        lines: list[Line] = [cut([(self._title, "bold"), (f"  {len(found)}/{len(self._entries)}", "dim")], width)]
        lines.append(
            cut([("› ", "bold"), (self._search, ""), ("" if self._search else "type to search", "dim")], width)
        )
        cursor = (1, min(2 + len(self._search), width - 1))
        for number, entry in enumerate(found[first : first + MOST_SHOWN], first):
            chosen = number == self._chosen
            style = "bold cyan" if chosen else ""
            lines.append(
                cut(
                    [
                        ("› " if chosen else "  ", style),
                        (one_line(entry.label), style),
                        (f"  {one_line(entry.about)}", "dim"),
                    ],
                    width,
                )
            )
        if not found:
            lines.append([("  nothing found", "dim")])
        elif found[min(self._chosen, len(found) - 1)].preview:
            preview = found[min(self._chosen, len(found) - 1)].preview
            lines.append([])
            lines += [row for text in preview.split("\n")[:6] for row in wrap([("  ", ""), (text, "dim")], width)][:6]
        lines.append(cut([("  enter chooses · esc goes back", "dim")], width))
        return lines, cursor


_STEPS = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "tab": 1, "s-tab": -1, "pageup": -10, "pagedown": 10}
