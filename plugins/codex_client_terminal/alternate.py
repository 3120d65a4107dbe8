"""The alternate screen: the terminal keeps nothing of the conversation, so this module does, and scrolls it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codex_client_terminal.screen import Screen, live_rows
from codex_client_terminal.text import Line, rows

__all__ = ["AlternateScreen"]

MOST_LINES = 20_000
"""The most lines that are kept. When there are more, the older half is dropped."""

_ENTER = "\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[H\x1b[2J"
_LEAVE = "\x1b[?1006l\x1b[?1000l\x1b[?1049l"
"""The alternate screen, and reports of the mouse wheel."""


class AlternateScreen:
    """Draws the newest lines, or those to which the person has scrolled, with the live region below them."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines: list[Line] = []
        self._rows: list[str] = []
        self._made_for: object = None
        self._below = 0  # how many rows the person has scrolled up
        self._drawn: list[str] = []
        self._cursor = (-1, -1)
        self._farewell = ""

    def enter(self) -> str:
        """Switch to the alternate screen."""
        self.resize()
        return _ENTER

    def leave(self) -> str:
        """Switch back, and print there the lines that finished without a live region: the last words of the program."""
        return f"{_LEAVE}{self._farewell}"

    def resize(self) -> str:
        """Draw everything with the next frame."""
        self._drawn, self._cursor = [], (-1, -1)
        return "\x1b[2J"

    def clear(self) -> str:
        """Forget all lines."""
        self._lines, self._rows, self._below = [], [], 0
        return self.resize()

    def scroll(self, rows: int) -> None:
        """Scroll up, or down with a negative number."""
        self._below = max(0, self._below + rows)

    def draw(self, finished: Iterable[Line], live: Sequence[Line], cursor: tuple[int, int]) -> str:
        """Draw the rows that differ from the last frame."""
        screen = self._screen
        added = list(rows(finished := list(finished), screen.width, screen.palette))
        if not live:
            self._farewell = "".join(f"{row}\r\n" for row in added)
            return ""
        self._add(finished, added)
        shown = live_rows(live, screen)[-screen.height :]
        cursor = (max(cursor[0] - len(live) + len(shown), 0), cursor[1])
        space = screen.height - len(shown)
        self._below = min(self._below, max(len(self._rows) - space, 0))
        end = len(self._rows) - self._below
        visible = self._rows[max(end - space, 0) : end]
        if self._below and visible:
            visible[-1] = next(
                rows([[(f"  ⋮ {self._below + 1} more rows below", "dim")]], screen.width, screen.palette)
            )
        frame = [*visible, *shown]
        frame += [""] * (screen.height - len(frame))
        place = (len(visible) + cursor[0], cursor[1])
        before = self._drawn or [""] * len(frame)
        changed = [f"\x1b[{row + 1};1H\x1b[2K{text}" for row, text in enumerate(frame) if text != before[row]]
        if not changed and place == self._cursor:
            return ""
        self._drawn, self._cursor = frame, place
        return f"{''.join(changed)}\x1b[{place[0] + 1};{place[1] + 1}H"

    def _add(self, lines: Sequence[Line], added: Sequence[str]) -> None:
        """Keep lines and their rows. After a change of the width or the theme, all rows are made again."""
        self._lines += map(list, lines)  # without images, which are not displayed here
        made_for = (self._screen.width, self._screen.palette)
        is_too_long = len(self._lines) > MOST_LINES
        if is_too_long:
            del self._lines[: -MOST_LINES // 2]
        if is_too_long or made_for != self._made_for:
            self._rows = list(rows(self._lines, *made_for))
            self._made_for = made_for
        else:
            self._rows += added
        if self._below:
            self._below += len(added)
