"""Runs calls of the model: interceptors, approvals, the tool itself, and what clients hear of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import get_args

from codex_framework.contract.errors import FatalToolError, StopTurn, ToolError
from codex_framework.contract.protocol.events import EventMsg, ToolCallBeginEvent, ToolCallEndEvent
from codex_framework.contract.protocol.items import CallItem, ContentItem
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.plugins.registration import RegisteredTool
from codex_framework.threads.faults import Label, WrongValue, described, place_of
from codex_framework.threads.patience import contained
from codex_framework.threads.tool_router import ToolRouter
from codex_framework.threads.turn.approvals import Approvals
from codex_framework.threads.turn.call_context import CallContext
from codex_framework.threads.turn.calls import call_name, tool_call
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.redaction import redacted
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["CallRunner"]

_CONTENT: tuple[type, ...] = get_args(ContentItem)


class CallRunner:
    """Runs calls of the model: interceptors, approvals, the tool itself, and what clients hear of it.

    Args:
        contexts: The turn as plugins have it.
        interrupt: Interrupts the turn.
        stop: Ends the turn as a normal stop, with a sentence for the person.
    """

    def __init__(
        self,
        contexts: TurnContexts,
        interception: Interception,
        *,
        interrupt: Callable[[], None],
        stop: Callable[[str], None],
    ) -> None:
        self._contexts = contexts
        self._scope = contexts.scope
        self._interception = interception
        self.approvals = Approvals(contexts, interrupt)
        self._stop = stop

    def is_parallel(self, item: CallItem) -> bool:
        """Return whether a call may overlap with others."""
        registered = self._scope.router.find(call_name(item))
        if registered is None or not registered.parallel:
            return False
        return not self._scope.guards.alone or not self._interception.alone(tool_call(item))

    async def run(self, call: ToolCall, router: ToolRouter) -> ToolOutput:
        """Run a call to its end; whatever goes wrong becomes an output for the model.

        Args:
            router: The table of the sample that the call came from.

        Raises:
            FatalToolError: The turn has to end.
        """
        parts = self._scope.conversation.parts
        if parts:
            await parts.wait_for_calls()
        self._scope.conversation.budget.tool_call()
        try:
            call = await self._interception.before_tool(call)
            output = await self._interception.after_tool(call, await self._run(call, router))
        except ToolError as error:
            output = ToolOutput(str(error), success=False)
        except StopTurn as error:
            self._stop(str(error))
            output = ToolOutput(f"{call.name} was stopped: {error}", success=False)
        except FatalToolError:
            raise
        except (Exception, SystemExit) as error:  # what is broken is the model's news, neither the turn's end nor ours
            self._tell_author(call, router, error)
            output = ToolOutput(f"{call.name} failed: {described(error)}", success=False)
        return self._redacted(output)

    async def _run(self, call: ToolCall, router: ToolRouter) -> ToolOutput:
        registered = router.find(call.name)
        if registered is None:
            kind = "custom tool call" if call.kind == "custom" else "call"
            raise ToolError(f"unsupported {kind}: {call.name}")
        if registered.needs_approval is not None:
            await self.approvals.approve(registered, call)
        context = self._context(call, registered)
        told = None if registered.tells_clients else self._begin(call, registered)
        output = ToolOutput("", success=False)
        try:
            output = await self._called(registered, call, context)
        except ToolError as error:
            output = ToolOutput(str(error), success=False)
            raise
        finally:
            await context.scope.aclose()
            if told is not None:
                self._end(call, registered, output, told)
        limited = self._scope.limited(output.content) if output.truncate else output.content
        return output if limited is output.content else output.evolve(content=limited)

    async def _called(self, registered: RegisteredTool, call: ToolCall, context: CallContext) -> ToolOutput:
        result: object = await contained(registered.tool.run, call, context)
        output = ToolOutput(result) if isinstance(result, str) else result
        if isinstance(output, ToolOutput) and _is_content(output.content):
            return output
        wrong = output.content if isinstance(output, ToolOutput) else output
        kind = "None" if wrong is None else type(wrong).__name__
        text = f"it returned {kind}, not text or a ToolOutput"
        label = Label("tool", registered.spec.name, registered.plugin)
        self._scope.conversation.notices.tell(label.failed("run", WrongValue(text, registered.tool.run)))
        raise ToolError(f"{call.name} failed: {text}")

    def _context(self, call: ToolCall, registered: RegisteredTool) -> CallContext:
        scope = self._scope
        conversation = scope.conversation
        caller = scope.caller(call.call_id, self.approvals.ask)
        if self._interception.redacts:
            caller = caller.evolve(emit=self._emit_redacted)
        return CallContext(
            thread_id=conversation.id,
            model=scope.model,
            caller=caller,
            commands=conversation.commands,
            patches=conversation.patches,
            plugin_state=conversation.plugin_state,
            diff=scope.diff,
            plugin=registered.plugin,
            around=self._contexts(registered.plugin),
        )

    # What clients hear

    def _begin(self, call: ToolCall, registered: RegisteredTool) -> float:
        self._emit_redacted(
            ToolCallBeginEvent(
                call_id=call.call_id,
                turn_id=self._scope.turn_id,
                tool=registered.spec.name,
                plugin=registered.plugin,
                arguments=call.arguments,
                started_at_ms=int(time.time() * 1000),
            )
        )
        return time.monotonic()

    def _end(self, call: ToolCall, registered: RegisteredTool, output: ToolOutput, started: float) -> None:
        parts = (output.content,) if isinstance(output.content, str) else output.content
        texts = (part if isinstance(part, str) else getattr(part, "text", "") for part in parts)
        self._emit_redacted(
            ToolCallEndEvent(
                call_id=call.call_id,
                turn_id=self._scope.turn_id,
                tool=registered.spec.name,
                plugin=registered.plugin,
                arguments=call.arguments,
                output="\n".join(filter(None, texts)),
                success=output.success,
                duration_s=time.monotonic() - started,
                details=output.details,
            )
        )

    def _emit_redacted(self, msg: EventMsg) -> None:
        """Tell clients, without what interceptors keep from them; what is streamed is not told at all then."""
        if not self._interception.redacts:
            self._scope.emit(msg)
        elif not msg.is_delta:
            self._scope.emit(redacted(msg, self._interception.redact))

    def _redacted(self, output: ToolOutput) -> ToolOutput:
        return redacted(output, self._interception.redact) if self._interception.redacts else output

    def _tell_author(self, call: ToolCall, router: ToolRouter, error: BaseException) -> None:
        """Tell where a tool raised what it should not raise."""
        registered = router.find(call.name)
        plugin = "" if registered is None else f" of plugin {registered.plugin!r}"
        text = self._interception.redact(described(error))
        self._scope.conversation.notices.tell(f"tool {call.name!r}{plugin}: {text}{place_of(error)}")


def _is_content(content: object) -> bool:
    return isinstance(content, str) or (
        isinstance(content, tuple) and all(isinstance(part, _CONTENT) for part in content)
    )
