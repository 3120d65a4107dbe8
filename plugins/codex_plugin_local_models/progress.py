"""The progress of a download: a bar on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import shutil
import time
from typing import Any, TextIO

from codex_framework.toolkit.terminal_text import printable

__all__ = ["Progress"]

_BAR = 30
_GIGABYTE = 1_000_000_000
_LARGEST = 2**63 - 1
"""The largest size of a file in bytes."""
_REDRAW_S, _LINE_S = 0.1, 10.0


class Progress:
    """Writes the progress of a download of several parts.

    Args:
        out: The stream.
        title: The first line.
    """

    def __init__(self, out: TextIO, title: str) -> None:
        self._out = out
        self._moves = out.isatty()
        self._parts: dict[str, tuple[int, int]] = {}
        self._status = ""
        self._told_at = 0.0
        self._shown = False
        print(printable(title), file=out, flush=True)

    def report(self, status: str, part: Any = None, completed: Any = None, total: Any = None) -> None:
        """Take one report of the server. Numbers that make no sense are ignored.

        Args:
            part: The name of a part, with the bytes that it has and will have.
        """
        changed = status != self._status
        if type(total) is int and 0 < total <= _LARGEST:
            done = completed if type(completed) is int else 0
            self._parts[str(part)] = (min(max(done, 0), total), total)
        elif changed and status:
            if self._parts:
                self._draw()
            self._line(status)
        self._status = status
        if self._parts and self._is_due():
            self._draw()

    def close(self) -> None:
        """End the bar's line."""
        if self._shown:
            self._draw()
            print(file=self._out, flush=True)
            self._shown = False

    def _is_due(self) -> bool:
        return time.monotonic() - self._told_at >= (_REDRAW_S if self._moves else _LINE_S)

    def _line(self, status: str) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=self._out)
            self._shown = False
        print(printable(status), file=self._out, flush=True)

    def _draw(self) -> None:
        self._told_at = time.monotonic()
        done = sum(have for have, _ in self._parts.values())
        total = sum(all_ for _, all_ in self._parts.values())
        share = done / total
        numbers = f"{done / _GIGABYTE:.2f}/{total / _GIGABYTE:.2f} GB ({share:.1%})"
        if not self._moves:
            print(numbers, file=self._out, flush=True)
            return
        full = round(share * _BAR)
        bar = f"[{'#' * full}{'.' * (_BAR - full)}] {numbers}"
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{bar[:width]}", end="", file=self._out, flush=True)
        self._shown = True
