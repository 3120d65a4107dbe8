"""The notifier ``program``: runs the program of ``notify`` with a notification as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from codex_framework import Notification, Notifier, PluginContext
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.links import links_on_the_way
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.toolkit.programs import found_program
from codex_plugin_notify.component import NotifyComponent, Reports
from codex_plugin_notify.filtering import Filter
from codex_plugin_notify.processes import Processes
from codex_plugin_notify.texts import payload_json

__all__ = ["ProgramNotifier"]

_LONGEST = 131_071
"""The longest single argument on Linux, in bytes."""


class ProgramNotifier(Notifier):
    """Runs a program, with the notification as its last argument.

    Args:
        argv: The program and its arguments.
        timeout_s: Time limit of one run in seconds.
    """

    name = "program"

    def __init__(
        self,
        argv: Sequence[str],
        wanted: Filter,
        timeout_s: float,
        plugin: PluginContext,
        component: NotifyComponent,
    ) -> None:
        self._argv = tuple(argv)
        self._wanted = wanted
        self._path = plugin.environ.get("PATH", os.defpath)
        self._component = component
        self._reports = Reports(component)
        self._what = f"the program {self._argv[0]!r} of `notify`"
        self._processes = Processes(self._what, plugin.environ, timeout_s, self._reports.tell)

    def notify(self, notification: Notification) -> None:
        """Start the program, and do not wait for it."""
        if not self._wanted.passes(notification):
            return
        program = found_program(self._argv[0], self._path)
        if program is None:
            self._reports.tell(notification.thread_id, f"{self._what} was not found. {self._hint}")
            return
        access = self._component.access(notification.thread_id)
        replaceable = None if access is None else self._replaceable(program, access)
        if replaceable is not None:
            why = f"commands of the model can write {replaceable}"
            hint = "Move it out of the folders that they can write."
            self._reports.tell(notification.thread_id, f"{self._what} was not run, because {why}. {hint}")
            return
        last = payload_json(notification, _LONGEST)
        self._processes.start(program, [*self._argv, last], notification.thread_id)

    def flush(self) -> None:
        """Wait a moment for running programs, and report unreported failures.

        Raises:
            PluginError: A failure was unreported.
        """
        self._processes.close()
        self._reports.finish()

    @property
    def _hint(self) -> str:
        if "/" in self._argv[0] and not os.path.isabs(self._argv[0]):  # noqa: PTH117
            return (
                "Write its absolute path: a relative one would depend on the folder in which the session was started."
            )
        return "Fix `notify` in your config.toml."

    def _replaceable(self, program: str, access: FileAccess) -> str | None:
        """Return the program, or a file among its arguments, if commands can write it: it would run outside of their sandbox."""
        if access.full:
            return None
        places = [program, *(os.path.abspath(word) for word in self._argv[1:])]  # noqa: PTH100  # not real
        return next((place for place in places if os.path.isfile(place) and _is_replaceable(place, access)), None)  # noqa: PTH113


def _is_replaceable(place: str, access: FileAccess) -> bool:
    links = links_on_the_way(place)
    return access.may_write(Path(place)) or any(access.mode_of(link) is AccessMode.WRITE for link in links)
