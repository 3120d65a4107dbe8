"""Processes of an exec-server, as if they were processes of this machine."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from codex_framework import ChildProcess
from codex_framework.contract.roles.sandboxes import Launch
from codex_plugin_environments.peer import RemoteError

__all__ = ["RemoteProcess"]

_LOST = 255
"""The exit status of a process whose end is not known, as of ``ssh``."""

_GREATEST = 255
"""The greatest exit status of a POSIX system."""

_END_S = 10.0
"""How long the server may take to end a process."""

_WRITE_S = 60.0
"""The time limit for the server to accept typed input."""

_READ_BYTES = 1 << 16

_MOST_EARLY = 256
_MOST_EARLY_CHARS = 8 << 20
"""How many messages about a process, and how much output in Base64, may come before its start was confirmed."""


Call = Callable[[str, Mapping[str, Any], float], Awaitable[Mapping[str, Any]]]


class RemoteProcess(ChildProcess):
    """A process of an exec-server. Its output goes to the descriptors of its launch.

    Args:
        call: Calls a method of the server, with a time limit in seconds.
        process_id: The id of the process there.
        launch: Its descriptors are copied.
    """

    def __init__(self, call: Call, process_id: str, launch: Launch) -> None:
        self._call = call
        self._id = process_id
        self._loop = asyncio.get_running_loop()
        self._status: int | None = None
        self._exited = asyncio.Event()
        self._begun = False
        self._early: list[tuple[str, Mapping[str, Any]]] = []
        self._early_chars = 0
        self._caught_up = asyncio.Event()
        self._explanation = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._blocked: asyncio.Future[None] | None = None
        self._terminal: int | None = None
        if launch.tty:
            ours, theirs = socket.socketpair()
            self._terminal = theirs.detach()
            self._typed: int | None = ours.detach()
            self._outputs = {"pty": self._typed}
        else:
            self._typed = None
            self._outputs = {"stdout": os.dup(launch.stdout), "stderr": os.dup(launch.stderr)}
        for fd in self._outputs.values():
            os.set_blocking(fd, False)

    @property
    def pid(self) -> int:
        """Return 0, because it is not on this machine."""
        return 0

    def take_terminal(self) -> int | None:
        """Return this side of the connection that acts as the terminal."""
        terminal, self._terminal = self._terminal, None
        return terminal

    def explain(self) -> str:
        """Return why its end is not known."""
        return self._explanation

    def signal(self, number: int) -> None:
        """Interrupt it, or end it with its descendants."""
        if self._status is None:
            self._spawn(self._interrupt() if number == signal.SIGINT else self._terminate())

    async def wait(self) -> int:
        """Wait for its end."""
        await self._exited.wait()
        assert self._status is not None
        return self._status

    def end_group(self) -> None:
        """Stop reading its output."""
        self.close()

    # For the session

    def begin(self) -> None:
        """Pass on earlier output and typed input. Called when the process has started."""
        if self._typed is not None:
            self._loop.add_reader(self._typed, self._read_typed)
        self._begun = True
        self._spawn(self._catch_up())

    async def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification. Nobody reads the output before the process has been announced as started, so it is kept until then.

        Raises:
            ConnectionError: It is invalid.
        """
        if not self._begun:
            self._early.append((method, params))
            self._early_chars += len(str(params.get("chunk", "")))
            if len(self._early) > _MOST_EARLY or self._early_chars > _MOST_EARLY_CHARS:
                self._early.clear()
                raise ConnectionError(
                    "the server sent output of a command before it had said that the command was started"
                )
            return
        await self._caught_up.wait()
        await self._take(method, params)

    async def _catch_up(self) -> None:
        try:
            for method, params in self._early:
                await self._take(method, params)
        finally:
            self._early.clear()
            self._caught_up.set()

    async def _take(self, method: str, params: Mapping[str, Any]) -> None:
        match method:
            case "process/output":
                await self._pass_on(params.get("stream"), params.get("chunk"))
            case "process/exited":
                self._exit(params.get("exitCode"))
            case "process/closed":
                self._exit(None)
                self.close()
            case _:
                return

    async def _pass_on(self, stream: object, chunk: object) -> None:
        """Pass output on. Returns when the reader has taken it, so that nothing piles up here."""
        fd = self._outputs.get("pty" if self._typed is not None else str(stream))
        try:
            data = memoryview(base64.b64decode(chunk, validate=True))  # type: ignore[arg-type]  # a TypeError
        except (TypeError, ValueError):
            raise ConnectionError(f"the server sent invalid output: {chunk!r:.80}") from None
        while fd is not None and data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                await self._writable(fd)
                fd = fd if fd in self._outputs.values() else None
            except OSError:  # nobody reads it any more
                return

    def _exit(self, code: object) -> None:
        if self._status is None:
            if type(code) is int and 0 <= code <= _GREATEST:
                self._status = code
            else:
                self._status = _LOST
                fact = "The end of the command is not known: the server gave the exit status"
                self._explanation = self._explanation or f"{fact} {code!r:.40}."
            self._exited.set()

    def lost(self, reason: str) -> None:
        """Note that nothing more will be heard of it."""
        if self._status is None:
            self._explanation = f"The end of the command is not known: {reason}."
        self._exit(_LOST)
        self.close()

    def close(self) -> None:
        """Close all descriptors."""
        if self._typed is not None:
            self._loop.remove_reader(self._typed)
        for fd in self._outputs.values():
            self._loop.remove_writer(fd)
            os.close(fd)
        self._outputs = {}
        self._typed = None
        if self._blocked is not None:
            _resolve(self._blocked)
        if (terminal := self.take_terminal()) is not None:
            os.close(terminal)

    async def _writable(self, fd: int) -> None:
        blocked = self._blocked = self._loop.create_future()
        self._loop.add_writer(fd, _resolve, blocked)
        try:
            await blocked
        finally:
            if fd in self._outputs.values():
                self._loop.remove_writer(fd)

    def _read_typed(self) -> None:
        assert self._typed is not None
        try:
            data = os.read(self._typed, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._loop.remove_reader(self._typed)
        if data:
            self._spawn(self._type(data))

    async def _type(self, data: bytes) -> None:
        chunk = base64.b64encode(data).decode("ascii")
        params = {"processId": self._id, "chunk": chunk, "writeId": uuid.uuid4().hex}
        await self._call("process/write", params, _WRITE_S)
        if self._typed is not None:  # only now, so that what is typed waits here rather than there
            self._loop.add_reader(self._typed, self._read_typed)

    async def _interrupt(self) -> None:
        await self._call("process/signal", {"processId": self._id, "signal": "interrupt"}, _END_S)

    async def _terminate(self) -> None:
        await self._call("process/terminate", {"processId": self._id}, _END_S)
        try:
            async with asyncio.timeout(_END_S):
                await self._exited.wait()
        except TimeoutError:
            self.lost(f"the server did not end it within {_END_S:g} s")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._contained(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _contained(self, work: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(RemoteError):  # it has ended meanwhile
            try:
                await work
            except ConnectionError as error:
                self.lost(str(error))


def _resolve(blocked: asyncio.Future[None]) -> None:
    if not blocked.done():
        blocked.set_result(None)
