"""A download program: it runs on its own terminal, so that it shows its progress, and is ended if it stalls."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from codex_framework.toolkit.terminal_text import one_line, printable

__all__ = ["Advance", "StalledError", "download"]

STALLED_S = 300.0
"""Seconds without progress after which a download counts as stalled."""
SILENT_S = 1800.0
"""The same while it checks or writes files, or as long as it has not told how far it is."""
_SILENT = re.compile(r"\b(?:verif|finali[sz]|writ|extract|check|load)", re.IGNORECASE)
_TERM_S = 2.0
"""How long the program may clean up, in seconds."""
_TICK_S = 0.1
_LINE_S = 10.0
_LONGEST = 4096
"""The longest line that is read, in characters."""
_TEXTS = 200
"""How many different texts count as progress, and are shown where there is no terminal."""
_RESTARTS = 100
_COLUMNS = 100

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%")
_AMOUNT = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([KMGT]?)i?B\b(?!/s)", re.IGNORECASE)
_STARTER = (
    "import fcntl, os, signal, sys, termios\n"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # nohup has it ignored
    "fcntl.ioctl(1, termios.TIOCSCTTY, 0)\n"  # so that the system ends the program when this one is gone
    "try: os.execv(sys.argv[1], sys.argv[1:])\n"
    "except OSError as error: sys.exit(f'{sys.argv[1]} cannot be started: {error.strerror}')\n"
)


class StalledError(Exception):
    """The program was ended because it made no progress.

    Attributes:
        seconds: For how long.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Advance:
    """Decides whether lines of a program show progress: a larger share or amount, or a text that is new apart from its numbers.

    Attributes:
        limit_s: How long the program may currently make no progress, in seconds.
    """

    def __init__(self) -> None:
        self.limit_s = SILENT_S
        self._texts: set[str] = set()
        self._tells = False
        self._best = (0.0, 0.0)
        self._restarts = 0

    def is_new(self, line: str) -> bool:
        """Return whether the text is new apart from its numbers. After many different ones, none is."""
        text = re.sub(r"[^A-Za-z/_-]+", " ", line).strip()
        if not text or text in self._texts or len(self._texts) >= _TEXTS:
            return False
        self._texts.add(text)
        return True

    def moves(self, line: str, *, is_new: bool) -> bool:
        """Return whether a line shows progress."""
        share, amount = _SHARE.search(line), _AMOUNT.search(line)
        now = (0.0 if share is None else float(share[1]), 0.0 if amount is None else _bytes(amount))
        tells = share is not None or amount is not None
        self._tells = self._tells or tells
        self.limit_s = STALLED_S if self._tells and not _SILENT.search(line) else SILENT_S
        restarted = share is not None and now[0] < self._best[0] / 2 and self._restarts < _RESTARTS
        further = any(have > had for have, had in zip(now, self._best, strict=True))
        if restarted or (is_new and tells):
            self._restarts += restarted
            self._best = now
        elif further:
            self._best = (max(now[0], self._best[0]), max(now[1], self._best[1]))
        return is_new or further or restarted


def download(argv: Sequence[str], env: Mapping[str, str], out: TextIO) -> int:
    """Run a program until it ends, and return its exit status. If this is interrupted, the program ends too.

    Args:
        argv: The absolute path of the program, and its arguments.
        out: The stream for its progress.

    Raises:
        StalledError: It made no progress for too long.
        OSError: It cannot be started.
    """
    starter = [sys.executable, "-I", "-S", "-c", _STARTER] if sys.executable else []
    ours, its = os.openpty()
    try:
        os.set_blocking(ours, False)
        with contextlib.suppress(OSError):
            termios.tcsetwinsize(its, (24, _COLUMNS))
        process = subprocess.Popen(
            [*starter, *argv],
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=its,
            env=dict(env),
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(its)
    display = _Display(out)
    try:
        _follow(process, ours, display)
        return process.returncode
    finally:
        _end(process)
        os.close(ours)
        display.close()


def _follow(process: subprocess.Popen[bytes], terminal: int, display: _Display) -> None:
    advance = Advance()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    moved_at, rest, ended = time.monotonic(), "", False
    while not ended:
        ended = process.poll() is not None
        piece = decoder.decode(_read(terminal, 0 if ended else _TICK_S))
        *lines, rest = re.split(r"[\r\n]+", rest + piece)
        for line in map(_plain, lines if piece and not ended else [*lines, rest]):
            if not line:
                continue
            is_new = advance.is_new(line)
            if advance.moves(line, is_new=is_new):
                moved_at = time.monotonic()
            display.show(line, is_new=is_new)
        rest = rest[-_LONGEST:]
        if not ended and time.monotonic() - moved_at > advance.limit_s:
            raise StalledError(advance.limit_s)


def _read(terminal: int, within_s: float) -> bytes:
    """Return the program's output. Empty if it wrote nothing, or if the terminal is closed."""
    if not select.select([terminal], [], [], within_s)[0]:
        return b""
    try:
        return os.read(terminal, 65_536)
    except BlockingIOError:
        return b""
    except OSError:  # closed on the other side
        time.sleep(within_s)
        return b""


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    for number, patience_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
        except KeyboardInterrupt:  # once more: the user does not want to wait
            if patience_s is None:
                raise
            continue
        return


def _plain(line: str) -> str:
    return one_line(re.sub(_ESCAPES, "", line[-_LONGEST:])).strip()


def _bytes(amount: re.Match[str]) -> float:
    return float(amount[1]) * 1000.0 ** " KMGT".index(amount[2].upper() or " ")


class _Display:
    """Shows the lines of the program: new texts, and on a terminal the last one, elsewhere one every ten seconds."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._moves = out.isatty()
        self._told_at = 0.0
        self._last = ""
        self._open = False

    def show(self, line: str, *, is_new: bool) -> None:
        now = time.monotonic()
        due = now - self._told_at >= (_TICK_S if self._moves else _LINE_S)
        self._last = line
        if due or is_new:
            self._told_at = now
            self._write(line, stays=is_new and _SHARE.search(line) is None)

    def close(self) -> None:
        if self._open:
            self._write(self._last, stays=True)

    def _write(self, line: str, *, stays: bool) -> None:
        line = printable(line)
        if not self._moves:
            print(line[:200], file=self._out, flush=True)
            return
        self._open = not stays
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{line[:width]}", end="\n" if stays else "", file=self._out, flush=True)
