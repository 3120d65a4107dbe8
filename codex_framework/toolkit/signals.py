"""Signals of started programs: default dispositions and an empty mask, whatever this process has inherited.

Programs inherit ignored and blocked signals. Without this module, commands could not be interrupted if this process was started
by ``nohup``, or with ``&`` in a script.
"""

from __future__ import annotations

# The functions of `signal` convert each number to an enum, which takes ten times as long.
import _signal  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

__all__ = ["default_signals", "signals_are_default", "with_default_signals"]

_NUMBERS = tuple(
    number
    for number in range(1, 32)
    if number in _signal.valid_signals()
    and number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ)
)
"""The signals that may be ignored. ``subprocess`` itself restores SIGPIPE and SIGXFSZ, which Python ignores."""

_IGNORED = int(signal.SIG_IGN)
_BLOCK = int(signal.SIG_BLOCK)

_STARTER = (
    "import os, signal, sys\n"
    "for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
    "    try: signal.signal(number, signal.SIG_DFL)\n"
    "    except OSError: pass\n"  # a number that the C library reserves
    "signal.pthread_sigmask(signal.SIG_SETMASK, ())\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)


def signals_are_default() -> bool:
    """Return whether programs that ``subprocess`` starts in this thread would have default signals. This takes about a microsecond."""
    return _IGNORED not in map(_signal.getsignal, _NUMBERS) and not _signal.pthread_sigmask(_BLOCK, ())


@contextlib.contextmanager
def default_signals() -> Iterator[bool]:
    """Give default signals to programs that ``subprocess`` starts in the block. Yield whether this is possible.

    Ignored signals temporarily get a handler, because the system resets handled signals for a new program. This is possible
    only in the main thread. A mask is not changed, because blocked signals would then be received. If signals are ignored
    outside of the main thread, or blocked, the value is False; see :func:`with_default_signals`.

    If SIGCHLD is ignored, the main thread restores its default permanently, because exit statuses could not be read otherwise.
    """
    ignored = [number for number in _NUMBERS if _signal.getsignal(number) == _IGNORED]
    if ignored and threading.current_thread() is not threading.main_thread():
        yield False
        return
    for number in ignored:
        signal.signal(number, _do_nothing)
    try:
        yield not _signal.pthread_sigmask(_BLOCK, ())
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)


def with_default_signals(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that resets all signals and then becomes ``argv``. It takes about 10 ms longer.

    The caller must check that the program exists, because error messages of this step would look like the program's own.
    """
    return (sys.executable, "-I", "-S", "-X", "utf8", "-c", _STARTER, *argv) if sys.executable else tuple(argv)


def _do_nothing(number: int, frame: object) -> None:
    """Handle a signal that would otherwise be ignored."""
