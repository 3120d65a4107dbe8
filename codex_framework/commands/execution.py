"""The execution of one command: its process, and what clients see of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.commands.approval_prompts import shown_command
from codex_framework.commands.caller import Caller, MeasuredSpan
from codex_framework.commands.confinement import is_sandbox_denial
from codex_framework.commands.gates import end_gate
from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import CommandFailed, SandboxError, ToolError, ToolRefused
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.events.command import (
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ExecCommandOutputDeltaEvent,
)
from codex_framework.contract.roles.commands import (
    CommandRequest,
    CommandResult,
    OutputChunk,
    RunningCommand,
)
from codex_framework.contract.roles.networks import NetworkGate
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.sandboxes import Confinement
from codex_framework.toolkit.spans import NO_SPAN

__all__ = ["Execution"]

_OF_USER = "user_shell"
"""The source of commands that the user typed. Background processes of such commands continue."""


class Execution:
    """The execution of one command, whose start, output and end are shown to clients.

    Args:
        cwd: The folder of the command.
        limit_text: Shortens a text for the model.

    Attributes:
        request: The command.
        call: The call that runs it.
        access: The access of the command, once it was started.
        running: The command, once it was started.
        refused_host: Whether the user refused it access to a host.
        was_blocked: Whether its network gate blocked a request.
    """

    access: FileAccess
    running: RunningCommand

    def __init__(self, request: CommandRequest, call: Caller, cwd: Path, limit_text: Callable[[str], str]) -> None:
        self.cwd = cwd
        self.request = request
        self.call = call
        self._limit_text = limit_text
        self._gate: NetworkGate | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._span: MeasuredSpan = NO_SPAN
        self._shown: Mapping[str, Any] = {}
        self.refused_host = False
        self.was_blocked = False

    async def start(
        self,
        access: FileAccess,
        plan: Confinement,
        argv: Sequence[str],
        env: Mapping[str, str],
        gate: NetworkGate | None = None,
    ) -> None:
        """Start the command and show it.

        Raises:
            ToolError: The command cannot be started.
            ToolRefused: The sandbox cannot enforce the policy.
        """
        self.access = access
        self._gate = gate
        self._span = self.call.measuring("codex.command", call_id=self.call.call_id, sandboxed=access.confines)
        self._span.begin()
        self.running = await self._start_process(plan, argv, env)
        if self.request.announce:
            self._emit_begin(self.running.process_id)
        if self.refused_host:  # the command and the user's answer were both faster than this start
            self.refuse_host()

    async def _start_process(self, plan: Confinement, argv: Sequence[str], env: Mapping[str, str]) -> RunningCommand:
        call, request = self.call, self.request
        starting = call.measuring("codex.sandbox.start", call_id=call.call_id, sandboxed=self.access.confines)
        starting.begin()
        failed = True
        try:
            running = await start_command(
                plan,
                argv=argv,
                cwd=str(self.cwd),
                env=env,
                tty=request.tty,
                stdin=request.stdin,
                timeout_ms=request.timeout_ms,
                drain_ms=request.drain_ms,
                on_chunk=self._emit_chunk if request.announce else None,
                report=self._report,
                gate=self._gate,
                whole_words=call.redact is not None,
                leave_group=request.source == _OF_USER,
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
        if hasattr(self, "running") and self._stopping is None:
            self._stopping = asyncio.ensure_future(self.running.kill())

    async def _report(self, result: CommandResult) -> CommandResult:
        """Show the end of the command, and return its result with what only the framework knows."""
        if self._gate is not None:
            self.was_blocked = await end_gate(self._gate, self.call.emit)
        if is_sandbox_denial(result, confined=self.access.confines):
            result = result.evolve(denied=True)
        self._span.set(exit_code=result.exit_code, timed_out=result.timed_out, denied=result.denied)
        self._span.finish(failed=result.exit_code != 0)
        if self.request.announce:
            redact = self.call.redact  # first, because half of a secret is not recognised
            whole = result.output if redact is None else redact(result.output)
            self._emit_end(result, self._limit_text(whole), "completed" if result.exit_code == 0 else "failed")
        return result

    def show_failed_start(self, error: ToolError) -> None:
        """Show clients a permitted command that a sandbox refused to start, or that could not be started."""
        if isinstance(error, ToolRefused):
            self.call.refused(Actor(role="sandbox"), str(error))
            self.show_unstarted(str(error), "declined")
        else:
            self.show_unstarted(f"execution error: {error}", "failed")

    def show_unstarted(self, reason: str, status: str) -> None:
        """Show clients a command that was not started: its begin and end events."""
        if self.request.announce:
            self._emit_begin(0)
            result = CommandResult(
                exit_code=-1, stdout="", stderr=reason, output=reason, total_bytes=0, omitted_bytes=0, duration_s=0.0
            )
            self._emit_end(result, reason, status)

    def _emit_begin(self, process_id: int) -> None:
        self._shown = {
            "call_id": self.call.call_id,
            "turn_id": self.call.turn_id,
            "cwd": str(self.cwd),
            "process_id": str(process_id) if process_id else None,
            "source": self.request.source,
            **shown_command(self.request),
        }
        self.call.emit(ExecCommandBeginEvent(**self._shown, started_at_ms=_now_ms()))

    def _emit_chunk(self, chunk: OutputChunk) -> None:
        self.call.emit(ExecCommandOutputDeltaEvent(call_id=self.call.call_id, stream=chunk.stream, chunk=chunk.data))

    def _emit_end(self, result: CommandResult, formatted: str, status: str) -> None:
        self.call.emit(
            ExecCommandEndEvent(
                **self._shown,
                completed_at_ms=_now_ms(),
                stdout=result.stdout,
                stderr=result.stderr,
                aggregated_output=result.output,
                exit_code=result.exit_code,
                duration_s=result.duration_s,
                formatted_output=formatted,
                status=status,
            )
        )


def _now_ms() -> int:
    return int(time.time() * 1000)
