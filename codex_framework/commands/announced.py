"""A running command whose start, output and end are reported to clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.commands.approval_prompts import shown_command
from codex_framework.commands.caller import Caller, MeasuredSpan
from codex_framework.commands.confinement import is_sandbox_denial
from codex_framework.commands.gates import end_gate
from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import CommandFailed, SandboxError, ToolError, ToolRefused
from codex_framework.contract.protocol.events.command import (
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ExecCommandOutputDeltaEvent,
)
from codex_framework.contract.roles.commands import (
    CommandRequest,
    CommandResult,
    OutputChunk,
    OutputWindow,
    RunningCommand,
)
from codex_framework.contract.roles.networks import NetworkGate
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.sandboxes import Confinement
from codex_framework.toolkit.spans import NO_SPAN

__all__ = [
    "AnnouncedCommand",
    "show_unstarted_command",
    "tell_failed_start",
]

_OF_USER = "user_shell"
"""The source of commands that the user typed. What they leave in the background continues."""


class AnnouncedCommand:
    """A running command whose start, output and end are reported to clients."""

    def __init__(
        self, request: CommandRequest, call: Caller, cwd: Path, limit_text: Callable[[str], str], *, confined: bool
    ) -> None:
        self.cwd = cwd
        self._request = request
        self._call = call
        self._limit_text = limit_text
        self._confined = confined
        self._running: RunningCommand | None = None
        self._result: asyncio.Future[CommandResult] | None = None
        self._gate: NetworkGate | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._span: MeasuredSpan = NO_SPAN
        self._shown: Mapping[str, Any] = {}
        self.refused_host = False
        self.was_blocked = False

    async def start(
        self, plan: Confinement, argv: Sequence[str], env: Mapping[str, str], gate: NetworkGate | None = None
    ) -> None:
        """Start the command and report it.

        Raises:
            ToolError: The command cannot be started.
            ToolRefused: The sandbox cannot enforce the policy.
        """
        self._span = self._call.measuring("codex.command", call_id=self._call.call_id, sandboxed=self._confined)
        self._span.begin()
        self._running = await self._start_process(plan, argv, env, gate)
        if self._request.announce:
            self._shown = shown_fields(self._request, self._call, self.cwd, self._running.process_id)
            self._call.emit(ExecCommandBeginEvent(**self._shown, started_at_ms=_now_ms()))
        self._gate = gate
        self._result = asyncio.ensure_future(self._finish())
        if self.refused_host:  # the command and the user's answer were both faster than this start
            self.refuse_host()

    async def _start_process(
        self, plan: Confinement, argv: Sequence[str], env: Mapping[str, str], gate: NetworkGate | None
    ) -> RunningCommand:
        starting = self._call.measuring("codex.sandbox.start", call_id=self._call.call_id, sandboxed=self._confined)
        starting.begin()
        failed = True
        try:
            running = await start_command(
                plan,
                argv=argv,
                cwd=str(self.cwd),
                env=env,
                tty=self._request.tty,
                stdin=self._request.stdin,
                timeout_ms=self._request.timeout_ms,
                drain_ms=self._request.drain_ms,
                on_chunk=self._chunk if self._request.announce else None,
                gate=gate,
                whole_words=self._call.redact is not None,
                leave_group=self._request.source == _OF_USER,
            )
            failed = False
        except CommandFailed as error:
            raise ToolError(str(error), slug=error.slug, hint=error.hint) from error
        except SandboxError as error:
            raise ToolRefused(f"{error}. {error.hint}".strip()) from error
        finally:
            starting.finish(failed=failed)
            if failed:
                self._span.finish(failed=True)
        return running

    def refuse_host(self) -> None:
        """End the command, because the user refused it access to a host."""
        self.refused_host = True
        if self._running is not None and self._stopping is None:
            self._stopping = asyncio.ensure_future(self._running.kill())

    @property
    def process_id(self) -> int:
        """The operating system's process id."""
        return self._process.process_id

    @property
    def exit_code(self) -> int | None:
        """The exit status, or None while the command is running."""
        return self._process.exit_code

    def chunks(self) -> AsyncIterator[OutputChunk]:
        """Return the output from now on."""
        return self._process.chunks()

    def take(self) -> OutputWindow:
        """Return the output since the last call."""
        return self._process.take()

    async def write(self, data: bytes) -> None:
        """Write to stdin."""
        await self._process.write(data)

    async def close_stdin(self) -> None:
        """Close stdin after everything is written."""
        await self._process.close_stdin()

    def interrupt(self) -> None:
        """Send SIGINT to the process group."""
        self._process.interrupt()

    async def kill(self) -> None:
        """End the process group, and wait until its end has been reported."""
        await self._process.kill()
        await self.wait()

    async def wait(self) -> CommandResult:
        """Wait for the end. Cancelling the caller does not end the command."""
        assert self._result is not None
        return await asyncio.shield(self._result)

    @property
    def _process(self) -> RunningCommand:
        assert self._running is not None
        return self._running

    def _whole(self, text: str) -> str:
        """Return a text as it may be cut: half of a secret would not be recognised later."""
        return text if self._call.redact is None else self._call.redact(text)

    def _chunk(self, chunk: OutputChunk) -> None:
        self._call.emit(ExecCommandOutputDeltaEvent(call_id=self._call.call_id, stream=chunk.stream, chunk=chunk.data))

    async def _finish(self) -> CommandResult:
        result = await self._process.wait()
        if self._gate is not None:
            self.was_blocked = await end_gate(self._gate, self._call.emit)
        if is_sandbox_denial(result, confined=self._confined):
            result = result.evolve(denied=True)
        self._span.set(exit_code=result.exit_code, timed_out=result.timed_out, denied=result.denied)
        self._span.finish(failed=result.exit_code != 0)
        if self._request.announce:
            status = "completed" if result.exit_code == 0 else "failed"
            formatted = self._limit_text(self._whole(result.output))
            self._call.emit(end_event(self._shown, result, formatted, status))
        return result


def shown_fields(request: CommandRequest, call: Caller, cwd: Path, process_id: int) -> dict[str, Any]:
    """Return the fields that the begin and the end event of a command share."""
    return {
        "call_id": call.call_id,
        "turn_id": call.turn_id,
        "cwd": str(cwd),
        "process_id": str(process_id) if process_id else None,
        "source": request.source,
        **shown_command(request),
    }


def end_event(shown: Mapping[str, Any], result: CommandResult, formatted: str, status: str) -> ExecCommandEndEvent:
    return ExecCommandEndEvent(
        **shown,
        completed_at_ms=_now_ms(),
        stdout=result.stdout,
        stderr=result.stderr,
        aggregated_output=result.output,
        exit_code=result.exit_code,
        duration_s=result.duration_s,
        formatted_output=formatted,
        status=status,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)


def tell_failed_start(request: CommandRequest, call: Caller, cwd: Path, error: ToolError) -> None:
    """Show a permitted command that a sandbox refused to start, or that could not be started, to clients."""
    if isinstance(error, ToolRefused):
        call.refused(Actor(role="sandbox"), str(error))
        show_unstarted_command(request, call, cwd, str(error), "declined")
    else:
        show_unstarted_command(request, call, cwd, f"execution error: {error}", "failed")


def show_unstarted_command(request: CommandRequest, call: Caller, cwd: Path, reason: str, status: str) -> None:
    """Show clients a command that was not started: its begin and end are reported immediately."""
    if request.announce:
        shown = shown_fields(request, call, cwd, 0)
        call.emit(ExecCommandBeginEvent(**shown, started_at_ms=_now_ms()))
        result = CommandResult(
            exit_code=-1, stdout="", stderr=reason, output=reason, total_bytes=0, omitted_bytes=0, duration_s=0.0
        )
        call.emit(end_event(shown, result, reason, status))
