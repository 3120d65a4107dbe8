"""A thread whose client is at the other end of stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_client_proto.streams import LONGEST_LINE, LineReader, LineWriter
from codex_framework import CodexError, Event, Kernel, Op, ThreadClient
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import ErrorEvent, WarningEvent
from codex_framework.contract.protocol.wire import encode_json, read_op
from codex_framework.contract.roles.scopes import Trace
from codex_framework.toolkit.serving import reserve_streams
from codex_framework.toolkit.terminal_text import printable

__all__ = ["serve"]

_MOST_SUBMISSIONS = 256
"""Submissions that are being handled. Nothing more is read meanwhile."""

_END_S = 5.0
"""How long a client may take to read the rest after a signal, in seconds."""

_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Characters that some readers take for the end of a line."""


def serve(folder: Path, profile: str | None, overrides: Sequence[str], plugin_files: Sequence[Path]) -> int:
    """Run a thread until its client has nothing more to say, and return the exit status.

    The status is 0, 128 + n after a signal, or 1 if the client has stopped reading.

    Raises:
        CodexError: The configuration is invalid, or the thread cannot be started.
    """
    if sys.stdin.isatty():
        fact = "proto reads ops from a pipe, and stdin is a terminal"
        raise CodexError(fact, slug="stdin", hint="To give the model a task, run: codex-framework exec PROMPT")
    config = load_config(cwd=folder, environ=os.environ, profile=profile, overrides=overrides)

    async def run() -> int:
        async with await Kernel.create(config, plugins=plugin_files) as kernel:
            for warning in sorted(set(kernel.registry.warnings)):
                print(f"warning: {printable(warning)}", file=sys.stderr, flush=True)
            thread = await kernel.start_thread(source="cli")
            kinds = {tag: offer.item.op for tag, offer in kernel.registry.ops.items()}
            return await Session(thread, kinds, LineReader(source), LineWriter(sink)).run()

    source, sink = reserve_streams()
    return asyncio.run(run())


class Session:
    """A thread and its client.

    Args:
        kinds: The ops of plugins, by tag.
    """

    def __init__(
        self, thread: ThreadClient, kinds: Mapping[str, type[Op]], reader: LineReader, writer: LineWriter
    ) -> None:
        self._thread = thread
        self._kinds = kinds
        self._reader = reader
        self._writer = writer
        self._events: Any = thread.events()
        self._handling: set[asyncio.Task[None]] = set()
        self._is_behind = False  # the client was too slow, and gets no more events

    async def run(self) -> int:
        """Exchange ops and events to the end, and return the exit status."""
        sending = asyncio.ensure_future(self._send_events())
        serving = asyncio.ensure_future(self._serve())
        with _signals() as signalled:
            ends: list[asyncio.Future[Any]] = [serving, sending, signalled, self._writer.failure]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            is_cut_short = signalled.done() or self._writer.failure.done()
            if is_cut_short:
                await self._thread.interrupt()
            await self._thread.shutdown()
            await asyncio.gather(serving, return_exceptions=True)
            try:
                async with asyncio.timeout(_END_S if is_cut_short else None):
                    await sending
                    await self._writer.end()
            except TimeoutError:
                sending.cancel()
            if signalled.done():
                return 128 + signalled.result()
        if not serving.cancelled():
            serving.result()  # a defect of this program is raised here
        return 1 if self._writer.failure.done() or self._is_behind else 0

    async def _send_events(self) -> None:
        async for event in self._events:
            self._is_behind = isinstance(event.msg, WarningEvent) and event.msg.slug == "listener-behind"
            await self._send(event)

    async def _send(self, event: Event) -> None:
        text = encode_json(event).translate(_LINE_ENDS)
        try:
            line = text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, of output of the model that was cut
            line = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        await self._writer.put(line)

    async def _serve(self) -> None:
        """Handle the client's messages, and then let the running turn end."""
        async for line in self._reader.lines():
            await self._writer.room()
            if len(self._handling) >= _MOST_SUBMISSIONS:
                await asyncio.wait(self._handling, return_when=asyncio.FIRST_COMPLETED)
            await self._take(line)
        if self._handling:
            await asyncio.wait(self._handling)
        self._events.answers = False  # nobody can answer any longer
        for request in self._thread.open_requests:
            self._thread.answer(request.request_id, request.unattended())
        with contextlib.suppress(CodexError):  # there was no turn
            await self._thread.settled()

    async def _take(self, line: bytes | None) -> None:
        """Submit the op of a line. An unreadable line is answered with an error."""
        submission = ""
        try:
            if line is None:
                raise ValueError(f"the line has more than {LONGEST_LINE} bytes")
            message = _read(line)
            submission = str(message["id"])
            op = read_op(message["op"], self._kinds)
            trace = Trace(**message["trace"]) if message.get("trace") else None
        except CodexError as error:
            await self._refuse(submission, f"{error}" + (f". {error.hint}" if error.hint else ""))
        except (ValueError, TypeError, RecursionError) as error:
            await self._refuse(submission, str(error) or type(error).__name__)
        else:
            task = asyncio.ensure_future(self._submit(submission, op, trace))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _submit(self, submission: str, op: Op, trace: Trace | None) -> None:
        try:
            await self._thread.submit(op, id=submission, trace=trace)
        except CodexError as error:  # the thread has been shut down
            await self._refuse(submission, str(error))

    async def _refuse(self, submission: str, why: str) -> None:
        await self._send(Event(submission, ErrorEvent(f"invalid submission: {why}", "bad_request")))


def _read(line: bytes) -> Mapping[str, Any]:
    """Return a submission. Raises ValueError if the line is invalid."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not a value of JSON")

    message = json.loads(line, parse_constant=refuse)
    if not isinstance(message, dict):
        raise ValueError("it is not an object")
    if not isinstance(message.get("id"), str):
        raise ValueError("its `id` is not a string")
    if not isinstance(message.get("op"), dict):
        raise ValueError("its `op` is not an object")
    return message


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Future[int]]:
    """Catch the signals that end the process. The result is the first one's number; the second ends the process immediately."""
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def on_signal(number: int) -> None:
        if signalled.done():
            os._exit(128 + number)
        signalled.set_result(number)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield signalled
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
