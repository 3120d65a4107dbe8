"""A process that runs scripts, from the kernel's side."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from codex_framework import CodexError, ThreadContext, ToolError
from codex_framework.contract.roles.commands import RunningCommand
from codex_lib_confinement.standalone import standalone_argv
from codex_plugin_code_mode.nesting import Nesting

__all__ = ["Host", "Listener"]

_START_S = 20.0
"""How long a process may take to start, in seconds."""

_REST_S = 1.0
"""How long a process may take to be ready after a script, in seconds."""

_MOST_READ = 96 << 20
"""Most bytes that a process writes for one script. It bounds scripts to less, so more means that it is no longer itself."""

_CONFINED = ":read-only"
"""The permissions where the process cannot confine itself."""


class Listener(Protocol):
    """Receives the messages of a script."""

    def heard(self, message: list[Any]) -> None:
        """Handle a message. Raises ValueError, TypeError or IndexError if it is invalid."""
        ...

    def lost(self) -> None:
        """Take note that the process has ended."""
        ...


class Host:
    """One process. It runs one script at a time.

    Args:
        folder: The folder that the engine's package is in.
        rest: Called when it is ready for another script after one, and when it has ended.
    """

    def __init__(self, thread: ThreadContext, folder: str, rest: Callable[[Host], None]) -> None:
        self._thread = thread
        self._folder = folder
        self._rest = rest
        self._process: RunningCommand | None = None
        self._ready = asyncio.Event()
        self._listener: Listener | None = None
        self._nesting: Nesting | None = None
        self._known: dict[str, str] = {}
        self._read = 0
        self._overdue: asyncio.TimerHandle | None = None
        self._stderr = b""
        self.ended = False

    @property
    def ready(self) -> bool:
        """Whether it can run a script."""
        return self._ready.is_set() and not self.ended

    @property
    def finishing(self) -> bool:
        """Whether its script has told its end, and it is not ready yet."""
        return self._overdue is not None and not self.ended

    async def wait_until_idle(self) -> None:
        """Wait until it is ready or has ended."""
        await self._ready.wait()

    async def start(self) -> None:
        """Start the process, and wait until it is ready.

        Raises:
            ToolError: It cannot be started, or not confined.
        """
        from codex_plugin_code_mode.engine import host

        argv = (*standalone_argv(host.__file__), self._folder)
        permissions = None if sys.platform.startswith("linux") else _CONFINED
        self._process = await self._thread.start_process(
            argv, permissions=permissions, inherit_env=False, lossless=True, grace_s=0
        )
        if self.ended:  # closed in the meantime
            await self._process.kill()
            raise ToolError("the thread has ended")
        self._thread.background(self._reading(self._process), name="script output")
        try:
            async with asyncio.timeout(_START_S):
                await self._ready.wait()
        except TimeoutError:
            await self.kill()
        if not self.ready:
            told = self._stderr.decode("utf-8", "replace").strip().splitlines()
            why = f": {told[-1]}" if told else ""
            raise ToolError(f"the process that runs scripts could not be started{why}")

    async def run(self, source: str, nesting: Nesting, stored: Mapping[str, str], listener: Listener) -> None:
        """Run a script.

        Raises:
            ToolError: The process has ended.
        """
        self._ready.clear()
        self._listener, self._read = listener, 0
        new = {key: text for key, text in stored.items() if self._known.get(key) is not text}
        message: dict[str, Any] = {"source": source, "stored": new}
        if nesting is not self._nesting:
            message["tools"], self._nesting = nesting.for_engine, nesting
        self._known = dict(stored)
        await self._write(message)

    async def answer(self, listener: Listener, call: int, value: str, *, ok: bool) -> None:
        """Answer a call of a script, if that is still running."""
        if self._listener is listener:
            with contextlib.suppress(CodexError):  # the process has ended, which the script is told
                await self._write({"call": call, "ok": ok, "value": value})

    def stored(self, listener: Listener, refusal: str | None) -> None:
        """Answer a script that wants to store a value and waits. None if it is stored."""
        if self._listener is listener:
            self._thread.background(self._told(refusal), name="answer to a script")

    async def _told(self, refusal: str | None) -> None:
        with contextlib.suppress(CodexError):  # as above
            await self._write({"refusal": refusal})

    async def kill(self) -> None:
        """End the process."""
        self._end()
        if self._process is not None:
            await self._process.kill()

    async def _write(self, message: Mapping[str, Any]) -> None:
        if self.ended or self._process is None:
            raise ToolError("the process that runs scripts has ended")
        await self._process.write((json.dumps(message) + "\n").encode())

    async def _reading(self, process: RunningCommand) -> None:
        begun = bytearray()
        try:
            async for chunk in process.chunks():
                if chunk.stream == "stderr":
                    self._stderr = (self._stderr + chunk.data)[-4000:]
                    continue
                self._read += len(chunk.data)
                if self._read > _MOST_READ:
                    break
                *lines, rest = chunk.data.split(b"\n")
                for line in lines:
                    begun += line
                    self._heard(bytes(begun))
                    begun.clear()
                begun += rest
        except (ValueError, TypeError, IndexError, RecursionError):
            pass  # it does not write what it should, so nothing more of it is read
        finally:
            self._end()
            with contextlib.suppress(CodexError):
                await process.kill()

    def _heard(self, line: bytes) -> None:
        message = json.loads(line)
        if not isinstance(message, list) or not message:
            raise TypeError("a message is a list")
        if message[0] != "ready":
            if self._listener is not None:
                self._listener.heard(message)
                if message[0] in ("done", "failed"):
                    self._listener = None
                    loop = asyncio.get_running_loop()
                    self._overdue = loop.call_later(_REST_S, self._background_kill)
            return
        if sys.platform.startswith("linux") and message[1] is not True:
            self._stderr = b"this system has no system-call filters, so the process cannot be confined"
            raise ValueError("it is not confined")
        if self._listener is not None:
            raise ValueError("the script has not ended")
        self._ready.set()
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
            self._rest(self)

    def _background_kill(self) -> None:
        """End the process, because its script continues although it should have ended."""
        self._thread.background(self.kill(), name="script that does not end")

    def _end(self) -> None:
        if self.ended:
            return
        self.ended = True
        self._ready.set()
        if self._overdue is not None:
            self._overdue.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.lost()
        self._rest(self)
