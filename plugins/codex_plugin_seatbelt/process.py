"""A confined command as a process. Its descendants are tracked while it runs, and killed after its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from codex_framework import ChildProcess
from codex_plugin_seatbelt.families import Family, process_table

__all__ = ["SeatbeltProcess"]

_FIRST_PAUSE_S = 0.02
_MAX_PAUSE_S = 2.0
"""First and longest pause in seconds between checks for descendants. On a Mac, each check runs ``ps``."""


class SeatbeltProcess(ChildProcess):
    """A :class:`~codex_framework.ChildProcess` around the process that confines itself and becomes the command.

    Args:
        child: The process.
        ended: Called with this object once it and its descendants have ended.
    """

    def __init__(self, child: ChildProcess, ended: Callable[[SeatbeltProcess], None]) -> None:
        self._child = child
        self._family = Family(child.pid)
        self._status: int | None = None
        self._ended = ended
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._child.pid

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group, or do nothing if the group is gone."""
        if number == signal.SIGKILL and self._status is None:
            self._family.look(process_table())  # processes that have left the group cannot be found after this signal
        self._child.signal(number)

    async def wait(self) -> int:
        """Wait until the process and its known descendants have ended, and return the status."""
        await asyncio.shield(self._watching)
        assert self._status is not None
        return self._status

    async def end(self) -> None:
        """End the process with all its descendants."""
        if self._status is None:
            await asyncio.to_thread(self._family.kill)
        await self.wait()

    async def _watch(self) -> None:
        waiting = asyncio.ensure_future(self._child.wait())
        pause = _FIRST_PAUSE_S
        try:
            while not (await asyncio.wait({waiting}, timeout=pause))[0]:
                table = await asyncio.to_thread(process_table)
                self._family.look(table)
                pause = min(2 * pause, _MAX_PAUSE_S)
            self._end_group()
            if self._family.has_descendants:
                await asyncio.to_thread(self._family.kill)
            self._status = waiting.result()
        except asyncio.CancelledError:  # the event loop is shutting down, and nobody has waited
            waiting.cancel()
            self._family.kill()
            raise
        finally:
            self._ended(self)

    def _end_group(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, signal.SIGKILL)
