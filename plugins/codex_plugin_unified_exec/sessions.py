"""Sessions: commands that outlive the call that started them, by their id for the model."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator

from codex_framework import ToolContext, ToolError
from codex_framework.contract.roles.commands import RunningCommand

__all__ = ["Session", "Sessions", "sessions_of", "wait_for_end"]

MOST = 64
"""Maximum number of sessions of a thread (Codex's)."""

_PROTECTED = 8
"""Number of the most recently used sessions, which are never ended to make room (Codex's)."""

_IDS = (1000, 99_999)
"""Range of session ids (Codex's)."""


class Session:
    """One running command.

    Attributes:
        id: The session id that the model knows.
        call_id: The id of the call that started it, which clients know.
        script: The script that it runs.
        cwd: The folder in which it was started.
        used: The value of a counter at its last use.
    """

    def __init__(
        self, number: int, running: RunningCommand, *, tty: bool, call_id: str, script: str, cwd: str, used: int
    ) -> None:
        self.id = number
        self.running = running
        self.tty = tty
        self.call_id = call_id
        self.script = script
        self.cwd = cwd
        self.used = used

    @property
    def process_id(self) -> int:
        """The id of the process, by which clients know it. For a process of another machine, the session id."""
        return self.running.process_id or self.id


class Sessions:
    """All sessions of a thread."""

    def __init__(self) -> None:
        self._by_id: dict[int, Session] = {}
        self._clock: Iterator[int] = itertools.count(1)

    def __len__(self) -> int:
        return len(self._by_id)

    async def keep(
        self, running: RunningCommand, *, tty: bool, call_id: str, script: str = "", cwd: str = ""
    ) -> Session:
        """Create a session for a running command. If there are too many, the least useful one is ended."""
        number, used = self._free_id(), next(self._clock)
        session = Session(number, running, tty=tty, call_id=call_id, script=script, cwd=cwd, used=used)
        self._by_id[session.id] = session
        if len(self._by_id) > MOST:
            await self._end_one()
        return session

    def use(self, session_id: int) -> Session:
        """Return the session with this id.

        Raises:
            ToolError: The session does not exist.
        """
        session = self._by_id.get(session_id)
        if session is None:
            raise ToolError(f"write_stdin failed: Unknown process id {session_id}")
        session.used = next(self._clock)
        return session

    def running(self) -> list[Session]:
        """Return the sessions whose commands have not ended, by the ids of their processes."""
        found = (session for session in self._by_id.values() if session.running.exit_code is None)
        return sorted(found, key=lambda session: session.process_id)

    def drop(self, session: Session) -> None:
        """Forget a session whose command has ended."""
        self._by_id.pop(session.id, None)

    async def aclose(self) -> None:
        """End all commands."""
        sessions = list(self._by_id.values())
        self._by_id.clear()
        await asyncio.gather(*(session.running.kill() for session in sessions))

    def _free_id(self) -> int:
        while True:
            number = _IDS[0] + int.from_bytes(os.urandom(4)) % (_IDS[1] - _IDS[0] + 1)
            if number not in self._by_id:
                return number

    async def _end_one(self) -> None:
        by_use = sorted(self._by_id.values(), key=lambda session: session.used)
        candidates = by_use[:-_PROTECTED]
        ended = (session for session in candidates if session.running.exit_code is not None)
        victim = next(ended, candidates[0])
        del self._by_id[victim.id]
        await victim.running.kill()


def sessions_of(context: ToolContext) -> Sessions:
    """Return the sessions of the call's thread."""
    return context.state(Sessions, Sessions)


async def wait_for_end(running: RunningCommand, milliseconds: int) -> int | None:
    """Wait for the end of a command with a time limit. Return its exit code, or None if it is still running."""
    try:
        async with asyncio.timeout(milliseconds / 1000):
            return (await running.wait()).exit_code
    except TimeoutError:
        return None
