"""The terminal as a screen: finished lines are printed once, and a live region below them is redrawn.

Finished lines go into the terminal's own scroll-back (:class:`ScrollBack`), or into a log of the alternate screen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
import tty
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from codex_client_terminal.text import (
    ANSI,
    PLAIN,
    Line,
    Palette,
    rows,
    terminal_encoding,
    to_bytes,
    uses_colour,
    width_of,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["Output", "Pane", "Screen"]

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""A terminal that supports these shows everything between them in one step."""

_ENTER, _LEAVE = "\x1b[?47l\x1b[?1000;1002;1003;1006l\x1b[?2004h", "\x1b[?2004l\x1b[?25h\x1b[0m"
"""Pastes are marked. Modes left by a killed editor (the alternate screen, mouse reports) are ended first."""

_PATIENCE_S = 1.0
"""How long a terminal that does not read delays the end of the process, or the start of another program."""


class Output:
    """Writes to a terminal without waiting for it.

    Args:
        terminal: A descriptor of the terminal. Other processes share its mode, so it is reopened if possible.
    """

    def __init__(self, terminal: int) -> None:
        self._pending = bytearray()
        self._loop: AbstractEventLoop | None = None
        self._on_drained: Callable[[], None] | None = None
        self._sink = _open_unshared(terminal)

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not taken everything yet."""
        return bool(self._pending)

    def attach(self, loop: AbstractEventLoop, on_drained: Callable[[], None]) -> None:
        """Write pending output from an event loop. ``on_drained`` is called whenever the terminal has accepted everything."""
        self._loop, self._on_drained = loop, on_drained
        self.write(b"")

    def write(self, data: bytes) -> None:
        """Write as much as the terminal takes, and keep the rest."""
        was_behind = self.is_behind
        self._pending += data
        self._write_pending()
        if self._loop is not None and self.is_behind and not was_behind:
            self._loop.add_writer(self._sink, self._go_on)

    def flush(self) -> None:
        """Wait until the terminal has taken everything. If it takes nothing for a while, the rest is dropped."""
        while self.is_behind and select.select([], [self._sink], [], _PATIENCE_S)[1]:
            self._write_pending()
        self._pending.clear()
        if self._loop is not None:
            self._loop.remove_writer(self._sink)

    def _go_on(self) -> None:
        self._write_pending()
        if not self.is_behind and self._loop is not None and self._on_drained is not None:
            self._loop.remove_writer(self._sink)
            self._on_drained()

    def _write_pending(self) -> None:
        try:
            while self._pending:
                del self._pending[: os.write(self._sink, self._pending)]
        except BlockingIOError:
            pass
        except OSError:  # the terminal is gone, which the end of its keys reports
            self._pending.clear()


def _open_unshared(terminal: int) -> int:
    """Return a non-blocking descriptor for writing, or a blocking one if the terminal cannot be reopened."""
    try:
        return os.open(os.ttyname(terminal), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return os.dup(terminal)


class Pane(Protocol):
    """A way of displaying the conversation. Its methods return what to write to the terminal."""

    def enter(self) -> str:
        """Begin to use the terminal."""
        ...

    def leave(self) -> str:
        """Stop using it, temporarily or permanently."""
        ...

    def draw(self, finished: Iterable[Line], live: Sequence[Line], cursor: tuple[int, int]) -> str:
        """Print finished lines, and draw the live region. It takes the arguments of :meth:`Screen.draw`."""
        ...

    def resize(self) -> str:
        """Forget the drawn rows, because the size has changed."""
        ...

    def clear(self) -> str:
        """Erase everything."""
        ...

    def scroll(self, rows: int) -> None:
        """Show earlier lines, or with a negative number later ones, from the next frame on."""
        ...


class Screen:
    """The screen of the process's terminal.

    Args:
        source: The descriptor to read keys from.
        sink: The descriptor to write to.

    Attributes:
        palette: The escapes for styles.
        encoding: The terminal's encoding of text.
    """

    def __init__(self, source: int = 0, sink: int = 1) -> None:
        self.source = source
        self.sink = sink
        self.palette: Palette = ANSI if uses_colour() else PLAIN
        self.encoding = terminal_encoding()
        self._output = Output(sink)
        self._is_open = False
        self._saved: list[Any] | None = None  # the first mode, because an editor that was killed leaves its own
        self._size = (80, 24)
        self._pane: Pane = ScrollBack(self)
        self._measure()

    @property
    def width(self) -> int:
        """Columns."""
        return self._size[0]

    @property
    def height(self) -> int:
        """Rows."""
        return self._size[1]

    @property
    def cell_size(self) -> tuple[int, int]:
        """Width and height of a character in pixels. A usual size if the terminal does not tell."""
        try:
            size = fcntl.ioctl(self.sink, termios.TIOCGWINSZ, bytes(8))
        except OSError:
            size = bytes(8)
        rows, columns, width, height = struct.unpack("HHHH", size)
        return (width // columns, height // rows) if width and height and columns and rows else (8, 16)

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not taken the last frame yet, so that none can be drawn."""
        return self._output.is_behind

    def attach(self, loop: AbstractEventLoop, on_drained: Callable[[], None]) -> None:
        """Write in a loop, which calls ``on_drained`` when a terminal that was behind has caught up."""
        self._output.attach(loop, on_drained)

    def flush(self) -> None:
        """Wait until the terminal has taken everything, but not for a terminal that does not read."""
        self._output.flush()

    def open(self) -> None:
        """Take the terminal: single keys without echo."""
        if self._saved is None:
            self._saved = termios.tcgetattr(self.source)
        self._is_open = True
        tty.setraw(self.source, termios.TCSANOW)  # draining would wait for the terminal
        self._write(f"{_ENTER}{self._pane.enter()}")

    def close(self) -> None:
        """Restore the terminal, without the live region."""
        if not self._is_open or self._saved is None:
            return
        self._is_open = False
        self._write(f"{self._pane.leave()}{_LEAVE}")
        self._output.flush()
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(self.source, termios.TCSANOW, self._saved)

    def use(self, pane: Pane) -> None:
        """Display the conversation in another way from now on."""
        self._write(f"{self._pane.leave()}{pane.enter()}")
        self._pane = pane

    def suspend(self) -> None:
        """Stop the process as ^Z does, and take the terminal again when it continues."""
        self.close()
        os.kill(0, signal.SIGTSTP)
        self.open()

    def resize(self) -> None:
        """Take note of another size."""
        self._measure()
        self._write(self._pane.resize())

    def clear(self) -> None:
        """Erase the terminal."""
        self._write(self._pane.clear())

    def scroll(self, rows: int) -> None:
        """Show earlier lines, or with a negative number later ones, unless the terminal itself keeps them."""
        self._pane.scroll(rows)

    def copy(self, text: str) -> None:
        """Put a text into the terminal's clipboard, if it permits that (OSC 52)."""
        import base64

        self._write(f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\x07")

    def draw(self, finished: Iterable[Line], live: Sequence[Line], cursor: tuple[int, int]) -> None:
        """Print finished lines above the live region, and draw the region.

        Args:
            live: The lines of the region. Each must fit into a row; what does not is cut off by wrapping.
            cursor: The row and column of the cursor within the region.
        """
        if text := self._pane.draw(finished, live, cursor):
            self._write(f"{_BEGIN}\x1b[?25l{text}\x1b[?25h{_END}")

    def _measure(self) -> None:
        try:
            size = os.get_terminal_size(self.sink)
        except OSError:
            return
        self._size = (max(size.columns or 80, 10), max(size.lines or 24, 3))  # some terminals do not know their size

    def _write(self, text: str) -> None:
        self._output.write(to_bytes(text, self.encoding))


class ScrollBack:
    """Prints finished lines into the terminal's own scroll-back. The live region is at the end of the output."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._drawn: list[str] = []  # the rows of the live region
        self._widths: list[int] = []
        self._cursor = (0, 0)

    def enter(self) -> str:
        """Begin at the cursor."""
        return ""

    def leave(self) -> str:
        """Erase the live region."""
        up = _up(self._cursor[0])
        self._forget()
        return f"{up}\r\x1b[J"

    def resize(self) -> str:
        """Erase the live region. Rows that no longer fit have been wrapped by the terminal."""
        columns = self._screen.width
        above = sum(max(1, -(-width // columns)) for width in self._widths[: self._cursor[0]])
        above += self._cursor[1] // columns
        self._forget()
        return f"\r{_up(above)}\x1b[J"

    def clear(self) -> str:
        """Erase the terminal with its scroll-back."""
        self._forget()
        return "\x1b[H\x1b[2J\x1b[3J"

    def scroll(self, rows: int) -> None:
        """Do nothing: the terminal scrolls itself."""

    def _forget(self) -> None:
        self._drawn, self._widths, self._cursor = [], [], (0, 0)

    def draw(self, finished: Iterable[Line], live: Sequence[Line], cursor: tuple[int, int]) -> str:
        """Draw only rows that differ, unless lines are printed above them."""
        screen = self._screen
        drawn = live_rows(live, screen)
        widths = [min(width_of("".join(text for text, _ in line)), screen.width) for line in live]
        if (over := len(drawn) - screen.height) > 0:  # the end is what matters
            drawn, widths, cursor = drawn[over:], widths[over:], (max(cursor[0] - over, 0), cursor[1])
        printed = list(_print_commands(finished, screen))
        out: list[str] = []
        if printed:
            out += [_up(self._cursor[0]), "\r\x1b[J", "".join(f"{row}\r\n" for row in printed)]
            out.append("\r\n".join(drawn))
            at = max(len(drawn) - 1, 0)
        elif drawn != self._drawn:
            at = self._redraw(out, drawn)
        else:
            at = self._cursor[0]
            if cursor == self._cursor:
                return ""
        out += [_up(at - cursor[0]) if at >= cursor[0] else f"\x1b[{cursor[0] - at}B", "\r"]
        out.append(f"\x1b[{cursor[1]}C" if cursor[1] else "")
        self._drawn, self._widths, self._cursor = drawn, widths, cursor
        return "".join(out)

    def _redraw(self, out: list[str], drawn: list[str]) -> int:
        """Draw the rows that differ, and return the row at which the cursor then is."""
        at = self._cursor[0]
        if not drawn:
            out.append(f"{_up(at)}\r\x1b[J")
            return 0
        for row, text in enumerate(drawn):
            if row < len(self._drawn) and self._drawn[row] == text:
                continue
            if row < len(self._drawn):
                out.append(_up(at - row) if at >= row else f"\x1b[{row - at}B")
            elif row:  # a new row at the end, which may scroll the terminal
                last = row - 1
                out.append((_up(at - last) if at >= last else f"\x1b[{last - at}B") + "\r\n")
            out.append(f"\r\x1b[2K{text}")
            at = row
        if len(self._drawn) > len(drawn):
            last = len(drawn) - 1
            out.append(_up(at - last) if at >= last else f"\x1b[{last - at}B")
            out.append("\r\x1b[1B\x1b[J\x1b[1A")
            at = last
        return at


def _print_commands(lines: Iterable[Line], screen: Screen) -> Iterator[str]:
    """Yield what prints lines, with the images that are among them."""
    for line in lines:
        yield from rows([line], screen.width, screen.palette)
        if type(line) is not list:  # most are, and need no import
            from codex_client_terminal.images import Picture, picture_escape

            if isinstance(line, Picture) and (escape := picture_escape(line, screen.width, screen.cell_size)):
                yield escape


def live_rows(live: Sequence[Line], screen: Screen) -> list[str]:
    """Return the lines of the live region, one row each."""
    return [row for line in live for row in list(rows([line], screen.width, screen.palette))[:1]]


def _up(count: int) -> str:
    return f"\x1b[{count}A" if count > 0 else ""
