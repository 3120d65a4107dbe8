"""A conversation to read, in place of the composer: of a stored session, or of a sub-agent that works."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codex_client_terminal.keys import Key, Paste
from codex_client_terminal.text import Line, cut, wrap

__all__ = ["Viewer"]


class Viewer:
    """Lines on the screen that can be scrolled. It shows the end until the user scrolls up.

    Args:
        height: Returns the number of rows.
        on_close: Called when the user goes back.
        running: Returns the lines for running work, shown at the end.
    """

    def __init__(
        self,
        title: str,
        lines: Iterable[Line],
        *,
        height: Callable[[], int],
        on_close: Callable[[None], None],
        running: Callable[[int], list[Line]] = lambda _: [],
    ) -> None:
        self._title = title
        self._lines = list(lines)
        self._height = height
        self._on_close = on_close
        self._running = running
        self._rows: list[Line] = []
        self._wrapped = (0, 0)  # the width, and how many lines have been wrapped
        self._above = 0  # how many rows are hidden below the last one that is shown

    def add(self, lines: Iterable[Line]) -> None:
        """Add lines at the end."""
        self._lines += lines

    def press(self, key: Key | Paste) -> bool:
        """Take a key."""
        page = max(self._page - 1, 1)
        steps = {"up": 1, "k": 1, "down": -1, "j": -1, "pageup": page, "b": page, "pagedown": -page, " ": -page}
        if key in ("esc", "q", "c-c", "c-t"):
            self._on_close(None)
        elif key in ("home", "g"):
            self._above = len(self._rows)
        elif key in ("end", "G"):
            self._above = 0
        else:
            self._above += steps.get(key, 0)
        return True

    @property
    def _page(self) -> int:
        return max(self._height() - 5, 3)

    def lines(self, width: int) -> tuple[list[Line], tuple[int, int]]:
        """Return the lines to draw, and where the cursor is."""
        rows = self._wrap(width)
        running = [cut(line, width) for line in self._running(width)]
        self._above = max(0, min(self._above, len(rows) - self._page))
        end = len(rows) - self._above
        shown = rows[max(0, end - self._page + (len(running) if not self._above else 0)) : end]
        shown += running if not self._above else []
        where = f"{end}/{len(rows)}" if self._above else "end"
        lines: list[Line] = [cut([(self._title, "bold"), (f"  {where}", "dim")], width), *shown[-self._page :]]
        lines.append(cut([("  arrows and page keys scroll · esc goes back", "dim")], width))
        return lines, (0, 0)

    def _wrap(self, width: int) -> list[Line]:
        if self._wrapped[0] != width:
            self._rows, self._wrapped = [], (width, 0)
        added = [row for line in self._lines[self._wrapped[1] :] for row in wrap(line, width)]
        if self._above:
            self._above += len(added)  # what is being read stays where it is
        self._rows += added
        self._wrapped = (width, len(self._lines))
        return self._rows
