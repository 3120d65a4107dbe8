"""The tools ``exec`` and ``wait``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from codex_framework import (
    Argument,
    FreeformFormat,
    FreeformSpec,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolSpec,
    TurnEnded,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)
from codex_plugin_code_mode.mode import mode_of

if TYPE_CHECKING:
    from codex_plugin_code_mode.cells import Cell, Cells
    from codex_plugin_code_mode.nesting import Nestings

__all__ = ["Exec", "Wait"]

_EXEC_YIELD_MS = 30_000
_WAIT_YIELD_MS = 10_000
_LONGEST_YIELD_MS = 3_600_000
"""Defaults of ``yield_time_ms`` (Codex's), and the longest."""

_WAIT = """\
Waits for a script that `exec` has left running ("Script running with cell ID ..."), and returns its new output.
If it is still running when the time is over, call `wait` again. `terminate` ends it."""

_ARGUMENTS = {
    "cell_id": Argument("string", "The cell ID of the script.", required=True),
    "yield_time_ms": Argument("u64", "How long to wait, in milliseconds. Default 10000."),
    "max_tokens": Argument("usize", "Maximum output in tokens. The middle of longer output is omitted. Default 10000."),
    "terminate": Argument("boolean", "End the script instead of waiting for it."),
}


class _CodeTool(Tool):
    parallel_safe = True
    reads = frozenset({"config", "model"})
    tells_clients = True

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether the turn is in code mode."""
        return mode_of(turn) is not None


class Exec(_CodeTool):
    """Runs a script that calls other tools. The calls are shown to clients, not the script.

    Args:
        nestings: Returns the tools that scripts can call.
    """

    spec = FreeformSpec("exec", "Runs a script that calls other tools.", FreeformFormat("lark", "start: /[\\s\\S]+/"))

    def __init__(self, nestings: Callable[[], Nestings]) -> None:
        self._nestings = nestings

    def arrange(self, specs: Sequence[ToolSpec], turn: TurnFacts) -> Sequence[ToolSpec]:
        """Put the tools for scripts into the description of this one."""
        return self._nestings().arranged(specs, turn)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run a script, and return its output up to its end, or to the end of the waiting time."""
        from codex_plugin_code_mode.pragma import settings_of

        text = call.arguments
        if not text.strip():
            raise ToolError("exec expects a script in JavaScript, and got none")
        settings = settings_of(text)
        cells = _cells(context)
        started = time.monotonic()
        cell = await cells.begin(settings.source, context)
        wait_ms = _EXEC_YIELD_MS if settings.yield_time_ms is None else settings.yield_time_ms
        return await _await_output(cells, cell, context, started, wait_ms, settings.max_output_tokens)


class Wait(_CodeTool):
    """Waits for a script that is still running."""

    spec = FunctionSpec("wait", _WAIT, arguments_schema(_ARGUMENTS), model_only=True)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Return the new output of a script."""
        from codex_plugin_code_mode.output import failure, report

        given: dict[str, Any] = parse_arguments(call.arguments, _ARGUMENTS)
        cells = _cells(context)
        started = time.monotonic()
        cell = cells.find(given["cell_id"])
        tokens = given.get("max_tokens")
        if cell is None:
            unknown = [failure(f"exec cell {given['cell_id']} not found")]
            return report("Script failed", unknown, context, seconds=0, max_tokens=tokens, success=False)
        if given.get("terminate"):
            was_running = not cell.ended
            cells.drop(cell)
            await cell.end()
            if was_running:
                parts, omitted = cell.take()
                seconds = time.monotonic() - started
                return report("Script terminated", parts, context, seconds=seconds, max_tokens=tokens, omitted=omitted)
        wait_ms = given.get("yield_time_ms", _WAIT_YIELD_MS)
        return await _await_output(cells, cell, context, started, wait_ms, tokens)


async def _await_output(
    cells: Cells, cell: Cell, context: ToolContext, started: float, wait_ms: int, max_tokens: int | None
) -> ToolOutput:
    """Return the output of a script up to its end, or to the end of the waiting time. An interrupt ends it."""
    from codex_plugin_code_mode.output import failure, report

    try:
        ended = await cell.pause(context, min(wait_ms, _LONGEST_YIELD_MS) / 1000)
    except BaseException:
        cells.drop(cell)
        await cell.end()
        raise
    parts, omitted = cell.take()
    status = f"Script running with cell ID {cell.id}"
    if ended:
        cells.drop(cell)
        status = "Script completed" if cell.error is None else "Script failed"
        parts = parts if cell.error is None else [*parts, failure(cell.error)]
    seconds = time.monotonic() - started
    return report(
        status,
        parts,
        context,
        seconds=seconds,
        max_tokens=max_tokens,
        omitted=omitted,
        success=not ended or cell.error is None,
    )


def _cells(context: ToolContext) -> Cells:
    from codex_plugin_code_mode.component import Scripts

    try:
        return context.turn.thread.component(Scripts).cells
    except TurnEnded as error:
        raise ToolError(str(error)) from error
