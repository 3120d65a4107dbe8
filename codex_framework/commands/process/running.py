"""A running command: reads its output as it arrives, detects its end, and can end its whole process group."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from codex_framework.commands.process.output import CappedOutput, OutputStream
from codex_framework.commands.process.slots import SLOTS, is_scarce
from codex_framework.commands.process.spawn import exit_code, group_lives, signal_session, wait_for_group_end
from codex_framework.commands.process.streams import (
    PIPE_BYTES,
    TERMINAL_SIZE,
    Streams,
    enlarge,
    open_pipes,
    open_terminal,
    terminal_streams,
)
from codex_framework.contract.errors import CommandFailed, SandboxError, ToolError
from codex_framework.contract.roles.commands import CommandResult, OutputChunk, OutputWindow
from codex_framework.contract.roles.networks import NetworkGate
from codex_framework.contract.roles.sandboxes import ChildProcess, Confinement, Launch
from codex_framework.toolkit.os_errors import os_error_text
from codex_framework.toolkit.roles import add_defaults

__all__ = ["Command", "start_command"]

DRAIN_MS = 2000
"""Time limit in milliseconds for output of descendants after the command's own end (Codex: 2 s)."""

KILL_AFTER_S = 0.05
"""Delay in seconds between SIGTERM and SIGKILL (Codex's)."""

_READ_BYTES = 1 << 18
_BURST_BYTES = 1 << 20
"""Maximum number of bytes read before the event loop gets its turn."""

_CHUNK_BYTES = 8192
_MAX_CHUNKS = 10_000
"""Size and number of the chunks passed to ``on_chunk`` (Codex's limits for output events)."""


async def start_command(
    confinement: Confinement,
    *,
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    tty: bool = False,
    terminal_size: tuple[int, int] = TERMINAL_SIZE,
    stdin: bytes | None = None,
    keep_stdin_open: bool = False,
    timeout_ms: int | None = None,
    drain_ms: int = DRAIN_MS,
    on_chunk: Callable[[OutputChunk], None] | None = None,
    report: Callable[[CommandResult], Awaitable[CommandResult]] | None = None,
    gate: NetworkGate | None = None,
    whole_words: bool = False,
    lossless: bool = False,
    grace_s: float = KILL_AFTER_S,
    leave_group: bool = False,
) -> Command:
    """Start a command.

    Args:
        confinement: The confinement of the command. Its ``env`` overrides ``env``.
        argv: The program and its arguments.
        cwd: The working folder, as an absolute path.
        env: The complete environment.
        tty: Whether to use a pseudo-terminal, with stdin open.
        terminal_size: The rows and columns of the pseudo-terminal.
        stdin: The bytes to write to stdin. By default, stdin is ``/dev/null``.
        keep_stdin_open: Whether stdin stays open for :meth:`Command.write`. The stdin of a terminal always does.
        timeout_ms: Time limit in milliseconds. When it expires, the process group is killed and the exit code is 124. None
            means no limit.
        drain_ms: Time limit in milliseconds for reading after the command's end while descendants keep its output open.
        on_chunk: Called in the event loop with chunks of at most 8,192 bytes, for the first 10,000 chunks.
        report: Called once with the result. Its return value is the result for all waiters.
        whole_words: Whether kept output is never cut within a word, for a reader that removes secrets from it.
        gate: The gate for the command's network traffic. None if the confinement needs none.
        lossless: Whether :meth:`Command.chunks` yields everything from the start, and the command waits until it is read.
        grace_s: Delay in seconds between SIGTERM and SIGKILL.
        leave_group: Whether processes that the command leaves in its group may continue after its end.

    Raises:
        CommandFailed: The command cannot be started; the fact is the system's text
            (``No such file or directory (os error 2)``).
        SandboxError: The sandbox cannot enforce the policy for this command. The command was not started.
    """
    if not argv:
        raise CommandFailed("the command is empty", hint="Name a program.")
    slot = object()
    while True:
        started = time.monotonic()
        try:
            child, streams = await _start_child(
                confinement,
                argv,
                cwd,
                env,
                terminal=terminal_size if tty else None,
                stdin=stdin,
                keep_stdin_open=keep_stdin_open,
                gate=gate,
                slot=slot,
            )
        except (CommandFailed, SandboxError) as error:
            if not is_scarce(error) or not await SLOTS.wait():
                raise
        else:
            break
    if tty and (terminal := child.take_terminal()) is not None:
        streams.close_ours()
        streams = terminal_streams(terminal)
    if tty and stdin:
        streams = streams._replace(unwritten=stdin)
    command = Command(
        child,
        streams,
        slot=slot,
        started=started,
        drain_s=drain_ms / 1000,
        on_chunk=on_chunk,
        report=report,
        whole_words=whole_words,
        lossless=lossless,
        grace_s=grace_s,
        leave_group=leave_group,
    )
    command.begin(timeout_ms=timeout_ms, keep_stdin_open=keep_stdin_open or tty)
    return command


async def _start_child(
    confinement: Confinement,
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    *,
    terminal: tuple[int, int] | None,
    stdin: bytes | None,
    keep_stdin_open: bool,
    gate: NetworkGate | None,
    slot: object,
) -> tuple[ChildProcess, Streams]:
    """Open the streams of a command and start it. Both are undone if either fails.

    Raises:
        CommandFailed, SandboxError: As for :func:`start_command`.
    """
    try:
        streams = open_terminal(terminal) if terminal else open_pipes(stdin, keep_open=keep_stdin_open)
    except OSError as error:
        hint = "End other commands. No file descriptors or terminals are left."
        raise CommandFailed(os_error_text(error), hint=hint) from error
    fds = streams.child
    launch = Launch(
        argv=tuple(argv),
        cwd=cwd,
        env={**env, **confinement.env},
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        tty=terminal is not None,
        may_replace_terminal=True,
        gate=gate,
    )
    try:
        SLOTS.take(slot, fds)
        return add_defaults(await confinement.start(launch), ChildProcess), streams
    except BaseException:
        SLOTS.free(slot)
        streams.close_ours()
        raise
    finally:
        streams.close_child()


class Command:
    """A :class:`~codex_framework.contract.roles.commands.RunningCommand`, created by :func:`start_command`.

    Output is always read, even without a reader, so the command never blocks on it. The memory for kept output is bounded.
    """

    def __init__(
        self,
        child: ChildProcess,
        streams: Streams,
        *,
        slot: object,
        started: float,
        drain_s: float,
        on_chunk: Callable[[OutputChunk], None] | None,
        report: Callable[[CommandResult], Awaitable[CommandResult]] | None = None,
        whole_words: bool = False,
        lossless: bool = False,
        grace_s: float = KILL_AFTER_S,
        leave_group: bool = False,
    ) -> None:
        self._child = child
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        self._sources = dict(streams.sources)
        self._stdin = streams.stdin
        self._terminal = streams.stdin in self._sources
        self._unwritten = streams.unwritten
        self._started = started
        self._drain_s = drain_s
        self._on_chunk = on_chunk
        self._report = report
        self._chunks_left = _MAX_CHUNKS if on_chunk is not None else 0
        self._whole_words = whole_words
        self._held = 0
        self._enlarged: tuple[int, ...] = ()
        self._all = CappedOutput(whole_words=whole_words)
        self._stdout = self._all  # the same object until stderr has output
        self._stderr: CappedOutput | None = None
        self._window = self._all  # the same object until the first take
        self._lossless = lossless
        self._grace_s = grace_s
        self._leave_group = leave_group
        self._output_stream = OutputStream(ended=False, resume=self._listen) if lossless else None
        self._status: int | None = None
        self._timed_out = False
        self._result: CommandResult | None = None
        self._duration_s = 0.0
        self._exited = asyncio.Event()
        self._ended = asyncio.Event()
        self._reported = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []
        self._feeding: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None]
        self._writing = asyncio.Lock()

    def begin(self, *, timeout_ms: int | None, keep_stdin_open: bool) -> None:
        """Start reading, writing and waiting. Called once, by :func:`start_command`."""
        self._listen()
        if timeout_ms is not None:
            self._timers.append(self._loop.call_later(timeout_ms / 1000, self._time_out))
        if self._unwritten:
            self._feeding = self._loop.create_task(self._feed(keep_open=keep_stdin_open))
        self._watching = self._loop.create_task(self._watch())

    # The interface for tools

    @property
    def process_id(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None until the command has ended and its output was read."""
        return exit_code(self._status, timed_out=self._timed_out) if self._ended.is_set() else None

    def chunks(self) -> AsyncIterator[OutputChunk]:
        """Return the output from now on, until the end. There can be one reader; a slow one loses the oldest output beyond 1 MiB.

        A lossless command has one reader in all, which gets everything from the start.
        """
        if self._output_stream is None or not self._lossless:
            self._output_stream = OutputStream(ended=self._ended.is_set())
        return self._output_stream.read()

    def take(self) -> OutputWindow:
        """Return the output since the last call (or the start) and discard it.

        An incomplete character at the end is kept for the next call, as is the last word with ``whole_words``, once.
        """
        window, self._window = self._window, CappedOutput(whole_words=self._whole_words)
        if not self._ended.is_set():
            if window is self._all:
                window = self._all.copy()
            rest = window.take_incomplete(word=window.total > self._held)  # a word is held back once
            self._held = len(rest)
            self._window.append(rest)
        return OutputWindow(text=window.marked_text(), total_bytes=window.total, omitted_bytes=window.omitted)

    async def write(self, data: bytes) -> None:
        """Write to stdin.

        Raises:
            ToolError: stdin is closed.
        """
        async with self._writing:
            rest = memoryview(data)
            while rest:
                if self._stdin is None:
                    raise ToolError("stdin is closed")
                try:
                    rest = rest[os.write(self._stdin, rest) :]
                except BlockingIOError:
                    await self._writable(self._stdin)
                except OSError as error:
                    raise ToolError("stdin is closed") from error

    async def close_stdin(self) -> None:
        """Close a stdin pipe after all earlier data is written. A terminal is left open."""
        async with self._writing:
            if self._stdin is not None and self._stdin not in self._sources:
                self._close_stdin_now()

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal.

        Raises:
            ToolError: There is no terminal on this machine.
        """
        import termios

        if not self._terminal or self._stdin is None:
            raise ToolError("the command has no terminal")
        try:
            termios.tcsetwinsize(self._stdin, (rows, columns))
        except (OSError, termios.error) as error:
            raise ToolError("a terminal on another machine cannot be resized") from error

    def interrupt(self) -> None:
        """Send SIGINT to the process group."""
        if self._status is None:
            self._child.signal(signal.SIGINT)

    async def kill(self) -> None:
        """End the whole process group: send SIGTERM, and after ``grace_s`` SIGKILL to the remaining processes.

        Both are sent even if the caller is cancelled. After the command's end nothing is sent.
        """
        if not self._ended.is_set():
            await self._end_group()
        await self.wait()

    async def _end_group(self) -> None:
        self._leave_group = True  # what is left may clean up until it is killed below
        self._signal(signal.SIGTERM)
        finished = self._loop.create_future()
        self._loop.call_later(self._grace_s, self._kill_survivors, finished)
        await self._exited.wait()
        while self._grace_s > KILL_AFTER_S and not finished.done() and group_lives(self._child.pid):
            await asyncio.wait([finished], timeout=KILL_AFTER_S)
        if self._child.pid and (self._terminal or group_lives(self._child.pid)):
            await finished
            await wait_for_group_end(self._child.pid)
        self._finish()

    async def wait(self) -> CommandResult:
        """Wait for the end. Cancelling the caller does not end the command."""
        await self._reported.wait()
        if self._result is None:
            self._watching.result()  # raises what the report has raised
            self._result = self._make_result()
        return self._result

    # Reading

    def _listen(self) -> None:
        for fd, stream in self._sources.items():
            self._loop.add_reader(fd, self._read, fd, stream)

    def _read(self, fd: int, stream: str) -> None:
        budget = _BURST_BYTES
        while budget > 0:
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""  # a terminal whose other side is closed reports EIO instead of the end
            if not data:
                self._close_source(fd)
                return
            if len(data) >= PIPE_BYTES and fd not in self._enlarged:
                self._enlarged = (*self._enlarged, fd)
                enlarge(fd)
            self._receive(stream, data)
            budget -= len(data)

    def _receive(self, stream: str, data: bytes) -> None:
        self._all_append(stream, data)
        if self._chunks_left:
            self._announce(stream, data)
        if self._output_stream is not None:
            self._output_stream.put(OutputChunk(stream, data))
            if self._output_stream.full:  # the command waits when its pipe is full too
                for fd in self._sources:
                    self._loop.remove_reader(fd)

    def _all_append(self, stream: str, data: bytes) -> None:
        if stream == "stderr":
            if self._stderr is None:
                self._stderr = CappedOutput(whole_words=self._whole_words)
                self._stdout = self._all.copy()
            self._stderr.append(data)
        elif self._stdout is not self._all:
            self._stdout.append(data)
        self._all.append(data)
        if self._window is not self._all:
            self._window.append(data)

    def _announce(self, stream: str, data: bytes) -> None:
        assert self._on_chunk is not None
        for start in range(0, len(data), _CHUNK_BYTES):
            if not self._chunks_left:
                return
            self._chunks_left -= 1
            self._on_chunk(OutputChunk(stream, data[start : start + _CHUNK_BYTES]))

    def _close_source(self, fd: int) -> None:
        del self._sources[fd]
        self._loop.remove_reader(fd)
        if fd == self._stdin:
            self._loop.remove_writer(fd)
            self._stdin = None
        os.close(fd)
        if not self._sources and self._status is not None:
            self._finish()

    # Feeding

    async def _feed(self, *, keep_open: bool) -> None:
        try:
            await self.write(self._unwritten)
        except ToolError:
            return  # the command closed its stdin without reading everything, which is allowed
        finally:
            self._unwritten = b""
        if not keep_open:
            await self.close_stdin()

    async def _writable(self, fd: int) -> None:
        ready = self._loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        self._loop.add_writer(fd, wake)
        ended = self._loop.create_task(self._ended.wait())
        try:
            await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            if self._stdin == fd:
                self._loop.remove_writer(fd)

    def _close_stdin_now(self) -> None:
        if self._stdin is not None:
            self._loop.remove_writer(self._stdin)
            os.close(self._stdin)
            self._stdin = None

    async def _watch(self) -> None:
        try:
            await self._await_end()
            if self._report is not None:
                self._result = await self._report(self._make_result())
        finally:
            self._reported.set()

    async def _await_end(self) -> None:
        try:
            status = await self._child.wait()
        except asyncio.CancelledError:  # the event loop is shutting down, and no process of ours may outlive it
            self._child.signal(signal.SIGKILL)
            self._status = await self._child.wait()
            self._exited.set()
            self._finish()
            raise
        self._status = status
        self._exited.set()
        for fd, stream in list(self._sources.items()):
            self._read(fd, stream)
        if note := self._child.explain():
            self._receive("stderr", f"{note}\n".encode())
        if self._sources:
            self._timers.append(self._loop.call_later(self._drain_s, self._finish))
            await self._ended.wait()
        else:
            self._finish()

    def _time_out(self) -> None:
        if self._status is None:
            self._timed_out = True
            self._child.signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Signal the group, or the whole session on a terminal, because shells give each job its own group."""
        self._child.signal(number)
        if self._terminal:
            signal_session(self._child.pid, number)

    def _kill_survivors(self, finished: asyncio.Future[None]) -> None:
        # The leader's id cannot be reused while a member of the group is alive, so this cannot hit another process.
        self._signal(signal.SIGKILL)
        if not finished.done():
            finished.set_result(None)

    def _finish(self) -> None:
        if self._ended.is_set():
            return
        self._duration_s = time.monotonic() - self._started
        self._ended.set()
        for fd in list(self._sources):
            self._close_source(fd)
        self._close_stdin_now()
        SLOTS.free(self._slot)
        if not self._leave_group and self._status is not None:
            self._child.end_group()
        for timer in self._timers:
            timer.cancel()
        if self._output_stream is not None:
            self._output_stream.end()

    def _make_result(self) -> CommandResult:
        stdout = self._stdout.text()
        only_stdout = self._stdout is self._all and not self._all.omitted
        return CommandResult(
            exit_code=exit_code(self._status, timed_out=self._timed_out),
            stdout=stdout,
            stderr="" if self._stderr is None else self._stderr.text(),
            output=stdout if only_stdout else self._all.marked_text(),
            total_bytes=self._all.total,
            omitted_bytes=self._all.omitted,
            duration_s=self._duration_s,
            timed_out=self._timed_out,
        )
