"""A command in a container: the engine's client outside, and the command's process id inside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from codex_contrib_docker.arguments import kill_words
from codex_contrib_docker.engine import Engine
from codex_framework import ChildProcess

__all__ = ["DockerProcess"]

_SIGNALLED = 128
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05
_GONE_S = 5.0
"""How long the client may take to notice that its command was killed, in seconds."""


class DockerProcess(ChildProcess):
    """A started command.

    Args:
        client: The engine's ``exec``, which leads a session outside.
        container: The container's name.
        status: The file in which the command reports its process id, or the reason why it cannot be started.
        ended: Called once, when everything has ended.
    """

    def __init__(
        self, engine: Engine, client: asyncio.subprocess.Process, container: str, status: str, ended: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._client = client
        self._container = container
        self._status = status
        self._said = ""
        self._inner: int | None = None
        self._signals: asyncio.Queue[int] = asyncio.Queue()
        self._on_end = ended
        self._sender: asyncio.Task[None] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._watcher = asyncio.create_task(self._watch())

    @property
    def pid(self) -> int:
        """The client's process id, because the command's id has no meaning outside."""
        return self._client.pid

    def signal(self, number: int) -> None:
        """Send a signal to the command's group by another ``exec``, so it arrives a little later. Nothing happens after the end."""
        if self._watcher.done():
            return
        self._signals.put_nowait(number)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())

    async def wait(self) -> int:
        """Return the status (negative N: ended by signal N).

        An engine reports both ``exit 137`` and SIGKILL as 137; here both are -9.
        """
        status = await asyncio.shield(self._watcher)
        ended_by = status - _SIGNALLED
        return -ended_by if ended_by in signal.valid_signals() else status

    async def started(self, within_s: float) -> str:
        """Wait for the command's report of its start.

        Returns:
            ``""`` once it has been started; ``missing``, ``refused`` or ``folder`` if it cannot be started; ``ended`` if the
            client has ended without a report; ``late`` after the time limit.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        pause = _FIRST_PAUSE_S
        while loop.time() < until:
            word = self._word()
            if word or self._watcher.done():
                return "" if self._inner is not None else word or "ended"
            await asyncio.wait((self._watcher,), timeout=pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return "late"

    async def abandon(self) -> None:
        """End it, in any state."""
        if self._inner is not None:
            self.signal(signal.SIGKILL)
        else:
            with contextlib.suppress(ProcessLookupError):
                self._client.kill()
        await self.wait()

    async def aclose(self) -> None:
        """Wait until all its work has ended. Call it after the end of the container."""
        with contextlib.suppress(ProcessLookupError):
            if self._client.returncode is None and not await self._gone(_GONE_S):
                self._client.kill()
        await self.wait()
        under_way = [task for task in (self._sender, self._sweeper) if task is not None]
        if under_way:
            await asyncio.wait(under_way)

    def _word(self) -> str:
        """Return the command's report."""
        if not self._said:
            self._said = self._read()
            if self._said.isdecimal():
                self._inner = int(self._said)
        return self._said

    def _read(self) -> str:
        """Return the content of the file. Commands may write it, so it is not trusted."""
        try:
            descriptor = os.open(self._status, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            return os.read(descriptor, 32).decode("ascii", "replace").strip()
        except OSError:
            return ""
        finally:
            os.close(descriptor)

    async def _send(self) -> None:
        while not self._signals.empty():
            number = self._signals.get_nowait()
            if self._inner is not None:
                await self._engine.call(*kill_words(self._container, self._inner, number))
            if number == signal.SIGKILL and not await self._gone(_GONE_S):
                with contextlib.suppress(ProcessLookupError):
                    self._client.kill()  # the engine does not respond, or another process keeps the output open

    async def _gone(self, within_s: float) -> bool:
        done, _ = await asyncio.wait((self._watcher,), timeout=within_s)
        return bool(done)

    async def _watch(self) -> int:
        status = await self._client.wait()
        self._word()  # before the file is removed
        self._sweeper = asyncio.create_task(self._sweep())
        return status

    async def _sweep(self) -> None:
        """End the processes that the command has left in its group, without waiting for this."""
        if self._inner is not None:
            await self._engine.call(*kill_words(self._container, self._inner, signal.SIGKILL))
        self._on_end()
