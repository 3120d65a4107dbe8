"""One run of ``exec``: the kernel, thread and turn, the output of events, and signals."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from codex_framework.cli.exec_options import ExecOptions
from codex_framework.cli.jsonl import JsonEvents, json_line
from codex_framework.cli.shutdown import run_loop
from codex_framework.config import Config, Settings
from codex_framework.contract.errors import CodexError, ThreadError
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    EventMsg,
    TurnCompleteEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.ops import ImageInput, LocalImageInput, Op, TextInput, UserInputItem
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.exec_options import ExecThread
from codex_framework.contract.value import Value
from codex_framework.kernel import Kernel
from codex_framework.loader.registry import LazyMapping, Registry
from codex_framework.threads.thread import Thread
from codex_framework.threads.user_input import check_length, data_url
from codex_framework.toolkit.terminal_text import clean, printable

__all__ = ["run_exec"]

_STATUS_S, _STATUS_AFTER_S = 1.0, 1.5
"""Seconds between two updates of the elapsed time on a terminal, and of silence before it is shown."""

_UNSAVED = "Failed to save the conversation transcript"


class OwnStdout:
    """The original stdout of the run.

    A full disk must not cost the run. After a failure nothing more is written, and :meth:`check` raises the failure. Only a
    reader that is gone ends the run.
    """

    def __init__(self, binary: BinaryIO, encoding: str, errors: str | None) -> None:
        self._binary = binary
        self._encoding = encoding
        self._errors = errors or "backslashreplace"
        self._failure: OSError | None = None

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._binary.isatty()

    def write(self, data: bytes) -> None:
        """Write and flush.

        Raises:
            BrokenPipeError: The reader is gone.
        """
        if self._failure is not None:
            return
        try:
            self._binary.write(data)
            self._binary.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self._failure = error

    def check(self) -> None:
        """Check that everything was written.

        Raises:
            OSError: It was not.
        """
        if self._failure is not None:
            raise self._failure

    def line(self, text: str) -> None:
        """Write a line of text and flush it."""
        from codex_framework.cli.last_message import without_surrogates

        text = f"{without_surrogates(text)}\n"
        try:
            data = text.encode(self._encoding, self._errors)
        except UnicodeEncodeError:  # a terminal of another encoding
            data = text.encode(self._encoding, "backslashreplace")
        self.write(data)


@contextlib.contextmanager
def reserve_stdout() -> Iterator[OwnStdout]:
    """Reserve stdout for the block. Until the block ends, file descriptor 1 and ``sys.stdout`` write to stderr."""
    before = sys.stdout
    before.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    stream = open(kept, "wb", closefd=False)  # noqa: SIM115  # closed below, with the descriptor
    try:
        yield OwnStdout(stream, before.encoding, before.errors)
    finally:
        sys.stdout = before
        with contextlib.suppress(OSError):  # the reader is gone, which was already noticed
            stream.close()
        os.dup2(kept, 1)
        os.close(kept)


class Output(Protocol):
    """The output of a run."""

    def start(self, thread: ExecThread, settings: Settings, prompt: str) -> None:
        """Handle the start of the thread."""
        ...

    def show(self, msg: EventMsg) -> None:
        """Handle an event of the turn."""
        ...

    def warn(self, message: str) -> None:
        """Show a problem that belongs to no turn."""
        ...

    def end(self, final_message: str | None) -> None:
        """Handle the end of the turn."""
        ...

    def beats(self, heartbeat_s: float | None) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield a coroutine that shows signs of life until the end of the turn.

        Args:
            heartbeat_s: Seconds of silence after which the output says so, if the user asked for heartbeats.
        """
        ...


class JsonOutput:
    """Output as JSON lines on stdout, each flushed immediately."""

    def __init__(self, thread: ExecThread, event_owners: Mapping[type[EventMsg], str], stdout: OwnStdout) -> None:
        self._events = JsonEvents(lambda: thread.usage, event_owners)
        self._stdout = stdout
        self._last_output_s = self._began = time.monotonic()

    def start(self, thread: ExecThread, settings: Settings, prompt: str) -> None:  # noqa: ARG002  # the protocol's
        """Write the thread's id."""
        self._write(self._events.thread_started(thread.id))

    def show(self, msg: EventMsg) -> None:
        """Write the JSON events for an event of the turn."""
        for event in self._events.of(msg):
            self._write(event)

    def warn(self, message: str) -> None:
        """Write a warning to stderr, because the stream of the turn has ended."""
        print(f"warning: {clean(message)}", file=sys.stderr, flush=True)

    def end(self, final_message: str | None) -> None:
        """Do nothing; the turn's last event was already written."""

    def beats(self, heartbeat_s: float | None) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the writer of heartbeats, if they were asked for."""
        if heartbeat_s is not None:
            from codex_framework.cli.progress import beat

            yield beat(heartbeat_s, lambda: self._last_output_s, self._beat)

    def _beat(self) -> None:
        self._write(self._events.heartbeat(time.monotonic() - self._began))

    def _write(self, event: Mapping[str, Any]) -> None:
        self._last_output_s = time.monotonic()
        self._stdout.write(json_line(event))


class TextOutput:
    """Output as text: progress on stderr, and the final message on stdout."""

    def __init__(self, thread: ExecThread, settings: Settings, colour: str, stdout: OwnStdout) -> None:
        from codex_framework.cli.human import HumanOutput
        from codex_framework.toolkit.terminal_text import is_colour_wanted

        self._thread = thread
        self._stdout = stdout
        terminal = sys.stderr.isatty()
        self._moves = terminal and os.environ.get("TERM") != "dumb"
        self._out = HumanOutput(
            sys.stderr,
            colour=colour == "always" or (colour == "auto" and terminal and is_colour_wanted()),
            live=terminal,
            reasoning=not settings.hide_agent_reasoning,
            raw=settings.show_raw_agent_reasoning,
        )

    def start(self, thread: ExecThread, settings: Settings, prompt: str) -> None:
        """Print the banner."""
        self._out.banner(settings, thread.id, prompt)

    def show(self, msg: EventMsg) -> None:
        """Print an event."""
        self._out.show(msg)

    def warn(self, message: str) -> None:
        """Print a warning."""
        self._out.warn(message)

    def end(self, final_message: str | None) -> None:
        """Print the final message on stdout, unless it was just shown on the same terminal."""
        self._out.ended(self._thread.usage)
        if final_message is None:
            return
        if not self._stdout.isatty():
            self._stdout.line(final_message)
        elif not sys.stderr.isatty():
            self._stdout.line(clean(final_message))

    def beats(self, heartbeat_s: float | None) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what shows the elapsed time on a terminal, or else writes heartbeats, if they were asked for."""
        if not self._moves and heartbeat_s is None:
            return
        from codex_framework.cli.progress import beat

        if self._moves:
            yield self._show_status()
        elif heartbeat_s is not None:
            yield beat(heartbeat_s, lambda: self._out.told_at, self._out.tell_life)

    async def _show_status(self) -> None:
        try:
            while True:
                await asyncio.sleep(_STATUS_S)
                if time.monotonic() - self._out.told_at >= _STATUS_AFTER_S:
                    self._out.show_status()
        finally:
            self._out.clear_status()


class Stop:
    """A received signal, with the exit status that reports it."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._thread: ExecThread | None = None
        self._stopping: asyncio.Task[None] | None = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle the signals that end a run. The status is 128 + n: 130 for ^C, for which Codex has 1.

        Ignored signals stay ignored (nohup).
        """
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            with contextlib.suppress(ValueError):  # not on the main thread, which is the only one that handles signals
                loop.add_signal_handler(number, self._handle_signal, status)

    def guard(self, thread: ExecThread) -> None:
        """Interrupt this thread's turn when a signal arrives, or immediately if one has already arrived."""
        self._thread = thread
        if self.status is not None:
            self._interrupt()

    def _handle_signal(self, status: int) -> None:
        if self.status is not None and status == 130:
            os._exit(130)  # a second ^C: the user does not want to wait for an orderly end
        self.status = self.status or status
        self._interrupt()

    def _interrupt(self) -> None:
        if self._thread is not None and self._stopping is None:
            self._stopping = asyncio.ensure_future(self._thread.interrupt())

    async def done(self) -> None:
        """Wait until a started interruption has finished."""
        if self._stopping is not None:
            await self._stopping


def run_exec(
    options: ExecOptions, config: Config, prompt: str, schema: Mapping[str, Any] | None, op: Op | None = None
) -> int:
    """Run one turn and return the exit status.

    The status is 0, or 1 if the turn failed, or 128 + n after a signal.

    Args:
        op: The op that starts the turn; the prompt is then only shown. Without an op, the prompt is the input.

    Raises:
        CodexError: The turn could not start, or the conversation could not be saved.
        OSError: A part of the output was lost.
    """
    check_length(len(prompt))
    with reserve_stdout() as stdout:
        return run_loop(_run(options, config, prompt, schema, op, stdout))


def fork_only(options: ExecOptions, config: Config) -> int:
    """Fork a thread without running a turn, print the id of the new thread, and return the exit status.

    Raises:
        CodexError: The thread cannot be forked.
    """

    async def fork() -> int:
        async with _fork_thread(options, config) as thread_id:
            if options.flag("json"):
                stdout.write(json_line({"type": "thread.started", "thread_id": thread_id}))
            else:
                stdout.line(thread_id)
            stdout.check()
        return 0

    with reserve_stdout() as stdout:
        return run_loop(fork())


@contextlib.asynccontextmanager
async def _fork_thread(options: ExecOptions, config: Config) -> AsyncIterator[str]:
    """Fork a thread, and yield the id of the new one."""
    if options.opening is not None:
        async with _open_elsewhere(options, config) as place:
            yield place.thread.id
        return
    async with await Kernel.create(config, plugins=_plugin_files(options)) as kernel:
        yield _thread_id(kernel, options, kernel.settings())


async def _run(
    options: ExecOptions,
    config: Config,
    prompt: str,
    schema: Mapping[str, Any] | None,
    op: Op | None,
    stdout: OwnStdout,
) -> int:
    stop = Stop()
    stop.watch(asyncio.get_running_loop())
    async with (_open_here if options.opening is None else _open_elsewhere)(options, config) as place:
        thread = place.thread
        output: Output = (
            JsonOutput(thread, place.event_owners, stdout)
            if options.flag("json")
            else TextOutput(thread, thread.settings, options.text("color") or "auto", stdout)
        )
        known = set(place.warnings())
        stop.guard(thread)
        gc.freeze()  # objects from start-up live to the end; only later objects can form cycles
        gc.enable()
        try:
            turn = Turn(thread, output, lambda: output.start(thread, thread.settings, prompt))
            if stop.status is None:
                async with _beating(output, options.heartbeat_s):
                    if op is None:
                        events = thread.stream(_exec_input(options, prompt), output_schema=schema, answers=False)
                    else:
                        events = thread.follow(op, answers=False)
                    await turn.follow(events, stop)
            output.end(turn.final_message)
            unsaved = await _close(thread, output)
        except BrokenPipeError:
            # The reader has gone. The turn is stopped, and its work is saved.
            await _ignore_errors(thread.interrupt())
            raise
        await stop.done()
    for warning in place.warnings():  # what a plugin did wrong when it was closed
        if warning not in known:
            output.warn(warning)
    if target := options.text("output_last_message"):
        from codex_framework.cli.last_message import write_last_message

        write_last_message(target, turn.final_message)
    if unsaved is not None:
        raise ThreadError(unsaved, slug="unsaved", hint="Make $CODEX_HOME writable, or add --ephemeral.")
    stdout.check()
    if op is None and stop.status is None and not turn.failed and not (turn.final_message or "").strip():
        raise ThreadError(
            "the turn ended without an answer of the model",
            slug="no-answer",
            hint="Run it again, or ask for the answer with `exec resume --last`.",
        )
    return stop.status or (1 if turn.failed else 0)


class Place(Value):
    """The place where the turn runs: this process or a server.

    Attributes:
        event_owners: The event classes of plugins, each with its plugin's name.
        warnings: Returns the mistakes of plugins so far.
    """

    thread: ExecThread
    event_owners: Mapping[type[EventMsg], str]
    warnings: Callable[[], Sequence[str]]


@contextlib.asynccontextmanager
async def _open_here(options: ExecOptions, config: Config) -> AsyncIterator[Place]:
    """Create a kernel, and start, resume or fork the thread."""
    async with await Kernel.create(config, plugins=_plugin_files(options)) as kernel:
        registry = kernel.registry
        with _explain_failure(registry):
            thread = await _thread(kernel, options, _exec_settings(kernel, options))
        yield Place(thread, LazyMapping(lambda: registry.event_owners), lambda: kernel.registry.warnings)


@contextlib.asynccontextmanager
async def _open_elsewhere(options: ExecOptions, config: Config) -> AsyncIterator[Place]:
    """Open the thread as the option of a plugin does."""
    from codex_framework.cli.plugin_options import command_line_settings
    from codex_framework.contract.roles.exec_options import ExecRun

    assert options.opening is not None
    option, value = options.opening
    run = ExecRun(
        value=option.setting(value),
        config=config.tables,
        given=command_line_settings(config),
        options=options.by_name,
        thread=options.thread,
        resume=options.resume,
        fork=options.fork,
        at=options.at,
    )
    async with option.opened_thread(run) as thread:
        yield Place(thread, {}, tuple)


def _plugin_files(options: ExecOptions) -> list[Path]:
    return [Path(file) for file in options.texts("plugin")]


@contextlib.asynccontextmanager
async def _beating(output: Output, heartbeat_s: float | None) -> AsyncIterator[None]:
    """Show signs of life during the block."""
    tasks = [asyncio.ensure_future(work) for work in output.beats(heartbeat_s)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _explain_failure(registry: Registry) -> Iterator[None]:
    """If the block fails, print the failures of plugins, because a failed plugin may offer the missing object."""
    try:
        yield
    except CodexError:
        for warning in registry.warnings:
            print(f"warning: {printable(warning)}", file=sys.stderr)
        raise


async def _thread(kernel: Kernel, options: ExecOptions, settings: Settings) -> Thread:
    originator = os.environ.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE") or "codex_exec"
    agent = _agent(kernel, options, settings)
    if not options.resume:
        source = options.text("thread_source")
        extra = {} if source is None else {"thread_source": source}
        return await kernel.start_thread(settings, agent=agent, source="exec", originator=originator, extra=extra)
    thread_id = _thread_id(kernel, options, settings)
    return await kernel.resume_thread(thread_id, settings, agent=agent, originator=originator)


def _thread_id(kernel: Kernel, options: ExecOptions, settings: Settings) -> str:
    """Return the id of the thread to resume, which is new for ``fork``.

    Raises:
        ThreadError: No thread can be resumed, or it cannot be forked.
    """
    thread_id = options.thread
    if thread_id is None:
        thread_id = kernel.latest_thread(cwd=None if options.flag("all") else settings.cwd)
    if thread_id is None:
        hint = (
            "Add --all to include the threads of other folders."
            if not options.flag("all")
            else "Start a thread with exec PROMPT."
        )
        raise ThreadError(
            f"no thread to resume was found in {kernel.config.codex_home}", slug="thread-not-found", hint=hint
        )
    return kernel.fork_thread(thread_id, at=options.at) if options.fork else thread_id


def _agent(kernel: Kernel, options: ExecOptions, settings: Settings) -> Agent[Any] | None:
    """Return the named agent. If no user can be asked, its approval policy is ignored.

    Raises:
        CodexError: There is no agent with this name, or its table is invalid.
    """
    name = options.text("agent")
    if name is None:
        return None
    agent = kernel.agent(name)
    return agent.evolve(approval_policy=None) if settings.approval_policy is ApprovalPolicy.NEVER else agent


class Turn:
    """The turn of a run.

    Args:
        announce: Tells the thread's id, once the thread can be resumed.
    """

    def __init__(self, thread: ExecThread, output: Output, announce: Callable[[], None]) -> None:
        self.final_message: str | None = None
        self.failed = True
        self._thread = thread
        self._output = output
        self._announce: Callable[[], None] | None = announce

    async def follow(self, stream: AsyncIterator[EventMsg], stop: Stop) -> None:
        """Run the turn to its end."""
        error = False
        async with contextlib.aclosing(stream):  # type: ignore[type-var]  # an async generator, typed as an iterator
            async for msg in stream:
                self._announce_thread()
                self._output.show(msg)
                match msg:
                    case ErrorEvent():
                        error = True
                    case TurnCompleteEvent(last_agent_message=message):
                        self.failed = error
                        self.final_message = None if error else message
                    case _:
                        pass
        await stop.done()

    def _announce_thread(self) -> None:
        """Announce the thread with its first event. Its beginning is usually on disk by then, with the prompt."""
        announce, self._announce = self._announce, None
        if announce is not None:
            self._thread.save()
            announce()


async def _close(thread: ExecThread, output: Output) -> str | None:
    """Shut the thread down and show its last warnings.

    Returns the reason if the conversation could not be saved.
    """
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


async def _ignore_errors(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(CodexError):
        await work


def _exec_settings(kernel: Kernel, options: ExecOptions) -> Settings:
    """Return the settings of the turn. Nobody can be asked, unless ``-c approval_policy`` says otherwise.

    Raises:
        ConfigError: The configuration is invalid.
    """
    settings = kernel.settings().evolve(ephemeral=options.flag("ephemeral"))
    is_explicit = any(
        layer.name in ("override", "flags") and "approval_policy" in layer.table for layer in kernel.config.layers
    )
    if not is_explicit:
        if kernel.config.get("approval_policy") == ApprovalPolicy.UNTRUSTED.value:
            raise kernel.config.error(
                "approval_policy",
                'approval_policy = "untrusted" asks before commands run, but `exec` cannot ask anybody',
                hint="Remove this setting, or choose another policy: `-c approval_policy=never` or `=untrusted`.",
            )
        settings = settings.evolve(approval_policy=ApprovalPolicy.NEVER)
    folders = [os.path.normpath(settings.cwd / folder) for folder in options.texts("add_dir")]
    if folders and settings.permissions.writes_workspace:
        settings = settings.evolve(permissions=settings.permissions.with_writable(folders))
    return settings


def _exec_input(options: ExecOptions, prompt: str) -> list[UserInputItem]:
    """Return the input: images first, as Codex sends them, then the prompt. Another place may not have the files of this one."""
    if options.opening is None:
        images: list[UserInputItem] = [LocalImageInput(path) for path in options.images]
    else:
        images = [ImageInput(data_url(Path(path))) for path in options.images]
    return [*images, TextInput(prompt)]
