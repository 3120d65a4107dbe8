"""The program: runs one script after the other, each in its own realm.

It reads and writes lines of JSON. The kernel's side of them is :mod:`codex_plugin_code_mode.host`; both treat what they read as
data. A script reaches this side by one function with strings and numbers as arguments, and every line is written here, so that
no text of a script can form a line.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import sys
import time
from collections import deque
from typing import Any

from codex_plugin_code_mode.engine.faults import compile_fault, script_fault
from codex_plugin_code_mode.engine.lockdown import limit_cpu, lock_down
from codex_plugin_code_mode.engine.realm import FIRST_LINE, REALM

__all__ = ["main"]

_MEMORY = 256 << 20
_STACK = 512 << 10
"""Most memory and stack of a script, in bytes."""

_CPU_S = 30
"""Most processor time of a script, in seconds."""

_TEXT = 4 << 20
_TEXTS = 100_000
_IMAGES = 32 << 20
"""Maximum output of a script: bytes of text, texts, and bytes of images and stored values. Output beyond that is counted and
omitted; values to store are refused.
"""

_CALLS = 10_000
"""Most calls of tools by a script."""

_TIMERS = 100_000


class _Lines:
    """Lines from standard input."""

    def __init__(self) -> None:
        self._read = bytearray()
        self._searched = 0
        self._early: deque[dict[str, Any]] = deque()

    def next(self, until: float | None = None) -> dict[str, Any] | None:
        """Return the next line as JSON, or None if the time is over. Ends the program at the end of the input."""
        return self._early.popleft() if self._early else self._next(until)

    def answer(self, key: str) -> Any:
        """Return the value of a key, which the kernel's side sends immediately. Other messages before it are kept for later."""
        while (message := self._next()) is None or key not in message:
            if message is not None:
                self._early.append(message)
        return message[key]

    def _next(self, until: float | None = None) -> dict[str, Any] | None:
        while (end := self._read.find(b"\n", self._searched)) < 0:
            self._searched = len(self._read)
            if until is not None:
                left = until - time.monotonic()
                if left <= 0 or not select.select([0], [], [], left)[0]:
                    return None
            piece = os.read(0, 1 << 20)
            if not piece:
                os._exit(0)
            self._read += piece
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        self._searched = 0
        message: dict[str, Any] = json.loads(line)
        return message


def _write(*message: Any) -> None:
    data = memoryview((json.dumps(message) + "\n").encode())
    while data:
        data = data[os.write(1, data) :]


class _Script:
    """One run of a script."""

    def __init__(self, engine: Any, lines: _Lines, source: str, tools: dict[str, Any], stored: dict[str, str]) -> None:
        self._lines = lines
        self._source = source
        self._tools = tools
        self._stored = stored
        self._ended = False
        self._timers: list[tuple[float, int]] = []
        self._left = [_TEXT, _TEXTS, _IMAGES, _CALLS]
        self._context = engine.Context()
        self._context.set_memory_limit(_MEMORY)
        self._context.set_max_stack_size(_STACK)
        self._context.add_callable("__send", self._send)
        self._enter = self._context.eval("\n" * FIRST_LINE + REALM)
        self._enter("tools", json.dumps(tools["kinds"]))

    def run(self, failure: type[Exception]) -> None:
        """Run the script until it has ended, failed or called ``exit``."""
        try:
            self._enter("watch", self._context.module(self._source))
        except failure as error:
            if not self._ended:
                self._fail(compile_fault(str(error)))
        while not self._ended:
            try:
                while self._context.execute_pending_job():
                    pass
                if not self._ended:
                    self._step()
            except failure as error:  # of a job: nobody can catch it, so the script fails
                if not self._ended:
                    self._fail(str(error).strip())

    def _step(self) -> None:
        """Wait for an answer or a timer, and continue with it."""
        message = self._lines.next(self._timers[0][0] if self._timers else None)
        if message is not None:
            self._enter("settle", message["call"], message["ok"], message["value"])
        elif self._timers:
            self._enter("fire", heapq.heappop(self._timers)[1])

    def _send(self, what: str, *given: Any) -> str | bool | None:
        """Handle a script's message. The arguments are strings and numbers. Returns True if the script has ended and must stop.

        Nothing may be raised here: the engine would lose it.
        """
        if self._ended:
            return True
        match what:
            case "load":
                return self._stored.get(given[0])
            case "all_tools":
                return str(self._tools["all"])
            case "timer":
                if len(self._timers) < _TIMERS:
                    heapq.heappush(self._timers, (time.monotonic() + min(float(given[1]) / 1000, 1e6), int(given[0])))
            case "text":
                self._forward_bounded(("text", given[0]), len(given[0]), 0)
            case "image":
                self._forward_bounded(("image", given[0]), len(given[0]), 2)
            case "call":
                return self._call(*given)
            case "failed":
                self._fail(script_fault(given[0], given[1], self._source.split("\n")))
            case "done":
                self._ended = True
                _write("done")
                return True
            case "store":
                return self._store(*given)
            case _:
                self._forward_bounded((what, *given), sum(map(len, given)), 2)
        return None

    def _store(self, key: str, text: str) -> str | None:
        """Keep a value if the kernel's side does. Return why not."""
        self._left[2] -= len(key) + len(text)
        if self._left[2] < 0:
            return f"a script can store and put out {_IMAGES >> 20} MB besides text"
        _write("store", key, text)
        refusal: str | None = self._lines.answer("refusal")
        if refusal is None:
            self._stored[key] = text
        return refusal

    def _forward_bounded(self, message: tuple[str, ...], size: int, room: int) -> None:
        """Forward output while there is room for it."""
        self._left[1] -= 1
        self._left[room] -= size
        if self._left[1] >= 0 and self._left[room] >= 0:
            _write(*message)
        elif self._left[1] >= -1:
            _write("omitted", message[0], size)

    def _call(self, number: int, name: str, given: str) -> str | None:
        """Pass a call on. Return why not, if there are too many."""
        self._left[3] -= 1
        if self._left[3] < 0:
            return f"a script can call tools {_CALLS} times"
        _write("call", number, name, given)
        return None

    def _fail(self, text: str) -> None:
        self._ended = True
        _write("failed", text[:_TEXT])


def main(arguments: list[str]) -> int:
    """Run scripts until the input ends.

    Args:
        arguments: The folder of the engine's package.
    """
    sys.path.append(arguments[0])
    import quickjs  # type: ignore[import-not-found, import-untyped, unused-ignore]  # not at the top: only this process has its folder

    tools: dict[str, Any] = {"kinds": [], "all": "[]"}
    stored: dict[str, str] = {}
    lines = _Lines()
    _write("ready", lock_down())
    while (message := lines.next()) is not None:
        if "source" not in message:
            continue  # an answer to a script that has ended
        tools = message.get("tools", tools)
        stored.update(message["stored"])
        limit_cpu(_CPU_S)
        _Script(quickjs, lines, message["source"], tools, stored).run(quickjs.JSException)
        _write("ready", True)  # noqa: FBT003  # a line
    return 0
