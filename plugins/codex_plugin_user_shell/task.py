"""The task that runs a person's command and records what came of it."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from codex_framework import CommandRequest, CommandResult, Task, TaskContext, ToolError
from codex_framework.contract.protocol.events import ExecCommandBeginEvent, ExecCommandEndEvent
from codex_plugin_user_shell.report import ABORTED, record_of

__all__ = ["TIMEOUT_MS", "UserShell"]

TIMEOUT_MS = 3_600_000
"""How long a command may run: an hour (Codex's limit)."""

_SOURCE = "user_shell"


class UserShell(Task):
    """Runs one command. Beside a turn, the turn's next request to the model shows what came of it.

    Args:
        timeout_ms: After so many milliseconds the command is killed.
    """

    kind = "user_shell"
    concurrent: ClassVar[bool] = True

    def __init__(self, timeout_ms: int = TIMEOUT_MS) -> None:
        self._timeout_ms = timeout_ms

    async def run(self, turn: TaskContext, input: str) -> None:  # noqa: A002  # the word of the contract
        """Run the command ``input`` and record it with its result."""
        request = CommandRequest(
            argv=(turn.facts.shell, "-lc", input), timeout_ms=self._timeout_ms, source=_SOURCE, script=input
        )
        try:
            result = await turn.run_command(request, as_user=True)
        except asyncio.CancelledError:
            turn.record([record_of(input, ABORTED, turn.facts.model)])
            raise
        except ToolError as error:
            result = _not_started(turn, request, error)
        turn.record([record_of(input, result, turn.facts.model, self._timeout_ms)])


def _not_started(turn: TaskContext, request: CommandRequest, error: ToolError) -> CommandResult:
    """Show clients a command that could not even be started, as one that has failed at once."""
    text = f"execution error: {error}"
    result = CommandResult(
        exit_code=-1, stdout="", stderr=text, output=text, total_bytes=0, omitted_bytes=0, duration_s=0.0
    )
    now = int(time.time() * 1000)
    common: dict[str, Any] = {
        "call_id": f"user_shell_{now}",
        "turn_id": turn.facts.turn_id,
        "command": request.argv,
        "cwd": str(turn.facts.cwd),
        "source": _SOURCE,
    }
    turn.emit(ExecCommandBeginEvent(started_at_ms=now, **common))
    turn.emit(
        ExecCommandEndEvent(
            completed_at_ms=now,
            stdout="",
            stderr=text,
            aggregated_output=text,
            exit_code=-1,
            duration_s=0.0,
            formatted_output=text,
            status="failed",
            **common,
        )
    )
    return result
