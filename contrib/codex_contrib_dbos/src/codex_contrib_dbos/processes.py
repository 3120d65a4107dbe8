"""Workers that a program starts on its own machine. They end with it, because the pipe to them ends."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress

from codex_framework.contract.roles.launchers import LaunchError, Workplace
from codex_lib_launch.encoding import encode

__all__ = ["READY", "LocalWorkers"]

READY = b"ready\n"
_END_S = 5.0
_PAUSE_S = 1.0


class LocalWorkers:
    """Some workers, each of which is replaced when it dies.

    Args:
        on_loss: Called with the executor id of a worker that has died.
    """

    def __init__(self, workplace: Workplace, number: int, *, on_loss: Callable[[str], Awaitable[None]]) -> None:
        self._workplace = workplace
        self._number = number
        self._on_loss = on_loss
        self._running: set[asyncio.subprocess.Process] = set()
        self._keeping: list[asyncio.Task[None]] = []
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self._running]

    async def start(self) -> None:
        """Start the workers. Raises LaunchError if one of them does not start."""
        started = await asyncio.gather(*(self._start() for _ in range(self._number)), return_exceptions=True)
        for each in started:
            if isinstance(each, BaseException):
                raise each
            self._keeping.append(asyncio.create_task(self._keep(*each)))

    async def aclose(self) -> None:
        """End the workers, which give their sessions back to the queue."""
        self._closed = True
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        await asyncio.gather(*(self._end(process) for process in list(self._running)))

    async def _start(self) -> tuple[asyncio.subprocess.Process, str]:
        executor_id = str(uuid.uuid4())
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "codex_contrib_dbos.local",
            executor_id,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **self._workplace.environ},
            start_new_session=True,  # ^C is for the program, which ends its workers
        )
        self._running.add(process)
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):
            process.stdin.write(encode(self._workplace).encode() + b"\n")
            await process.stdin.drain()
        told = b""
        try:
            while (line := await process.stdout.readline()) and line != READY:
                told += line
        except asyncio.CancelledError:
            await self._end(process)
            raise
        if line == READY:
            return process, executor_id
        await self._end(process)
        fact = told.decode(errors="replace").strip() or f"it ended with status {process.returncode}"
        raise LaunchError(
            f"a worker did not start: {fact}", hint="Run codex-framework doctor in the folder of the sessions."
        )

    async def _keep(self, process: asyncio.subprocess.Process, executor_id: str) -> None:
        """Replace a worker that dies."""
        while True:
            await process.wait()
            self._running.discard(process)
            with suppress(LaunchError):  # its lease ends later
                await self._on_loss(executor_id)
            while True:
                try:
                    process, executor_id = await self._start()
                    break
                except LaunchError:
                    await asyncio.sleep(_PAUSE_S)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _END_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        self._running.discard(process)
