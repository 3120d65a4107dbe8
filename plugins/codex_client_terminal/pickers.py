"""Lists to choose from, with a search: threads, models, permissions, earlier messages and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from codex_client_terminal.keys import Key, Paste
from codex_client_terminal.text import Line, cut, one_line, width_of, wrap

__all__ = ["Entry", "Picker"]

MOST_SHOWN = 10
MOST_PREVIEWED = 8


class Entry(NamedTuple):
    """A choice.

    Attributes:
        label: The text that is shown and searched.
        value: The chosen value.
        about: More about it, which is shown dimly and searched too.
        preview: Lines that are shown below the list while it is the chosen one.
    """

    label: str
    value: Any
    about: str = ""
    preview: str = ""


class Picker:
    """A list on the screen. It replaces the composer.

    Args:
        on_choice: Called with the value, or with None if nothing was chosen.
        chosen: The index of the initially chosen entry.
        keys: Further keys: the text of each below the list, and its function.
    """

    def __init__(
        self,
        title: str,
        entries: Sequence[Entry],
        on_choice: Callable[[Any], None],
        *,
        chosen: int = 0,
        keys: Mapping[str, tuple[str, Callable[[], None]]] | None = None,
    ) -> None:
        self.title = title
        self.search = ""
        self._entries = [(entry, f"{entry.label} {entry.about}".casefold()) for entry in entries]
        self._on_choice = on_choice
        self._chosen = chosen
        self._keys = keys or {}
        self._found: tuple[tuple[str, int], list[Entry]] | None = None

    def add(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        self._entries += [(entry, f"{entry.label} {entry.about}".casefold()) for entry in entries]

    @property
    def found(self) -> Sequence[Entry]:
        """The entries that contain all words of the search."""
        key = (self.search, len(self._entries))
        if self._found is None or self._found[0] != key:
            words = self.search.casefold().split()
            self._found = (key, [entry for entry, text in self._entries if all(word in text for word in words)])
        return self._found[1]

    @property
    def chosen(self) -> Entry | None:
        """The entry that is chosen now."""
        found = self.found
        return found[min(self._chosen, len(found) - 1)] if found else None

    def press(self, key: Key | Paste) -> bool:
        """Take a key."""
        if key in self._keys:
            self._keys[key][1]()
        elif isinstance(key, Paste) or key.is_text:
            self.search += one_line(str(key)) if isinstance(key, Paste) else str(key)
            self._chosen = 0
        elif key == "backspace":
            self.search = self.search[:-1]
            self._chosen = 0
        elif key in ("esc", "c-c"):
            self._on_choice(None)
        elif key == "enter":
            if self.chosen is not None:
                self._on_choice(self.chosen.value)
        elif key in _STEPS:
            self._chosen = max(0, min(len(self.found) - 1, self._chosen + _STEPS[key]))
        return True

    def preview(self, entry: Entry) -> str:
        """Return the preview of the chosen entry, shown below the list."""
        return entry.preview

    def lines(self, width: int) -> tuple[list[Line], tuple[int, int]]:
        """Return the lines to draw, and where the cursor is."""
        search = one_line(self.search)
        lines: list[Line] = [
            cut([(self.title, "bold"), (f"  {len(self.found)}/{len(self._entries)}", "dim")], width),
            cut([("› ", "bold"), (search, ""), ("" if search else "type to search", "dim")], width),
        ]
        lines += self._rows(width)
        keys = "".join(f" · {name}: {about}" for name, (about, _) in self._keys.items())
        lines.append(cut([(f"  enter chooses · esc goes back{keys}", "dim")], width))
        return lines, (1, min(2 + width_of(search), width - 1))

    def _rows(self, width: int) -> Iterator[Line]:
        found = self.found
        first = max(0, min(self._chosen - MOST_SHOWN + 1, len(found) - MOST_SHOWN))
        for entry in found[first : first + MOST_SHOWN]:
            mark, style = ("› ", "bold cyan") if entry is self.chosen else ("  ", "")
            about = one_line(entry.about)
            label = cut([(mark, style), (one_line(entry.label), style)], max(width - width_of(about) - 2, width // 2))
            yield cut([*label, (f"  {about}", "dim")], width)
        if self.chosen is None:
            yield cut([("  nothing found", "dim")], width)
        elif preview := self.preview(self.chosen):
            yield []
            shown = (row for text in preview.split("\n") for row in wrap([("  ", ""), (text, "dim")], width))
            yield from (row for _, row in zip(range(MOST_PREVIEWED), shown, strict=False))


_STEPS = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "tab": 1, "s-tab": -1, "pageup": -10, "pagedown": 10}
