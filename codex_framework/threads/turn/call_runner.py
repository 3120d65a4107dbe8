"""Runs calls of the model: interceptors, approvals, the tool itself, and the events for clients."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import TypeVar, get_args

from codex_framework.commands.caller import Caller
from codex_framework.contract.errors import FatalToolError, StopTurn, ToolError, ToolRefused
from codex_framework.contract.protocol.events import EventMsg, ToolCallBeginEvent, ToolCallEndEvent
from codex_framework.contract.protocol.items import AnyCall, ContentItem
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.value import Value, fields_of
from codex_framework.loader.interceptor_table import Guard
from codex_framework.loader.registration import RegisteredTool
from codex_framework.threads.faults import Label, WrongValue, described, place_of
from codex_framework.threads.plugin_calls import call_async, self_cancellation
from codex_framework.threads.spans import RunningSpan
from codex_framework.threads.tool_router import ToolRouter
from codex_framework.threads.turn.approvals import Approvals
from codex_framework.threads.turn.call_context import CallContext
from codex_framework.threads.turn.call_order import Place
from codex_framework.threads.turn.calls import call_name, tool_call
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.redaction import redacted
from codex_framework.threads.turn.turn_context import TurnContexts
from codex_framework.toolkit.spans import NO_SPAN, NoSpan

__all__ = ["CallRunner"]

_RAISE = "Fix the tool, or raise ToolError with a text that helps the model."
"""What the author of a tool can do about an exception."""

V = TypeVar("V", bound=Value)

_CONTENT: tuple[type, ...] = get_args(ContentItem)


class CallRunner:
    """Runs calls of the model: interceptors, approvals, the tool itself, and the events for clients.

    Args:
        contexts: The contexts of the turn.
        interrupt: Interrupts the turn.
        stop: Ends the turn as a normal stop, with a sentence for the user.
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

    def is_parallel(self, item: AnyCall) -> bool:
        """Return whether a call may overlap with others."""
        registered = self._scope.router.find(call_name(item))
        return registered is not None and registered.parallel and self._overlaps(tool_call(item), registered)

    async def run(
        self, call: ToolCall, router: ToolRouter, *, caller: str | None = None, within: str | None = None
    ) -> ToolOutput:
        """Run a call to its end, once it may run. Failures become outputs for the model.

        Args:
            router: The tools of the sample that contains the call.
            caller: The plugin that makes the call, which may call any tool. None means the model, which may call what it is offered.
            within: The id of the call whose tool makes this one.

        Raises:
            FatalToolError: The turn must end.
        """
        registered = router.find(call.name)
        plugin = "" if registered is None else registered.plugin
        place = Place(call.call_id, lambda: self._overlaps(call, registered), plugin, caller, within)
        async with self._scope.order.turn_of(place):
            return await self._ended(call, router, by_model=caller is None)

    def _overlaps(self, call: ToolCall, registered: RegisteredTool | None) -> bool:
        if registered is None or not registered.parallel:
            return False
        return not self._scope.guards.alone or not self._interception.alone(call)

    async def _ended(self, call: ToolCall, router: ToolRouter, *, by_model: bool) -> ToolOutput:
        parts = self._scope.conversation.parts
        if parts:
            await parts.wait_for_calls()
        budget = self._scope.conversation.budget
        spent = None if by_model else budget.reached()
        budget.tool_call()
        guards = self._scope.guards
        try:
            if spent is not None:  # the model's own calls end with the next sample, but a program could go on for ever
                raise ToolRefused(spent)
            named = call.name
            if guards.before_tool:
                call = await self._interception.before_tool(call)
            if by_model and call.name == named and not router.may_call(named):
                raise _unsupported(call)
            output = await self._run(call, router)
            if guards.after_tool:
                output = _consistent(await self._interception.after_tool(call, output), output)
        except ToolError as error:
            output = ToolOutput(str(error), success=False)
            if isinstance(error, ToolRefused):
                self._tell_refused(call, router, error)
        except StopTurn as error:
            self._stop(str(error))
            output = ToolOutput(f"{call.name} was stopped: {error}", success=False)
        except FatalToolError:
            raise
        except (
            Exception,
            SystemExit,
        ) as error:  # a broken tool is reported to the model, and ends neither the turn nor the program
            self._tell_author(call, router.find(call.name), error)
            output = ToolOutput(f"{call.name} failed: {described(error)}", success=False)
        return self.redacted(output, call.call_id)

    def _tell_refused(self, call: ToolCall, router: ToolRouter, error: ToolRefused) -> None:
        """Write into the record that a call was refused, unless it says so already."""
        if self._scope.keeps_changes:
            registered = router.find(call.name)
            self._scope.changes.fell(call, str(error), "" if registered is None else registered.plugin)

    def measuring(self, call: ToolCall, router: ToolRouter) -> RunningSpan | NoSpan:
        """Return the span of a call."""
        scope = self._scope
        scope.calls += 1
        if not scope.telemetry.measures:
            return NO_SPAN
        registered = router.find(call.name)
        plugin = "" if registered is None else registered.plugin
        scope.telemetry.measured_call(call.call_id, call.name)
        return scope.telemetry.measuring("codex.tool.call", tool_name=call.name, call_id=call.call_id, plugin=plugin)

    def measured(self, span: RunningSpan | NoSpan, call: ToolCall, output: ToolOutput) -> None:
        """Add the end of a call to its span."""
        if span.place is not None:
            span.set(success=output.success)
            span.tell(arguments=self._interception.redact(call.arguments), output=text_of(output))

    def redacted(self, value: V, call_id: str, place: str = "output") -> V:
        """Return a value without what interceptors keep secret.

        Args:
            place: What the value is, for the record.
        """
        if not self._interception.redacts:
            return value
        changed: dict[Guard, None] = {}
        clean = redacted(value, lambda text: self._interception.redact(text, changed.setdefault))
        if changed and self._scope.keeps_changes:
            fields = [
                field.name
                for field in fields_of(type(value))
                if getattr(value, field.name) != getattr(clean, field.name)
            ]
            self._scope.changes.redacted(call_id, changed, [f"{place}.{name}" for name in fields])
        return clean

    def _redact(self, text: str, call_id: str) -> str:
        """Return a text of a call without what interceptors keep secret."""
        changed: dict[Guard, None] = {}
        clean = self._interception.redact(text, changed.setdefault)
        if changed and self._scope.keeps_changes:
            self._scope.changes.redacted(call_id, changed, ["output"])
        return clean

    def caller(self, call_id: str, environment_id: str | None = None) -> Caller:
        """Return the caller of commands whose events and outputs are redacted, if an interceptor redacts."""
        caller = self._scope.caller(call_id, self.approvals.ask, environment_id)
        if self._interception.redacts:
            caller = caller.evolve(
                emit=lambda msg: self._emit_redacted(msg, call_id), redact=lambda text: self._redact(text, call_id)
            )
        return caller

    async def _run(self, call: ToolCall, router: ToolRouter) -> ToolOutput:
        registered = router.find(call.name)
        if registered is None:
            raise _unsupported(call)
        self._scope.narrow()
        if registered.needs_approval is not None:
            try:
                await self.approvals.approve(registered, call)
                self._scope.narrow()  # an answer can take a while
            except ToolError as error:
                await self._refused(registered, call, str(error))
                raise
        context = self._context(call, registered)
        called = self._called if registered.tells_clients else self._announced
        output = await called(registered, call, context)
        limited = self._scope.limited(output.content) if output.truncate else output.content
        if limited is output.content:
            return output
        if self._interception.redacts:  # first, because half of a secret is not recognised
            limited = self._scope.limited(self.redacted(output, call.call_id).content)
        return output.evolve(content=limited)

    async def _refused(self, registered: RegisteredTool, call: ToolCall, why: str) -> None:
        """Let clients see a call that was not allowed."""
        if not registered.tells_clients:
            started = self._begin(call, registered)
            self._end(call, registered, ToolOutput(why, success=False), started)
        elif registered.refused is not None:
            context = self._context(call, registered)
            notices = self._scope.conversation.notices
            try:
                notices.timed(registered.label, "refused", registered.refused, call, context, why)
            except Exception as error:  # a plugin may raise anything
                then = "Clients do not see the call."
                notices.tell(registered.label.failed("refused", error, then=then, source=registered.refused))
            finally:
                if not context.scope.empty:
                    await context.scope.aclose()

    async def _announced(self, registered: RegisteredTool, call: ToolCall, context: CallContext) -> ToolOutput:
        """Run a tool that emits no events about its calls between a begin and an end event."""
        started = self._begin(call, registered)
        output = ToolOutput("", success=False)
        try:
            output = await self._called(registered, call, context)
        except ToolError as error:
            output = ToolOutput(str(error), success=False)
            raise
        finally:
            self._end(call, registered, output, started)
        return output

    async def _called(self, registered: RegisteredTool, call: ToolCall, context: CallContext) -> ToolOutput:
        try:
            result: object = await call_async(registered.tool.run, call, context)
        except asyncio.CancelledError as error:
            if (own := self_cancellation(error)) is None:
                raise
            raise own from error
        finally:
            if not context.scope.empty:
                await context.scope.aclose()
        output = ToolOutput(result) if isinstance(result, str) else result
        if isinstance(output, ToolOutput) and _is_content(output.content):
            return output
        wrong = output.content if isinstance(output, ToolOutput) else output
        kind = "None" if wrong is None else type(wrong).__name__
        if inspect.iscoroutine(wrong):
            wrong.close()
        text = f"it returned {kind}, not text or a ToolOutput"
        hint = "Await it." if kind == "coroutine" else "Return a string or a ToolOutput."
        self._tell_author(call, registered, WrongValue(text, registered.tool.run, hint=hint))
        raise ToolError(f"{call.name} failed: {text}")

    def _context(self, call: ToolCall, registered: RegisteredTool) -> CallContext:
        scope = self._scope
        conversation = scope.conversation
        caller = self.caller(call.call_id)
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
            places=self.caller,
            offered=conversation.host.environments.offered,
        )

    # Events for clients

    def _begin(self, call: ToolCall, registered: RegisteredTool) -> float:
        self._emit_redacted(
            ToolCallBeginEvent(
                call_id=call.call_id,
                turn_id=self._scope.turn_id,
                tool=registered.spec.name,
                plugin=registered.plugin,
                arguments=call.arguments,
                started_at_ms=int(time.time() * 1000),
            ),
            call.call_id,
        )
        return time.monotonic()

    def _end(self, call: ToolCall, registered: RegisteredTool, output: ToolOutput, started: float) -> None:
        self._emit_redacted(
            ToolCallEndEvent(
                call_id=call.call_id,
                turn_id=self._scope.turn_id,
                tool=registered.spec.name,
                plugin=registered.plugin,
                arguments=call.arguments,
                output=text_of(output),
                success=output.success,
                duration_s=time.monotonic() - started,
                details=output.details,
            ),
            call.call_id,
        )

    def _emit_redacted(self, msg: EventMsg, call_id: str) -> None:
        """Send an event to clients, redacted by interceptors. If there are any, streamed output is not sent at all."""
        if not self._interception.redacts:
            self._scope.emit(msg)
        elif not msg.is_delta:
            self._scope.emit(self.redacted(msg, call_id, msg.type))

    def _tell_author(self, call: ToolCall, registered: RegisteredTool | None, error: BaseException) -> None:
        """Tell where a tool raised what it should not raise, and what to do."""
        label = Label("tool", call.name, "" if registered is None else registered.plugin)
        source = None if registered is None else registered.tool.run
        text = self._interception.redact(described(error))
        advice = self._interception.redact(getattr(error, "hint", "")) or _RAISE
        self._scope.conversation.notices.tell(f"{label}: {text}{place_of(error, source)}. {advice}")


def _consistent(changed: ToolOutput, output: ToolOutput) -> ToolOutput:
    """Return an output as interceptors left it, without a result that still has what they took out of its content."""
    if changed.result is None or changed.result is not output.result or changed.content == output.content:
        return changed
    return changed.evolve(result=None)


def text_of(output: ToolOutput) -> str:
    """Return the text of an output, without its images."""
    parts = (output.content,) if isinstance(output.content, str) else output.content
    return "\n".join(filter(None, (part if isinstance(part, str) else getattr(part, "text", "") for part in parts)))


def _unsupported(call: ToolCall) -> ToolError:
    return ToolError(f"unsupported {'custom tool call' if call.kind == 'custom' else 'call'}: {call.name}")


def _is_content(content: object) -> bool:
    return isinstance(content, str) or (
        isinstance(content, tuple) and all(isinstance(part, _CONTENT) for part in content)
    )
