"""The composer: where the person writes, with history, completion and folded pastes. It knows nothing of threads and kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from codex_client_terminal.keys import Key, Paste
from codex_client_terminal.text import Line, clean, cut, graphemes, width_of

__all__ = ["Choice", "Completer", "Composer", "as_message"]

FOLDED_FROM = 1_000
"""A paste that is longer, in characters, is shown as one block."""

MOST_ROWS = 10
"""The most rows of the text that are shown."""

MOST_CHOICES = 8
_MARK = re.compile(r"\[Pasted Content \d+ chars(?: #\d+)?\]")
_WORD = re.compile(r"\w+|[^\w\s]+")


class Choice(NamedTuple):
    """A possible completion."""

    text: str
    about: str = ""


Completer = Callable[[str], Sequence[Choice]]
"""Returns the completions of a word, which begins with its mark (``/`` or ``@``)."""


def as_message(text: str) -> str:
    """Return a text that is sent as a message, also if it begins like a command of the person."""
    return f"\n{text}" if text.startswith("!") else text


class Composer:
    """The text input.

    Attributes:
        text: The text, with a placeholder for each folded paste.
        cursor: The place of the cursor in it.
        hint: The text that is shown while the input is empty.
        completers: Complete a word, by its first character.
    """

    def __init__(self, completers: dict[str, Completer], *, mark: str = "› ", hint: str = "") -> None:
        self.text = ""
        self.cursor = 0
        self.hint = hint
        self._mark = mark
        self.completers = completers
        self._pastes: dict[str, str] = {}
        self._images: dict[str, str] = {}
        self._history: list[str] = []
        self._place: int | None = None  # in the history, while the person goes through it
        self._draft = ""
        self._killed = ""
        self._undone: list[tuple[str, int]] = []
        self._choices: Sequence[Choice] = ()
        self._chosen = 0
        self._column: int | None = None

    # What the application uses

    @property
    def whole(self) -> str:
        """The text with the folded pastes in place of their placeholders."""
        return _MARK.sub(lambda found: self._pastes.get(found.group(), found.group()), self.text)

    @property
    def is_shell_command(self) -> bool:
        """Whether the text is a command that the person runs, without approval."""
        return self.text.startswith("!")

    @property
    def choices(self) -> Sequence[Choice]:
        """The completions that are shown."""
        return self._choices

    @property
    def word(self) -> str:
        """The word before the cursor."""
        return self._word()[1]

    def take(self) -> str:
        """Return the whole text, keep it in the history, and begin a new one."""
        whole = self.whole
        self.remember(whole)
        self.set("")
        return whole

    def remember(self, text: str) -> None:
        """Add a text to the history."""
        if text.strip() and (not self._history or self._history[-1] != text):
            self._history.append(text)
        self._place = None

    def load_history(self, texts: Sequence[str]) -> None:
        """Insert older texts before the texts of this session."""
        self._history[:0] = texts

    def set(self, text: str) -> None:
        """Replace the text."""
        self.text, self.cursor = text, len(text)
        self._pastes = {mark: paste for mark, paste in self._pastes.items() if mark in text}
        self._choices, self._column, self._place = (), None, None

    def insert(self, text: str) -> None:
        """Insert text at the cursor. A long one becomes a placeholder."""
        self._keep_undo()
        if len(text) > FOLDED_FROM:
            mark = f"[Pasted Content {len(text)} chars]"
            number = 2
            while mark in self._pastes:
                mark = f"[Pasted Content {len(text)} chars #{number}]"
                number += 1
            self._pastes[mark] = text
            text = mark
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)
        self._changed()

    def attach(self, image: str) -> None:
        """Insert a mark for an image file."""
        mark = f"[Image #{len(self._images) + 1}]"
        self._images[mark] = image
        self.insert(f"{mark} ")

    def images_in(self, text: str) -> list[str]:
        """Return the paths of the images whose marks are in a text."""
        return [path for mark, path in self._images.items() if mark in text]

    def press(self, key: Key | Paste) -> bool:
        """Take a key. Return whether it was used."""
        if isinstance(key, Paste):
            is_command = self.text[: self.cursor] or "\n" not in key  # which the person has seen whole
            self.insert(key if is_command else as_message(key))
            return True
        if self._choices and self._press_choice(key):
            return True
        if key.is_text:
            self.insert(str(key))
            return True
        action = self._ACTIONS.get(key)
        return action is not None and action(self) is not False

    def complete(self) -> bool:
        """Take the chosen completion. Return whether there was one."""
        if not self._choices:
            return False
        start, _ = self._word()
        text = self._choices[self._chosen].text + " "
        self._keep_undo()
        self.text = self.text[:start] + text + self.text[self.cursor :].removeprefix(" ")
        self.cursor = start + len(text)
        self._choices = ()
        return True

    def lines(self, width: int) -> tuple[list[Line], tuple[int, int]]:
        """Return the lines to draw, and where the cursor is."""
        indent = " " * len(self._mark)
        if not self.text:
            return [cut([(self._mark, "bold"), (self.hint, "dim")], width)], (0, len(self._mark))
        rows, cursor = self._rows(max(width - len(indent) - 1, 4))
        first = max(0, min(cursor[0] - MOST_ROWS + 1, len(rows) - MOST_ROWS))
        first = max(first, 0)
        shown = rows[first : first + MOST_ROWS]
        style = "bold magenta" if self.is_shell_command else "bold"
        lines: list[Line] = [
            [(self._mark if number + first == 0 else indent, style), *self._styled(row)]
            for number, row in enumerate(shown)
        ]
        place = (cursor[0] - first, cursor[1] + len(indent))
        for number, choice in enumerate(
            self._choices[: self._first_choice + MOST_CHOICES][self._first_choice :], self._first_choice
        ):
            style = "bold cyan" if number == self._chosen else ""
            lines.append(cut([(f"  {choice.text:<24} ", style), (choice.about, style or "dim")], width))
        return lines, place

    # Rows

    def _rows(self, width: int) -> tuple[list[str], tuple[int, int]]:
        """Return the rows of the text, and the row and column of the cursor."""
        rows: list[str] = []
        cursor = (0, 0)
        place = 0
        for text in self.text.split("\n"):
            row, used = "", 0
            for letter in graphemes(text):
                shown = clean(letter)
                size = width_of(shown)
                if used + size > width:
                    rows.append(row)
                    row, used = "", 0
                if place <= self.cursor < place + len(letter):
                    cursor = (len(rows), used)
                row, used, place = row + shown, used + size, place + len(letter)
            if place == self.cursor:
                cursor = (len(rows), used)
            rows.append(row)
            place += 1
        return rows, cursor

    def _styled(self, row: str) -> Line:
        marks = [mark for mark in (*self._pastes, *self._images) if mark in row]
        if not marks:
            return [(row, "")]
        head, _, tail = row.partition(marks[0])
        return [(head, ""), (marks[0], "cyan"), (tail, "")]

    # Completion

    @property
    def _first_choice(self) -> int:
        return max(0, self._chosen - MOST_CHOICES + 1)

    def _word(self) -> tuple[int, str]:
        """Return the word before the cursor, and where it begins."""
        start = max(self.text.rfind(space, 0, self.cursor) for space in " \n\t") + 1
        return start, self.text[start : self.cursor]

    def _changed(self) -> None:
        self._column = None
        self._place = None
        start, word = self._word()
        completer = self.completers.get(word[:1])
        if completer is None or (word[:1] == "/" and start):
            self._choices = ()
        else:
            self._choices = completer(word)
        self._chosen = 0

    def show_choices(self) -> None:
        """Look for completions again, because more are known."""
        if self._choices or self.text:
            self._changed()

    def _press_choice(self, key: Key) -> bool:
        if key in ("up", "c-p"):
            self._chosen = (self._chosen - 1) % len(self._choices)
        elif key in ("down", "c-n"):
            self._chosen = (self._chosen + 1) % len(self._choices)
        elif key == "tab":
            self.complete()
        elif key == "esc":
            self._choices = ()
        else:
            return False
        return True

    # Editing

    def _keep_undo(self) -> None:
        if not self._undone or self._undone[-1][0] != self.text:
            self._undone = [*self._undone[-200:], (self.text, self.cursor)]

    def _undo(self) -> None:
        if self._undone:
            self.text, self.cursor = self._undone.pop()
            self._changed()

    def _cut(self, start: int, end: int, *, kill: bool = False) -> None:
        if start >= end:
            return
        for mark in (*self._pastes, *self._images):  # a placeholder is deleted as a whole
            place = self.text.find(mark)
            if place >= 0 and place < end and start < place + len(mark):
                start, end = min(start, place), max(end, place + len(mark))
        self._keep_undo()
        if kill:
            self._killed = self.text[start:end]
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start
        self._changed()

    def _before(self) -> int:
        """Return the place of the letter before the cursor."""
        start = self._line_start()
        if start == self.cursor:
            return max(self.cursor - 1, 0)
        *_, letter = graphemes(self.text[start : self.cursor])
        return self.cursor - len(letter)

    def _after(self) -> int:
        """Return the place after the letter at the cursor."""
        letter = next(iter(graphemes(self.text[self.cursor : self._line_end()])), "\n")
        return self.cursor + len(letter)

    def _backspace(self) -> None:
        self._cut(self._before(), self.cursor)

    def _delete(self) -> bool | None:
        if self.cursor == len(self.text):
            return False
        self._cut(self.cursor, self._after())
        return None

    def _line_start(self) -> int:
        return self.text.rfind("\n", 0, self.cursor) + 1

    def _line_end(self) -> int:
        end = self.text.find("\n", self.cursor)
        return len(self.text) if end < 0 else end

    def _word_start(self) -> int:
        starts = [found.start() for found in _WORD.finditer(self.text, 0, self.cursor)]
        return starts[-1] if starts else 0

    def _word_end(self) -> int:
        found = _WORD.search(self.text, self.cursor)
        return found.end() if found else len(self.text)

    def _move(self, place: int) -> None:
        self.cursor = max(0, min(place, len(self.text)))
        self._choices, self._column = (), None

    def _up(self) -> bool | None:
        start = self._line_start()
        if start and self._place is None:
            column = self.cursor - start if self._column is None else self._column
            before = self.text.rfind("\n", 0, start - 1) + 1
            self._move(min(before + column, start - 1))
            self._column = column
            return None
        return self._recall(-1)

    def _down(self) -> bool | None:
        end = self._line_end()
        if end < len(self.text) and self._place is None:
            column = self.cursor - self._line_start() if self._column is None else self._column
            after = self.text.find("\n", end + 1)
            self._move(min(end + 1 + column, len(self.text) if after < 0 else after))
            self._column = column
            return None
        return self._recall(1)

    def _recall(self, step: int) -> bool | None:
        """Show an earlier or later text of the history."""
        if not self._history or (self._place is None and step > 0):
            return False
        if self._place is None:
            self._draft, self._place = self.text, len(self._history)
        place = max(0, self._place + step)
        text = self._draft if place >= len(self._history) else self._history[place]
        self.text, self.cursor, self._choices = text, len(text), ()
        self._place = None if place >= len(self._history) else place
        return None

    def _kill_line(self) -> None:
        end = self._line_end()
        self._cut(self.cursor, end if end > self.cursor else end + 1, kill=True)

    def _yank(self) -> None:
        if self._killed:
            self.insert(self._killed)

    def _transpose(self) -> None:
        place = min(self.cursor, len(self.text) - 1)
        if place > 0:
            text = self.text
            self._keep_undo()
            self.text = text[: place - 1] + text[place] + text[place - 1] + text[place + 1 :]
            self.cursor = place + 1

    def _newline(self) -> None:
        self.insert("\n")

    def _left(self) -> None:
        self._move(self._before())

    def _right(self) -> None:
        self._move(self._after())

    def _home(self) -> None:
        self._move(self._line_start())

    def _end(self) -> None:
        self._move(self._line_end())

    def _word_left(self) -> None:
        self._move(self._word_start())

    def _word_right(self) -> None:
        self._move(self._word_end())

    def _kill_before(self) -> None:
        self._cut(self._line_start(), self.cursor, kill=True)

    def _kill_spaced_word(self) -> None:
        before = self.text[: self.cursor].rstrip()
        self._cut(max(before.rfind(space) for space in " \n") + 1, self.cursor, kill=True)

    def _kill_word_before(self) -> None:
        self._cut(self._word_start(), self.cursor, kill=True)

    def _kill_word_after(self) -> None:
        self._cut(self.cursor, self._word_end(), kill=True)

    _ACTIONS: ClassVar[Mapping[str, Callable[[Any], bool | None]]] = {
        "c-j": _newline,
        "s-enter": _newline,
        "m-enter": _newline,
        "backspace": _backspace,
        "c-h": _backspace,
        "delete": _delete,
        "c-d": _delete,
        "left": _left,
        "c-b": _left,
        "right": _right,
        "c-f": _right,
        "home": _home,
        "c-a": _home,
        "end": _end,
        "c-e": _end,
        "m-b": _word_left,
        "c-left": _word_left,
        "m-left": _word_left,
        "m-f": _word_right,
        "c-right": _word_right,
        "m-right": _word_right,
        "up": _up,
        "c-p": _up,
        "down": _down,
        "c-n": _down,
        "c-k": _kill_line,
        "c-u": _kill_before,
        "c-w": _kill_spaced_word,
        "m-backspace": _kill_word_before,
        "m-d": _kill_word_after,
        "c-y": _yank,
        "c-t": _transpose,
        "c-_": _undo,
    }
    """The action of each key. A function that returns False has not used the key."""
