"""The actions of a task in its turn: sample, run the loop, call tools, run commands, compact."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import ModelError, ToolError
from codex_framework.contract.protocol.events import StreamErrorEvent, TokenUsage, WarningEvent
from codex_framework.contract.protocol.items import Message, ResponseItem, message_text
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.commands import CommandRequest, CommandResult
from codex_framework.contract.roles.models import Completed, ModelRequest
from codex_framework.contract.roles.outcomes import Outcome, SampleResult
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.tool_specs import FreeformSpec, ToolSpec
from codex_framework.threads.turn.compaction import ContextPlace
from codex_framework.threads.turn.driver import TurnDriver
from codex_framework.threads.turn.inputs import InputArrived
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.machine import BACKOFF_BASE_S, with_wait
from codex_framework.threads.turn.model_stream import delay_of, info_of, jitter
from codex_framework.threads.turn.sampling import Sampling
from codex_framework.threads.turn.turn_context import TurnActions, TurnContexts

if TYPE_CHECKING:
    from codex_framework.threads.task_run import Run
    from codex_framework.threads.turn.call_runner import CallRunner

__all__ = ["actions_of"]

_SERIAL = itertools.count(1)


def actions_of(
    contexts: TurnContexts,
    run: Run,
    *,
    record: Callable[[Sequence[ResponseItem]], None],
    refused: Callable[[InputArrived, str], None],
) -> TurnActions:
    """Return the actions of a task.

    Args:
        run: The task. An answer to an approval can interrupt it, and an interceptor of a call can stop it.
        record: Adds items to history, or delivers them for a task beside a turn.
        refused: Called with input that an interceptor refused.
    """
    actions = _Actions(contexts, run, record, refused)
    return TurnActions(
        call_tool=actions.call_tool,
        sample=actions.sample,
        run_loop=actions.run_loop,
        run_command=actions.run_command,
        compact=actions.compact,
        record=actions.record,
    )


def _call(call_id: str, name: str, arguments: Mapping[str, Any] | str, spec: ToolSpec) -> ToolCall:
    """Return a call in the form that the model would use."""
    if not isinstance(spec, FreeformSpec):
        if isinstance(arguments, str):
            raise ToolError(f"{name} takes arguments by name, not a text")
        return ToolCall(call_id, name, json.dumps(arguments))
    texts = [arguments] if isinstance(arguments, str) else list(arguments.values())
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise ToolError(f"{name} takes one text")
    return ToolCall(call_id, name, texts[0], "custom")


class _Actions:
    def __init__(
        self,
        contexts: TurnContexts,
        run: Run,
        record: Callable[[Sequence[ResponseItem]], None],
        refused: Callable[[InputArrived, str], None],
    ) -> None:
        self._contexts = contexts
        self._scope = contexts.scope
        self._run = run
        self._record = record
        self._refused = refused

    def _calls(self) -> CallRunner:
        from codex_framework.threads.turn.call_runner import CallRunner

        return CallRunner(
            self._contexts,
            Interception(self._contexts),
            interrupt=lambda: self._run.interrupt("interrupted"),
            stop=self._run.stop,
        )

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | str, call_id: str | None, caller: str, within: str | None
    ) -> ToolOutput:
        """Call a tool of the turn."""
        registered = self._scope.router.find(name)
        if registered is None:
            raise ToolError(f"there is no tool {name!r} in this turn")
        call = _call(call_id or f"task_{next(_SERIAL)}", name, arguments, registered.spec)
        return await self._calls().run(call, self._scope.router, caller=caller, within=within)

    async def run_command(self, request: CommandRequest, as_user: bool) -> CommandResult:  # noqa: FBT001  # TurnActions
        """Run a command to its end."""
        calls = self._calls()
        call_id = f"task_{next(_SERIAL)}"
        caller = calls.caller(call_id)
        commands = self._scope.conversation.commands
        result = await (commands.run_as_user if as_user else commands.run)(request, caller)
        return calls.redaction.redact_value(result, call_id)

    def record(self, items: Sequence[ResponseItem], by: Actor) -> None:
        """Record items of a plugin. Items that are not from the model are redacted."""
        if self._scope.guards.redact:
            from codex_framework.threads.turn.redaction import Redaction

            items = Redaction(self._scope).redact_items(items)
        self._scope.conversation.trail.record_addition("record", by, items, self._scope.turn_id)
        self._record(items)

    async def compact(self, reason: str) -> None:
        """Shorten the history."""
        place: ContextPlace = (
            "last_words" if self._scope.samples else "next_turn"
        )  # the compactor sends requests to the model too
        edit = await Interception(self._contexts).compact(reason)
        for text in self._scope.compaction.complete(edit, self._scope.facts_at(), place):
            self._scope.emit(WarningEvent(text, slug="compacted"))

    async def run_loop(self) -> Outcome:
        """Run the built-in loop over the current history."""
        for text in self._scope.conversation.update_context(self._scope.facts_at()).warnings:
            self._scope.emit(WarningEvent(text, slug="context"))
        driver = TurnDriver(self._contexts, refused=self._refused, marks=False)
        driver.begin()
        try:
            return await asyncio.shield(driver.done)
        except asyncio.CancelledError:
            driver.interrupt("interrupted")
            await driver.done
            raise

    async def sample(self, request: ModelRequest, announce: bool) -> SampleResult:  # noqa: FBT001  # TurnActions
        """Sample the model, and retry if the response breaks off."""
        retries = self._scope.provider.stream_max_retries
        for attempt in range(1, retries + 2):
            items: list[ResponseItem] = []
            try:
                completed = await self._once(request, items, announce=announce)
            except ModelError as error:
                if not error.retryable or attempt > retries:
                    raise
                await self._pause(error, attempt, retries, announce=announce)
                continue
            messages = [message_text(item) for item in items if isinstance(item, Message) and item.role == "assistant"]
            usage: TokenUsage | None = completed.usage
            return SampleResult(items=items, message=messages[-1] if messages else None, usage=usage)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, request: ModelRequest, items: list[ResponseItem], *, announce: bool) -> Completed:
        reached = self._scope.conversation.budget.reached_limit()
        if reached is not None:
            from codex_framework.threads.task_run import LIMIT_INFO

            raise ModelError(reached, info=LIMIT_INFO)
        sampling = Sampling(
            self._scope,
            Interception(self._contexts),
            lambda item, _: items.append(item),
            announce=announce,
            of_history=False,
        )
        return await sampling.run(request)

    async def _pause(self, error: ModelError, attempt: int, retries: int, *, announce: bool) -> None:
        delay = delay_of(error)
        if delay is None:
            delay = BACKOFF_BASE_S * 2 ** (attempt - 1) * jitter()
        if announce:
            details = with_wait(str(error), delay)
            self._scope.emit(StreamErrorEvent(f"Reconnecting... {attempt}/{retries}", info_of(error), details))
        await asyncio.sleep(delay)
