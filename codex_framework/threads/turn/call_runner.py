"""Runs calls of the model: interceptors, approvals, the tool itself, and the events for clients."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import get_args

from codex_framework.commands.caller import Caller
from codex_framework.contract.errors import FatalToolError, StopTurn, ToolError, ToolRefused
from codex_framework.contract.protocol.events import ToolCallBeginEvent, ToolCallEndEvent
from codex_framework.contract.protocol.items import AnyCall, ContentItem
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.provenance import Actor
from codex_framework.loader.registration import RegisteredTool
from codex_framework.threads.faults import Label, WrongValue, error_text, place_of
from codex_framework.threads.plugin_calls import call_async, self_cancellation
from codex_framework.threads.tool_router import ToolRouter
from codex_framework.threads.turn.approvals import Approvals
from codex_framework.threads.turn.call_context import CallContext
from codex_framework.threads.turn.call_scheduler import CallSlot
from codex_framework.threads.turn.calls import call_name, text_of, tool_call
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.redaction import Redaction
from codex_framework.threads.turn.turn_context import TurnContexts
from codex_framework.toolkit.truncation import truncate, truncate_content

__all__ = ["CallRunner"]

_RAISE = "Fix the tool, or raise ToolError with a text that helps the model."
"""Advice for a tool's author about an exception."""

_CONTENT: tuple[type, ...] = get_args(ContentItem)


class CallRunner:
    """Runs calls of the model: interceptors, approvals, the tool itself, and the events for clients.

    Args:
        contexts: The contexts of the turn.
        interrupt: Interrupts the turn.
        stop: Ends the turn as a normal stop, with a sentence for the user.

    Attributes:
        redaction: The redaction of the turn's texts.
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
        self.redaction = Redaction(contexts.scope)
        self._approvals = Approvals(contexts, interrupt)
        self._stop = stop

    def is_parallel(self, item: AnyCall) -> bool:
        """Return whether a call may overlap with others."""
        registered = self._scope.router.find(call_name(item))
        return registered is not None and registered.parallel and self._may_overlap(tool_call(item), registered)

    async def run(
        self, call: ToolCall, router: ToolRouter, *, caller: str | None = None, within: str | None = None
    ) -> ToolOutput:
        """Run a call to its end, once it may run. Failures become outputs for the model.

        Args:
            router: The tools of the sample that contains the call.
            caller: The plugin that makes the call, which may call any tool, or None for the model, which may call only offered
                tools.
            within: The id of the call whose tool makes this one.

        Raises:
            FatalToolError: The turn must end.
        """
        registered = router.find(call.name)
        plugin = "" if registered is None else registered.plugin
        slot = CallSlot(call.call_id, lambda: self._may_overlap(call, registered), plugin, caller, within)
        scheduler = self._scope.scheduler
        await scheduler.enter(slot)
        try:
            output = await self._answer(call, router, by_model=caller is None)
            return self.redaction.redact_value(output, call.call_id)
        finally:
            scheduler.leave(slot)

    def _may_overlap(self, call: ToolCall, registered: RegisteredTool | None) -> bool:
        if registered is None or not registered.parallel:
            return False
        return not self._scope.guards.alone or not self._interception.alone(call)

    async def _answer(self, call: ToolCall, router: ToolRouter, *, by_model: bool) -> ToolOutput:
        """Return the output of a call, or of its failure."""
        parts, budget = self._scope.conversation.parts, self._scope.conversation.budget
        if parts:
            await parts.wait_for_calls()
        spent = None if by_model else budget.reached_limit()
        budget.tool_call()
        guards, name = self._scope.guards, call.name
        try:
            if spent is not None:  # the model's own calls end with the next sample, but a program could go on for ever
                raise ToolRefused(spent)
            if guards.before_tool:
                call = await self._interception.before_tool(call)
            if by_model and call.name == name and not router.may_call(name):
                raise _unsupported_error(call)
            output = await self._run_call(call, router)
            return await self._interception.after_tool(call, output) if guards.after_tool else output
        except ToolError as error:
            if isinstance(error, ToolRefused):
                self._record_rejection(call, router, error)
            return ToolOutput(str(error), success=False)
        except StopTurn as error:
            self._stop(str(error))
            return ToolOutput(f"{call.name} was stopped: {error}", success=False)
        except FatalToolError:
            raise
        except (Exception, SystemExit) as error:  # a broken tool ends neither the turn nor the program
            self._tell_author(call, router.find(call.name), error)
            return ToolOutput(f"{call.name} failed: {error_text(error)}", success=False)

    async def _run_call(self, call: ToolCall, router: ToolRouter) -> ToolOutput:
        """Run a call that the interceptors have let through. Raises any exception of the tool."""
        registered = router.find(call.name)
        if registered is None:
            raise _unsupported_error(call)
        self._scope.narrow()
        if registered.needs_approval is not None:
            await self._request_approval(registered, call)
        invoke = self._invoke_tool if registered.tells_clients else self._invoke_with_events
        output = await invoke(registered, call, self._context(call, registered))
        return self._truncate(output, call) if output.truncate else output

    async def _request_approval(self, registered: RegisteredTool, call: ToolCall) -> None:
        try:
            await self._approvals.approve(registered, call)
            self._scope.narrow()  # an answer can take a while
        except ToolError as error:
            await self._show_refusal(registered, call, str(error))
            raise

    async def _invoke_with_events(self, registered: RegisteredTool, call: ToolCall, context: CallContext) -> ToolOutput:
        """Run a tool that emits no events about its calls between a begin and an end event."""
        started = self._emit_begin(call, registered)
        output = ToolOutput("", success=False)
        try:
            output = await self._invoke_tool(registered, call, context)
        except ToolError as error:
            output = ToolOutput(str(error), success=False)
            raise
        finally:
            self._emit_end(call, registered, output, started)
        return output

    async def _invoke_tool(self, registered: RegisteredTool, call: ToolCall, context: CallContext) -> ToolOutput:
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

    def _truncate(self, output: ToolOutput, call: ToolCall) -> ToolOutput:
        """Shorten an output to the limit of the model's policy."""
        content = self._limit(output.content)
        if content is output.content:
            return output
        if self.redaction:  # first, because half of a secret is not recognised
            content = self._limit(self.redaction.redact_value(output, call.call_id).content)
        return output.evolve(content=content)

    def _limit(self, content: str | tuple[ContentItem, ...]) -> str | tuple[ContentItem, ...]:
        kind, limit = self._scope.model.truncation
        policy = (kind, int(limit * 1.2))  # Codex's factor
        return truncate(content, policy) if isinstance(content, str) else truncate_content(content, policy)

    def _record_rejection(self, call: ToolCall, router: ToolRouter, error: ToolRefused) -> None:
        """Write into the record that a call was refused, unless it says so already."""
        registered = router.find(call.name)
        by = Actor(role="tool", name=call.name, plugin="" if registered is None else registered.plugin)
        self._scope.reports.report_refusal(call.call_id, by, str(error), call.name)

    async def _show_refusal(self, registered: RegisteredTool, call: ToolCall, why: str) -> None:
        """Let clients see a call that was not allowed."""
        if not registered.tells_clients:
            started = self._emit_begin(call, registered)
            self._emit_end(call, registered, ToolOutput(why, success=False), started)
        elif registered.refused is not None:
            context = self._context(call, registered)
            notices = self._scope.conversation.notices
            try:
                notices.call(registered.label, "refused", registered.refused, call, context, why)
            except Exception as error:  # a plugin may raise anything
                then = "Clients do not see the call."
                notices.tell(registered.label.describe_failure("refused", error, then=then, source=registered.refused))
            finally:
                if not context.scope.empty:
                    await context.scope.aclose()

    # What a tool gets

    def caller(self, call_id: str, environment_id: str | None = None) -> Caller:
        """Return the caller for the commands of a call in an environment of the turn, or in the primary one."""
        scope, redaction = self._scope, self.redaction
        facts = scope.facts_at(environment_id)
        reports = scope.reports
        return Caller(
            call_id=call_id,
            turn=facts,
            env={"CODEX_TOOL_CALL_ID": call_id},
            emit=(lambda msg: redaction.emit(msg, call_id)) if redaction else scope.emit,
            redact=(lambda text: redaction.redact_output(text, call_id)) if redaction else None,
            ask=self._approvals.ask,
            resolve=partial(scope.resolve, facts.environment_id),
            note=scope.note,
            grant=partial(scope.grant, facts.environment_id),
            measuring=reports.telemetry.measure,
            decided=partial(reports.report_decision, call_id),
            refused=partial(reports.report_refusal, call_id),
        )

    def _context(self, call: ToolCall, registered: RegisteredTool) -> CallContext:
        scope = self._scope
        conversation = scope.conversation
        return CallContext(
            thread_id=conversation.id,
            model=scope.model,
            caller=self.caller(call.call_id),
            commands=conversation.commands,
            patches=conversation.patches,
            plugin_state=conversation.plugin_state,
            diff=scope.diff,
            plugin=registered.plugin,
            turn_context=self._contexts(registered.plugin),
            callers=self.caller,
            offered=conversation.host.environments.offered,
        )

    # Events for clients

    def _emit_begin(self, call: ToolCall, registered: RegisteredTool) -> float:
        self.redaction.emit(
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

    def _emit_end(self, call: ToolCall, registered: RegisteredTool, output: ToolOutput, started: float) -> None:
        self.redaction.emit(
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

    def _tell_author(self, call: ToolCall, registered: RegisteredTool | None, error: BaseException) -> None:
        """Report where a tool raised a wrong exception, and how to fix it."""
        label = Label("tool", call.name, "" if registered is None else registered.plugin)
        source = None if registered is None else registered.tool.run
        text = self.redaction.redact(error_text(error))
        advice = self.redaction.redact(getattr(error, "hint", "")) or _RAISE
        self._scope.conversation.notices.tell(f"{label}: {text}{place_of(error, source)}. {advice}")


def _unsupported_error(call: ToolCall) -> ToolError:
    return ToolError(f"unsupported {'custom tool call' if call.kind == 'custom' else 'call'}: {call.name}")


def _is_content(content: object) -> bool:
    return isinstance(content, str) or (
        isinstance(content, tuple) and all(isinstance(part, _CONTENT) for part in content)
    )
