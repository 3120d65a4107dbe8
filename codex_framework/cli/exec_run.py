"""The run of ``exec``: a kernel, a thread, a turn, its events on the way out, and signals."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from codex_framework.cli.exec import exec_input, exec_settings
from codex_framework.cli.exec_options import ExecOptions
from codex_framework.cli.jsonl import JsonEvents, json_line
from codex_framework.config import Config, Settings
from codex_framework.errors import CodexError, ThreadError
from codex_framework.headless import denial, question
from codex_framework.kernel import Kernel
from codex_framework.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ApprovalEvent,
    ErrorEvent,
    EventMsg,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
    TurnCompleteEvent,
    WarningEvent,
)
from codex_framework.thread import Thread
from codex_framework.user_input import check_length

__all__ = ["run_exec"]

_UNSAVED = "Failed to save the conversation transcript"


class Output(Protocol):
    """Shows a run to whoever started it."""

    def started(self, thread: Thread, settings: Settings, prompt: str) -> None:
        """The thread exists."""
        ...

    def event(self, msg: EventMsg) -> None:
        """Something has happened."""
        ...

    def warn(self, message: str) -> None:
        """Something is amiss that belongs to no turn."""
        ...

    def ended(self, final_message: str | None) -> None:
        """The turn is over."""
        ...


class JsonOutput:
    """Lines of JSON on stdout, each written at once."""

    def __init__(self) -> None:
        self._events = JsonEvents()
        self._stream = sys.stdout.buffer

    def started(self, thread: Thread, settings: Settings, prompt: str) -> None:  # noqa: ARG002  # the protocol's
        """Tell the thread's id."""
        self._write(self._events.thread_started(thread.id))

    def event(self, msg: EventMsg) -> None:
        """Tell what follows from it."""
        for event in self._events.of(msg):
            self._write(event)

    def warn(self, message: str) -> None:
        """On stderr: the stream of the turn has been closed."""
        print(f"warning: {message}", file=sys.stderr, flush=True)

    def ended(self, final_message: str | None) -> None:
        """All has been said."""

    def _write(self, event: Mapping[str, Any]) -> None:
        self._stream.write(json_line(event))
        self._stream.flush()


class PeopleOutput:
    """Progress on stderr, the final message on stdout."""

    def __init__(self, settings: Settings, colour: str) -> None:
        from codex_framework.cli.human import HumanOutput

        terminal = sys.stderr.isatty()
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self._out = HumanOutput(
            sys.stderr,
            colour=colour == "always" or (colour == "auto" and terminal and not plain),
            live=terminal,
            reasoning=not settings.hide_agent_reasoning,
        )

    def started(self, thread: Thread, settings: Settings, prompt: str) -> None:
        """Print the banner."""
        self._out.banner(settings, thread.id, prompt)

    def event(self, msg: EventMsg) -> None:
        """Show it."""
        self._out.show(msg)

    def warn(self, message: str) -> None:
        """Show it."""
        self._out.warn(message)

    def ended(self, final_message: str | None) -> None:
        """Print the message on stdout, unless the person has just read it in the same place."""
        self._out.ended()
        if final_message is not None and not (sys.stdout.isatty() and sys.stderr.isatty()):
            print(final_message, flush=True)


class Stop:
    """A signal that has come: what it asks for, and the exit status that tells of it."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._thread: Thread | None = None
        self._stopping: asyncio.Task[None] | None = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen to the signals that end a run: 1 for ^C (as Codex), 128 + n for the others. Ignored ones stay so (nohup)."""
        for number, status in ((signal.SIGINT, 1), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            with contextlib.suppress(ValueError):  # not on the main thread: then nobody sends us any
                loop.add_signal_handler(number, self._come, status)

    def guard(self, thread: Thread) -> None:
        """Stop this thread's turn when the time comes, at once if it has come already."""
        self._thread = thread
        if self.status is not None:
            self._interrupt()

    def _come(self, status: int) -> None:
        if self.status is not None and status == 1:
            os._exit(130)  # asked twice: the person does not want to wait for a proper end
        self.status = self.status or status
        self._interrupt()

    def _interrupt(self) -> None:
        if self._thread is not None and self._stopping is None:
            self._stopping = asyncio.ensure_future(self._thread.interrupt())

    async def done(self) -> None:
        """Wait until what was begun has ended."""
        if self._stopping is not None:
            await self._stopping


def run_exec(options: ExecOptions, config: Config, prompt: str, schema: Mapping[str, Any] | None) -> int:
    """Run one turn; the exit status: 0, 1 where it failed or was interrupted, 128 + n after another signal.

    Raises:
        CodexError: It could not begin, or the conversation could not be saved.
    """
    check_length(len(prompt))
    return asyncio.run(_run(options, config, prompt, schema))


async def _run(options: ExecOptions, config: Config, prompt: str, schema: Mapping[str, Any] | None) -> int:
    stop = Stop()
    stop.watch(asyncio.get_running_loop())
    async with await Kernel.create(config) as kernel:
        settings = exec_settings(kernel, options)
        thread = await _thread(kernel, options, settings)
        output: Output = (
            JsonOutput() if options.flag("json") else PeopleOutput(settings, options.text("color") or "auto")
        )
        stop.guard(thread)
        gc.freeze()  # what start-up has made stays to the end; from here on there may be cycles to look for
        gc.enable()
        try:
            output.started(thread, settings, prompt)
            turn = Turn(thread, output)
            if stop.status is None:
                await turn.follow(options, prompt, schema, stop)
            output.ended(turn.final_message)
            unsaved = await _close(thread, output)
        except BrokenPipeError:
            # Nobody reads any more. The turn is stopped, and what it did is kept.
            await _quietly(thread.interrupt())
            raise
        await stop.done()
    _keep_last_message(options.text("output_last_message"), turn.final_message)
    if unsaved is not None:
        raise ThreadError(
            unsaved, slug="unsaved", hint="See to it that $CODEX_HOME can be written, or give --ephemeral."
        )
    return stop.status or (1 if turn.failed else 0)


async def _thread(kernel: Kernel, options: ExecOptions, settings: Settings) -> Thread:
    originator = os.environ.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE") or "codex_exec"
    if not options.resume:
        source = options.text("thread_source")
        extra = {} if source is None else {"thread_source": source}
        return await kernel.start_thread(settings, source="exec", originator=originator, extra=extra)
    thread_id = options.thread
    if thread_id is None:
        thread_id = kernel.latest_thread(cwd=None if options.flag("all") else settings.cwd)
    if thread_id is None:
        hint = "Give --all for those of other folders." if not options.flag("all") else "Start one with exec PROMPT."
        raise ThreadError(
            f"there is no thread to resume in {kernel.config.codex_home}", slug="thread-not-found", hint=hint
        )
    return await kernel.resume_thread(thread_id, settings, originator=originator)


class Turn:
    """Follows the turn to its end."""

    def __init__(self, thread: Thread, output: Output) -> None:
        self.final_message: str | None = None
        self.failed = True
        self._thread = thread
        self._output = output

    async def follow(self, options: ExecOptions, prompt: str, schema: Mapping[str, Any] | None, stop: Stop) -> None:
        """Run it."""
        error = False
        stream = self._thread.stream(exec_input(options, prompt), output_schema=schema)
        async with contextlib.aclosing(stream):  # type: ignore[type-var]  # an async generator, typed as an iterator
            async for msg in stream:
                self._output.event(msg)
                match msg:
                    case ErrorEvent():
                        error = True
                    case TurnCompleteEvent(last_agent_message=message):
                        self.failed = error
                        self.final_message = None if error else message
                    case ExecApprovalRequestEvent() | ApplyPatchApprovalRequestEvent() | RequestPermissionsEvent():
                        await self._deny(msg)
                    case _:
                        pass
        await stop.done()

    async def _deny(self, msg: ApprovalEvent) -> None:
        """Nobody is there to answer: the answer is no, at once and visibly."""
        self._tell(f"denied, since nobody can be asked in exec: {question(msg)}")
        await self._thread.submit(denial(msg))

    def _tell(self, message: str) -> None:
        self._output.event(WarningEvent(message))


async def _close(thread: Thread, output: Output) -> str | None:
    """Shut the thread down and show what it has to say; why it could not be saved, if so."""
    rest = thread.events()
    await thread.shutdown()
    unsaved = None
    async for event in rest:
        if isinstance(event.msg, WarningEvent):
            if event.msg.message.startswith(_UNSAVED):
                unsaved = event.msg.message
            else:
                output.warn(event.msg.message)
    return unsaved


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(CodexError):
        await work


def _keep_last_message(path: str | None, message: str | None) -> None:
    if path is None:
        return
    try:
        Path(path).write_text(message or "", "utf-8")
    except OSError as error:
        raise CodexError(
            f"Failed to write last message file {path!r}: {error.strerror}",
            slug="output-last-message",
            hint="Name a file in a folder that can be written with -o.",
        ) from error
    if message is None:
        print(f"Warning: no last agent message; wrote empty content to {path}", file=sys.stderr)
