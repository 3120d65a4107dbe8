"""The notifier ``desktop``: shows a notification with ``notify-send`` or ``osascript``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from codex_framework import Notification, Notifier
from codex_framework.toolkit.programs import found_program
from codex_plugin_notify.component import Reports
from codex_plugin_notify.filtering import Filter
from codex_plugin_notify.processes import Processes
from codex_plugin_notify.texts import body, title

__all__ = ["DesktopNotifier", "command_line"]

_TIMEOUT_S = 10.0
_HINT = "It requires a desktop session."

_APPLESCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
"""The texts are arguments, so that nothing in them is run as a script."""


class DesktopNotifier(Notifier):
    """Runs the command of the desktop.

    Args:
        content: Whether the message is shown.
    """

    name = "desktop"

    def __init__(self, *, content: bool, wanted: Filter, environ: Mapping[str, str], reports: Reports) -> None:
        self._content = content
        self._wanted = wanted
        self._path = environ.get("PATH", os.defpath)
        self._reports = reports
        self._command = "osascript" if sys.platform == "darwin" else "notify-send"
        self._processes = Processes(f"{self._command!r}", environ, _TIMEOUT_S, reports.tell, hint=_HINT)

    def notify(self, notification: Notification) -> None:
        """Start the command."""
        if not self._wanted.passes(notification):
            return
        program = found_program(self._command, self._path)
        if program is None:
            hint = "Install it, or remove [framework.plugins.notify.desktop]."
            text = f"the desktop cannot be notified, because {self._command!r} was not found. {hint}"
            self._reports.tell(notification.thread_id, text)
            return
        shown = body(notification) if self._content else ""
        self._processes.start(program, command_line(self._command, title(notification), shown), notification.thread_id)

    def flush(self) -> None:
        """Wait a moment for running commands, and report unreported failures.

        Raises:
            PluginError: A failure was unreported.
        """
        self._processes.close()
        self._reports.finish()


def command_line(command: str, heading: str, text: str) -> list[str]:
    """Return the command that shows a notification. Nothing in the texts is an option, a script or markup."""
    if command == "osascript":
        script = [word for part in _APPLESCRIPT for word in ("-e", part)]
        return [command, *script, heading, text]
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return [command, "--app-name=codex-framework", "--", heading, escaped]
