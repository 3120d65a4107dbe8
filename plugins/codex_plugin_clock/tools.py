"""The tools themselves. Names, arguments and outputs are Codex's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolNamespace,
    ToolOutput,
    TurnFacts,
    arguments_schema,
    parse_arguments,
)
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent

__all__ = ["CurrentTime", "Sleep"]

_LONGEST_MS = 12 * 60 * 60 * 1000
_GROUP = ToolNamespace("clock", "Tools that read the time and wait.")
_ARGUMENTS = {
    "duration_ms": Argument(
        "u64", f"How long to wait, in milliseconds: 1 to {_LONGEST_MS}.", required=True, schema={"type": "number"}
    )
}
_RESULT = {
    "type": "object",
    "properties": {"current_time": {"type": "string", "description": "The time in UTC: YYYY-MM-DD HH:MM:SS UTC."}},
    "required": ["current_time"],
    "additionalProperties": False,
}


class _ClockTool(Tool):
    """A tool for models that know ``clock``."""

    parallel_safe = True
    reads = frozenset({"config", "model"})

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether the model knows the tool, unless ``features.sleep_tool`` is off."""
        features = turn.config.get("features")
        setting = features.get("sleep_tool") if isinstance(features, Mapping) else None
        if isinstance(setting, Mapping):
            setting = setting.get("enabled")
        return setting is not False and "clock" in turn.model.extra_tools


class Sleep(_ClockTool):
    """Waits for some time, or until the user writes."""

    tells_clients = True
    spec = FunctionSpec(
        "clock__sleep",
        "Waits for some time, and returns how long it took. The wait ends early if the user writes.",
        arguments_schema(_ARGUMENTS),
        namespace=_GROUP,
        local_name="sleep",
        model_only=True,
    )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        duration_ms = parse_arguments(call.arguments, _ARGUMENTS)["duration_ms"]
        if not 1 <= duration_ms <= _LONGEST_MS:
            raise ToolError(f"duration_ms must be between 1 and {_LONGEST_MS}")
        item = {"type": "Extension", "kind": "clock.sleep", "id": context.call_id, "durationMs": duration_ms}
        _tell(context, ItemStartedEvent, item)
        began = time.monotonic()
        try:
            await asyncio.wait_for(context.turn.until_input(), duration_ms / 1000)
            end = "Sleep interrupted by new input."
        except TimeoutError:
            end = "Sleep completed."
        finally:
            _tell(context, ItemCompletedEvent, item)
        return ToolOutput(f"Wall time: {time.monotonic() - began:.4f} seconds\n{end}", truncate=False)


class CurrentTime(_ClockTool):
    """Tells the time in UTC. Clients are not told of the call, as in Codex."""

    tells_clients = True

    spec = FunctionSpec(
        "clock__curr_time",
        "Returns the current time in UTC.",
        arguments_schema({}),
        namespace=_GROUP,
        local_name="curr_time",
        result=_RESULT,
    )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # nobody is told
        """Run one call."""
        parse_arguments(call.arguments, {})
        now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        return ToolOutput(f"It is {now}.", truncate=False, result={"current_time": now})


def _tell(context: ToolContext, event: type[ItemStartedEvent | ItemCompletedEvent], item: dict[str, Any]) -> None:
    context.emit(event(context.turn.facts.thread_id, context.turn_id, item, int(time.time() * 1000)))
