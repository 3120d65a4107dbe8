"""One run of ``exec``: the kernel, thread and turn, the output of events, and signals."""

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

from codex_framework.cli.exec_options import ExecOptions
from codex_framework.cli.jsonl import JsonEvents, json_line
from codex_framework.config import Config, Settings
from codex_framework.contract.errors import CodexError, ThreadError
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    EventMsg,
    TurnCompleteEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.ops import LocalImageInput, TextInput, UserInputItem
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.contract.roles.agents import Agent
from codex_framework.kernel import Kernel
from codex_framework.plugins.registry import Registry
from codex_framework.threads.thread import Thread
from codex_framework.threads.user_input import check_length

__all__ = ["run_exec"]

_UNSAVED = "Failed to save the conversation transcript"


class Output(Protocol):
    """The output of a run."""

    def started(self, thread: Thread, settings: Settings, prompt: str) -> None:
        """Handle the start of the thread."""
        ...

    def event(self, msg: EventMsg) -> None:
        """Handle an event of the turn."""
        ...

    def warn(self, message: str) -> None:
        """Show a problem that belongs to no turn."""
        ...

    def ended(self, final_message: str | None) -> None:
        """Handle the end of the turn."""
        ...


class JsonOutput:
    """Output as JSON lines on stdout, each flushed immediately."""

    def __init__(self, registry: Registry) -> None:
        plugins = {kind: registry.owners["events", tag] for tag, kind in registry.events.items()}
        self._events = JsonEvents(plugins)
        self._stream = sys.stdout.buffer

    def started(self, thread: Thread, settings: Settings, prompt: str) -> None:  # noqa: ARG002  # the protocol's
        """Write the thread's id."""
        self._write(self._events.thread_started(thread.id))

    def event(self, msg: EventMsg) -> None:
        """Write the JSON events for an event of the turn."""
        for event in self._events.of(msg):
            self._write(event)

    def warn(self, message: str) -> None:
        """Write a warning to stderr, because the stream of the turn has ended."""
        print(f"warning: {message}", file=sys.stderr, flush=True)

    def ended(self, final_message: str | None) -> None:
        """Do nothing; the turn's last event was already written."""

    def _write(self, event: Mapping[str, Any]) -> None:
        self._stream.write(json_line(event))
        self._stream.flush()


class TextOutput:
    """Output as text: progress on stderr, and the final message on stdout."""

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
        """Print an event."""
        self._out.show(msg)

    def warn(self, message: str) -> None:
        """Print a warning."""
        self._out.warn(message)

    def ended(self, final_message: str | None) -> None:
        """Print the final message on stdout, unless it was just shown on the same terminal."""
        self._out.ended()
        if final_message is not None and not (sys.stdout.isatty() and sys.stderr.isatty()):
            print(final_message, flush=True)


class Stop:
    """A received signal, with the exit status that reports it."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._thread: Thread | None = None
        self._stopping: asyncio.Task[None] | None = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle the signals that end a run. The status is 1 for ^C, as in Codex, and 128 + n for the others.

        Ignored signals stay ignored (nohup).
        """
        for number, status in ((signal.SIGINT, 1), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            with contextlib.suppress(ValueError):  # not on the main thread, which is the only one that handles signals
                loop.add_signal_handler(number, self._received, status)

    def guard(self, thread: Thread) -> None:
        """Interrupt this thread's turn when a signal arrives, or immediately if one has already arrived."""
        self._thread = thread
        if self.status is not None:
            self._interrupt()

    def _received(self, status: int) -> None:
        if self.status is not None and status == 1:
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


def run_exec(options: ExecOptions, config: Config, prompt: str, schema: Mapping[str, Any] | None) -> int:
    """Run one turn and return the exit status.

    The status is 0, or 1 if the turn failed or was interrupted, or 128 + n after another signal.

    Raises:
        CodexError: The turn could not start, or the conversation could not be saved.
    """
    check_length(len(prompt))
    return asyncio.run(_run(options, config, prompt, schema))


async def _run(options: ExecOptions, config: Config, prompt: str, schema: Mapping[str, Any] | None) -> int:
    stop = Stop()
    stop.watch(asyncio.get_running_loop())
    files = [Path(file) for file in options.texts("plugin")]
    async with await Kernel.create(config, plugins=files) as kernel:
        settings = _exec_settings(kernel, options)
        thread = await _thread(kernel, options, settings)
        output: Output = (
            JsonOutput(kernel.registry)
            if options.flag("json")
            else TextOutput(settings, options.text("color") or "auto")
        )
        stop.guard(thread)
        gc.freeze()  # objects from start-up live to the end; only later objects can form cycles
        gc.enable()
        try:
            output.started(thread, settings, prompt)
            turn = Turn(thread, output)
            if stop.status is None:
                await turn.follow(options, prompt, schema, stop)
            output.ended(turn.final_message)
            unsaved = await _close(thread, output)
        except BrokenPipeError:
            # The reader has gone. The turn is stopped, and its work is saved.
            await _quietly(thread.interrupt())
            raise
        await stop.done()
    _write_last_message(options.text("output_last_message"), turn.final_message)
    if unsaved is not None:
        raise ThreadError(unsaved, slug="unsaved", hint="Make $CODEX_HOME writable, or add --ephemeral.")
    return stop.status or (1 if turn.failed else 0)


async def _thread(kernel: Kernel, options: ExecOptions, settings: Settings) -> Thread:
    originator = os.environ.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE") or "codex_exec"
    agent = _agent(kernel, options, settings)
    if not options.resume:
        source = options.text("thread_source")
        extra = {} if source is None else {"thread_source": source}
        return await kernel.start_thread(settings, agent=agent, source="exec", originator=originator, extra=extra)
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
            f"there is no thread to resume in {kernel.config.codex_home}", slug="thread-not-found", hint=hint
        )
    return await kernel.resume_thread(thread_id, settings, agent=agent, originator=originator)


def _agent(kernel: Kernel, options: ExecOptions, settings: Settings) -> Agent[Any] | None:
    """Return the agent that was named. Where nobody can be asked, its approval policy does not count.

    Raises:
        CodexError: There is no agent of this name, or its table is wrong.
    """
    name = options.text("agent")
    if name is None:
        return None
    agent = kernel.agent(name)
    return agent.evolve(approval_policy=None) if settings.approval_policy is ApprovalPolicy.NEVER else agent


class Turn:
    """The turn of a run."""

    def __init__(self, thread: Thread, output: Output) -> None:
        self.final_message: str | None = None
        self.failed = True
        self._thread = thread
        self._output = output

    async def follow(self, options: ExecOptions, prompt: str, schema: Mapping[str, Any] | None, stop: Stop) -> None:
        """Run the turn to its end."""
        error = False
        stream = self._thread.stream(_exec_input(options, prompt), output_schema=schema, answers=False)
        async with contextlib.aclosing(stream):  # type: ignore[type-var]  # an async generator, typed as an iterator
            async for msg in stream:
                self._output.event(msg)
                match msg:
                    case ErrorEvent():
                        error = True
                    case TurnCompleteEvent(last_agent_message=message):
                        self.failed = error
                        self.final_message = None if error else message
                    case _:
                        pass
        await stop.done()


async def _close(thread: Thread, output: Output) -> str | None:
    """Shut the thread down and show its last warnings.

    Returns the reason if the conversation could not be saved. None means that it was saved.
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


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(CodexError):
        await work


def _write_last_message(path: str | None, message: str | None) -> None:
    if path is None:
        return
    try:
        Path(path).write_text(message or "", "utf-8")
    except OSError as error:
        raise CodexError(
            f"Failed to write last message file {path!r}: {error.strerror}",
            slug="output-last-message",
            hint="Name a file in a writable folder with -o.",
        ) from error
    if message is None:
        print(f"Warning: no last agent message; wrote empty content to {path}", file=sys.stderr)


def _exec_settings(kernel: Kernel, options: ExecOptions) -> Settings:
    """Return the settings of the turn. Nobody can be asked, unless ``-c approval_policy`` says otherwise.

    Raises:
        ConfigError: The configuration is invalid.
    """
    settings = kernel.settings(ephemeral=options.flag("ephemeral"))
    is_explicit = any(
        layer.name in ("override", "flags") and "approval_policy" in layer.table for layer in kernel.config.layers
    )
    if not is_explicit:
        settings = settings.evolve(approval_policy=ApprovalPolicy.NEVER)
    folders = [os.path.normpath(settings.cwd / folder) for folder in options.texts("add_dir")]
    if folders and settings.permissions.writes_workspace:
        settings = settings.evolve(permissions=settings.permissions.with_writable(folders))
    return settings


def _exec_input(options: ExecOptions, prompt: str) -> list[UserInputItem]:
    """Return the input: images first, as Codex sends them, then the prompt."""
    return [*(LocalImageInput(path) for path in options.images), TextInput(prompt)]
