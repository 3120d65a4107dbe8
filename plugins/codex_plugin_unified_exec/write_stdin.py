"""The tool ``write_stdin``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)
from codex_framework.toolkit.environments import environment_for
from codex_plugin_unified_exec.offering import RESULT, is_offered

if TYPE_CHECKING:
    from codex_plugin_unified_exec.sessions import Session

__all__ = ["WriteStdin"]

_TYPING_YIELD_MS = (250, 30_000)
"""Minimum (and default) and maximum wait after input, in milliseconds (Codex's)."""

_SHORTEST_POLL_MS = 5000
_LONGEST_POLL_MS = 300_000
"""Bounds of the wait without input, in milliseconds (Codex's; ``background_terminal_max_timeout`` sets the upper one)."""

_INTERRUPT = "\x03"

_ARGUMENTS = {
    "session_id": Argument("i32", "The session ID that exec_command returned.", required=True),
    "chars": Argument(
        "string",
        "What to type, line ends included. Needs a session with tty, except for \\u0003 (Ctrl-C), which "
        "interrupts any command. Leave it out to wait for more output.",
    ),
    "yield_time_ms": Argument(
        "u64",
        "How long to wait for output, in milliseconds: 250 (the default) to 30000 after typing, at least "
        "5000 otherwise. The wait ends early when the command does.",
    ),
    "max_output_tokens": Argument(
        "usize", "Maximum output in tokens. The middle of longer output is omitted. Default 10000."
    ),
}


class WriteStdin(Tool):
    """Sends input to a running command, or waits for it, and returns its new output."""

    parallel_safe = False
    reads = frozenset({"config", "model"})
    tells_clients = True
    spec = FunctionSpec(
        "write_stdin",
        "Types into a command that exec_command left running, or waits for it. Returns what it has printed since the last call.",
        arguments_schema(_ARGUMENTS),
        result=RESULT,
    )

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether these are the command tools of the turn."""
        return is_offered(turn)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_plugin_unified_exec.sessions import sessions_of

        started = time.monotonic()
        arguments = parse_arguments(call.arguments, _ARGUMENTS)
        environment_for(context, None)
        chars: str = arguments.get("chars", "")
        sessions = sessions_of(context)
        session = sessions.use(arguments["session_id"])

        from codex_framework.contract.protocol.events.command import TerminalInteractionEvent
        from codex_plugin_unified_exec.report import report
        from codex_plugin_unified_exec.sessions import wait_for_end

        wait_ms = _wait_ms(chars, arguments.get("yield_time_ms"), context.config)
        if chars and session.running.exit_code is None:
            await _type(session, chars, wait_ms)
        context.emit(TerminalInteractionEvent(call_id=session.call_id, process_id=str(session.id), stdin=chars))
        exit_code = await wait_for_end(session.running, wait_ms)
        if exit_code is not None:
            sessions.drop(session)
        return report(
            context,
            session.running.take(),
            wall_s=time.monotonic() - started,
            exit_code=exit_code,
            session_id=session.id if exit_code is None else None,
            max_tokens=arguments.get("max_output_tokens"),
            call_id=session.call_id,
            script=session.script,
        )


def _wait_ms(chars: str, wanted: int | None, config: Mapping[str, Any]) -> int:
    if chars:
        shortest, longest = _TYPING_YIELD_MS
    else:
        limit = config.get("background_terminal_max_timeout", _LONGEST_POLL_MS)
        shortest, longest = _SHORTEST_POLL_MS, max(int(limit), _SHORTEST_POLL_MS)
    return min(max(shortest if wanted is None else wanted, shortest), longest)


async def _type(session: Session, chars: str, wait_ms: int) -> None:
    if not session.tty:
        if chars != _INTERRUPT:
            fact = "stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"
            raise ToolError(f"write_stdin failed: {fact}")
        session.running.interrupt()
        return
    try:
        async with asyncio.timeout(wait_ms / 1000):
            await session.running.write(chars.encode("utf-8", "replace"))
    except TimeoutError:
        raise ToolError("write_stdin failed: the command does not read its input") from None
    except ToolError:
        from codex_plugin_unified_exec.sessions import wait_for_end

        if session.running.exit_code is None:
            await wait_for_end(session.running, wait_ms)  # it is just ending, which the report will show
