"""The notifier ``terminal``: shows a notification by OSC 9 or rings the bell, on a real terminal only."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from codex_framework import Notification, Notifier
from codex_plugin_notify.component import Reports
from codex_plugin_notify.filtering import Filter
from codex_plugin_notify.focus import is_watched
from codex_plugin_notify.texts import line

__all__ = ["TerminalNotifier", "sequence"]

_OSC9_PROGRAMS = ("WezTerm", "ghostty", "iTerm.app")
_OSC9_TERMS = ("xterm-kitty", "xterm-ghostty", "wezterm", "wezterm-mux")


class TerminalNotifier(Notifier):
    """Writes to the terminal of stderr, or else of stdout.

    Args:
        method: ``auto``, ``osc9`` or ``bel``.
        unfocused: Whether to write nothing while the user is known to be looking at the terminal.
        environ: The variables that identify the terminal.
    """

    name = "terminal"

    def __init__(
        self, method: str, wanted: Filter, environ: Mapping[str, str], reports: Reports, *, unfocused: bool = False
    ) -> None:
        self._method = method
        self._unfocused = unfocused
        self._wanted = wanted
        self._environ = environ
        self._reports = reports

    def notify(self, notification: Notification) -> None:
        """Write the notification. Without a terminal, do nothing."""
        if not self._wanted.passes(notification):
            return
        device = _terminal()
        if device is None or (self._unfocused and is_watched(device, self._environ)):
            return
        try:
            _write(device, sequence(line(notification), self._method, self._environ))
        except BlockingIOError:
            return  # its output is stopped (Ctrl-S), so nobody would notice
        except OSError as error:
            text = f"the terminal cannot be written: {error.strerror or error}"
            self._reports.tell(notification.thread_id, text)

    def flush(self) -> None:
        """Report unreported failures.

        Raises:
            PluginError: A failure was unreported.
        """
        self._reports.finish()


def sequence(text: str, method: str, environ: Mapping[str, str]) -> bytes:
    """Return the bytes for a text: OSC 9, passed through tmux, or the bell."""
    if method == "bel" or (method == "auto" and not _knows_osc9(environ)):
        return b"\a"
    plain = f"\x1b]9;{text}\a".encode("utf-8", "replace")
    if environ.get("TMUX"):
        return b"\x1bPtmux;" + plain.replace(b"\x1b", b"\x1b\x1b") + b"\x1b\\"
    return plain


def _knows_osc9(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is one of those that show OSC 9. Other terminals might print it or misinterpret it."""
    if environ.get("WT_SESSION"):  # Windows Terminal takes OSC 9 for other things
        return False
    if environ.get("ITERM_SESSION_ID") or environ.get("TERM_PROGRAM") in _OSC9_PROGRAMS:
        return True
    return environ.get("TERM") in _OSC9_TERMS


def _terminal() -> str | None:
    """Return the device of the terminal, if any."""
    for descriptor in (2, 1):
        try:
            if os.isatty(descriptor):
                return os.ttyname(descriptor)
        except OSError:
            continue
    return None


def _write(device: str, content: bytes) -> None:
    """Write without waiting for a terminal that takes nothing, and without being stopped as a job in the background."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        descriptor = os.open(device, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
