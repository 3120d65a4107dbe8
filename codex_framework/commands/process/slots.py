"""Commands that find no file descriptor or process left wait until another command has ended.

Apart from ``running``: it is about one command, and this is about all that run at the same time.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import time
from collections.abc import Iterable

from codex_framework.contract.errors import CommandFailed
from codex_framework.toolkit.os_errors import os_error_text

__all__ = ["SLOTS", "Slots", "is_scarce"]

_SCARCE = frozenset((errno.EMFILE, errno.ENFILE, errno.EAGAIN))

_RESERVE = 20
"""Number of descriptors that commands leave to everything else in this process: files, connections, and their sandbox."""

_PAUSE_S = 0.05
_PATIENCE_S = 60.0
"""Time limit in seconds for the end of any other command. Commands in the background may never end."""


class Slots:
    """The running and starting commands of this process, which use descriptors."""

    def __init__(self) -> None:
        self._holders: set[object] = set()
        self._freed = 0

    def take(self, holder: object, descriptors: Iterable[int]) -> None:
        """Count a command that has opened its descriptors.

        Raises:
            CommandFailed: Too few descriptors are left beside it, and other commands will free theirs.
        """
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        highest = max(descriptors)  # the system gives the lowest free number, so this is how many are in use
        if self._holders and limit >= 0 and highest >= limit - _RESERVE:
            full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            raise CommandFailed(os_error_text(full), hint="End other commands.") from full
        self._holders.add(holder)

    def free(self, holder: object) -> None:
        """Forget a command that has ended or was not started."""
        if holder in self._holders:
            self._holders.discard(holder)
            self._freed += 1

    async def wait(self) -> bool:
        """Wait a moment, or until another command has ended if one runs. Return whether another attempt makes sense."""
        freed, until = self._freed, time.monotonic() + _PATIENCE_S
        while self._holders and time.monotonic() < until:
            await asyncio.sleep(_PAUSE_S)  # commands of other event loops count too, so no event of this one can tell
            if self._freed != freed:
                return True
        return self._freed != freed


def is_scarce(error: BaseException | None) -> bool:
    """Return whether an error was caused by a limit on descriptors or processes, which frees up when other commands end."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _SCARCE:
            return True
        error = error.__cause__
    return False


SLOTS = Slots()
"""The limits apply to the process, so all its kernels and threads share them."""
