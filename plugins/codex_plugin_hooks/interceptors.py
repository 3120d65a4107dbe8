"""The interceptors, one for each kind of event. Only those are offered whose events have a hook, so the others cost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from codex_framework import (
    CallView,
    Compaction,
    InputRefused,
    InputText,
    Interceptor,
    Message,
    Outcome,
    StopTurn,
    ToolCall,
    ToolError,
    ToolOutput,
    ToolRefused,
    TurnContext,
    TurnFacts,
    UserInput,
)
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.ops import Interrupt
from codex_plugin_hooks import model_requests
from codex_plugin_hooks.calls import MadeCalls, call_view, finished
from codex_plugin_hooks.definitions import Definitions, Handler
from codex_plugin_hooks.firing import Fired, Hooks, agent_fields, common

__all__ = ["interceptors"]

_ORDER = 50
_INTERRUPT_S = 10.0
"""How long an interrupt may take, in seconds."""
_LAST = 1_000_000
"""After all that change calls."""


def interceptors(definitions: Definitions) -> Sequence[Interceptor]:
    """Return the interceptors that the hooks need."""
    kinds: tuple[type[_HookInterceptor], ...] = (
        BeforeTool,
        LastBeforeTool,
        AfterTool,
        Prompts,
        BeforeCompact,
        AfterCompact,
        Stops,
    )
    found: list[Interceptor] = [
        kind(Hooks(definitions, *kind.events)) for kind in kinds if definitions.of(*kind.events)
    ]
    if definitions.of(*model_requests.EVENTS):
        found.append(model_requests.ModelRequests(Hooks(definitions, *model_requests.EVENTS)))
    return found


class _HookInterceptor(Interceptor):
    """An interceptor for some events.

    Attributes:
        events: Their names.
    """

    order = _ORDER
    events: ClassVar[Sequence[str]] = ()

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks


class BeforeTool(_HookInterceptor):
    """Runs the hooks of ``PreToolUse``: they refuse calls, change arguments and add context."""

    name = "user-hooks-before-tool"
    events = ("PreToolUse",)

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
        """Run the hooks for one call."""
        view = call_view(call, turn)
        handlers = self._hooks.selected("PreToolUse", (view.name, *view.aliases))
        fields = {**common("PreToolUse", turn), **_tool_fields(view), "tool_use_id": call.call_id}
        fired = await self._hooks.fire(handlers, turn, fields, suffix=call.call_id)
        _add_context(fired, turn)
        reason = _reason(fired)
        if reason is not None:
            raise ToolRefused(_block_text(view, reason))
        return _rewritten(call, fired, turn)


class LastBeforeTool(_HookInterceptor):
    """Records the actual calls for the hooks of ``PermissionRequest``, so that only calls that run are approved."""

    name = "user-hooks-last-before-tool"
    events = ("PermissionRequest",)
    order = _LAST

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:
        """Note one call."""
        turn.thread.state(MadeCalls, MadeCalls).add(call)
        return call

    async def after_tool(self, call: ToolCall, output: ToolOutput, turn: TurnContext) -> ToolOutput:
        """Forget one call."""
        turn.thread.state(MadeCalls, MadeCalls).forget(call.call_id)
        return output


class AfterTool(_HookInterceptor):
    """Runs the hooks of ``PostToolUse``: they replace outputs by feedback and add context."""

    name = "user-hooks-after-tool"
    events = ("PostToolUse",)

    async def after_tool(self, call: ToolCall, output: ToolOutput, turn: TurnContext) -> ToolOutput:
        """Run the hooks for one call that has succeeded, or whose command has ended."""
        done = finished(call, output, turn)
        if done is None:
            return output
        handlers = self._hooks.selected("PostToolUse", (done.view.name, *done.view.aliases))
        if not handlers:
            return output
        fields = {**common("PostToolUse", turn), **_tool_fields(done.view), "tool_response": done.response}
        fired = await self._hooks.fire(handlers, turn, {**fields, "tool_use_id": done.call_id}, suffix=done.call_id)
        _add_context(fired, turn)
        feedback = [each.verdict.reason for each in fired if each.verdict.reason is not None]
        return output.evolve(content="\n\n".join(feedback)) if feedback else output


class Session:
    """The state of a thread's hooks across turns.

    Attributes:
        source: The reason of the session's start, until its hooks have run.
    """

    def __init__(self, origin: str) -> None:
        self.source: str | None = {"new": "startup", "spawned": "startup"}.get(origin, "resume")


def _session(turn: TurnContext) -> Session:
    return turn.thread.state(Session, lambda: Session(turn.thread.origin))


class Prompts(_HookInterceptor):
    """Runs the hooks of ``SessionStart`` or ``SubagentStart`` before the first input, and the hooks of ``UserPromptSubmit``."""

    name = "user-hooks-prompts"
    events = ("SessionStart", "SubagentStart", "UserPromptSubmit")

    async def input(self, input: UserInput, turn: TurnContext) -> UserInput:  # noqa: A002  # the role's
        """Run the hooks for one input."""
        started = await self._started(turn)
        handlers = self._hooks.selected("UserPromptSubmit")
        added = await self._submitted(handlers, input, turn, started) if handlers else []
        if not started and not added:
            return input
        return input.evolve(items=(*_developer(started), *input.items), context=(*input.context, *added))

    async def _started(self, turn: TurnContext) -> list[str]:
        session = _session(turn)
        source = session.source
        if source is None:
            return []
        if turn.facts.depth and source == "startup":
            agent = agent_fields(turn)
            fields = {**common("SubagentStart", turn), **agent}
            handlers = self._hooks.selected("SubagentStart", [agent["agent_type"]])
        elif turn.facts.depth:
            session.source = None
            return []
        else:
            fields = {**common("SessionStart", turn, with_turn=False), "source": source}
            handlers = self._hooks.selected("SessionStart", [source])
        fired = await self._hooks.fire(handlers, turn, fields)
        if session.source == source:  # not before: hooks that were interrupted have decided nothing
            session.source = None
        context = _context(fired)
        if any(each.verdict.stops for each in fired):
            turn.thread.deliver(_developer(context), "join")
        _end_turn(fired)
        return context

    async def _submitted(
        self, handlers: Sequence[Handler], given: UserInput, turn: TurnContext, started: Sequence[str]
    ) -> list[str]:
        fired = await self._hooks.fire(handlers, turn, {**common("UserPromptSubmit", turn), "prompt": _prompt(given)})
        added = _context(fired)
        for each in fired:
            if each.verdict.stops or each.verdict.reason is not None:
                text = each.verdict.stop_reason if each.verdict.stops else each.verdict.reason
                raise InputRefused(text or "UserPromptSubmit hook stopped execution", context=(*started, *added))
        return added


class BeforeCompact(_HookInterceptor):
    """Runs the hooks of ``PreCompact``, which can prevent a compaction."""

    name = "user-hooks-before-compact"
    events = ("PreCompact",)

    async def before_compact(self, reason: str, turn: TurnContext) -> None:
        """Run the hooks."""
        trigger = _trigger(reason)
        handlers = self._hooks.selected("PreCompact", [trigger])
        fired = await self._hooks.fire(handlers, turn, _compact_fields("PreCompact", turn, trigger))
        for each in fired:
            if each.verdict.stops:
                await _interrupt(turn, _stop_reason(each))


class AfterCompact(_HookInterceptor):
    """Runs the hooks of ``PostCompact``, and notes that the session starts again."""

    name = "user-hooks-after-compact"
    events = ("PostCompact", "SessionStart")

    async def after_compact(self, compaction: Compaction, reason: str, turn: TurnContext) -> None:  # noqa: ARG002  # the role's
        """Run the hooks."""
        trigger = _trigger(reason)
        handlers = self._hooks.selected("PostCompact", [trigger])
        await self._hooks.fire(handlers, turn, _compact_fields("PostCompact", turn, trigger))
        _session(turn).source = "compact"


class Stops(_HookInterceptor):
    """Runs the hooks of ``Stop`` or ``SubagentStop``, which can continue the turn."""

    name = "user-hooks-stop"
    events = ("Stop", "SubagentStop")

    def applies(self, turn: TurnFacts) -> bool:
        """Return whether the turn is one of the conversation."""
        return turn.kind == "regular"

    async def stop(self, outcome: Outcome, turn: TurnContext) -> str | None:
        """Run the hooks at the end of a turn."""
        event, names, fields = _stop_fields(turn)
        fields |= {"stop_hook_active": turn.continuations > 0, "last_assistant_message": outcome.last_agent_message}
        fired = await self._hooks.fire(self._hooks.selected(event, names), turn, fields)
        _end_turn(fired)
        prompts = [each for each in fired if each.verdict.reason is not None]
        return "\n".join(_hook_prompt(each) for each in prompts) or None


def _stop_fields(turn: TurnContext) -> tuple[str, list[str], dict[str, Any]]:
    if not turn.facts.depth:
        return "Stop", [], common("Stop", turn)
    agent, parent = agent_fields(turn), turn.thread.parent
    fields = common("SubagentStop", turn)
    paths = {"transcript_path": None if parent is None else parent.path, "agent_transcript_path": turn.thread.path}
    return "SubagentStop", [agent["agent_type"]], {**fields, **agent, **paths}


def _hook_prompt(fired: Fired) -> str:
    from xml.sax.saxutils import escape, quoteattr

    return f"<hook_prompt hook_run_id={quoteattr(fired.run_id)}>{escape(fired.verdict.reason or '')}</hook_prompt>"


def _tool_fields(view: CallView) -> dict[str, Any]:
    return {"tool_name": view.name, "tool_input": dict(view.arguments)}


def _compact_fields(event: str, turn: TurnContext, trigger: str) -> dict[str, Any]:
    fields = common(event, turn)
    del fields["permission_mode"]
    return {**fields, "trigger": trigger}


def _trigger(reason: str) -> str:
    return "manual" if reason == "manual" else "auto"


def _prompt(given: UserInput) -> str:
    texts = (
        part.text
        for item in given.items
        if isinstance(item, Message)
        for part in item.content
        if isinstance(part, InputText)
    )
    return "\n".join(texts)


def _context(fired: Sequence[Fired]) -> list[str]:
    return [text for each in fired for text in each.verdict.context]


def _add_context(fired: Sequence[Fired], turn: TurnContext) -> None:
    texts = _context(fired)
    if texts:
        turn.thread.deliver(_developer(texts), "join")


def _developer(texts: Sequence[str]) -> list[Message]:
    return [Message("developer", (InputText(text),)) for text in texts]


def _reason(fired: Sequence[Fired]) -> str | None:
    return next((each.verdict.reason for each in fired if each.verdict.reason is not None), None)


def _end_turn(fired: Sequence[Fired]) -> None:
    for each in fired:
        if each.verdict.stops:
            raise StopTurn(_stop_reason(each))


def _stop_reason(fired: Fired) -> str:
    return fired.verdict.stop_reason or f"{fired.handler.event.name} hook stopped execution"


async def _interrupt(turn: TurnContext, reason: str) -> None:
    """Interrupt the turn, as Codex does if a hook prevents a compaction, because the turn cannot do its work.

    Raises:
        StopTurn: The turn is not interrupted in time.
    """
    turn.emit(WarningEvent(f"a hook prevented the compaction, and the turn is interrupted: {reason}"))
    await turn.thread.submit(Interrupt())
    await asyncio.sleep(_INTERRUPT_S)  # which the interrupt ends
    raise StopTurn(reason)


def _block_text(view: CallView, reason: str) -> str:
    command = view.arguments.get("command")
    if view.name in ("Bash", "apply_patch") and isinstance(command, str):
        return f"Command blocked by PreToolUse hook: {reason}. Command: {command}"
    return f"Tool call blocked by PreToolUse hook: {reason}. Tool: {view.name}"


def _rewritten(call: ToolCall, fired: Sequence[Fired], turn: TurnContext) -> ToolCall:
    """Return the call with the arguments of the hook that ended last."""
    changed = [each for each in fired if each.verdict.updated is not None]
    if not changed:
        return call
    last = max(changed, key=lambda each: each.place)
    arguments = last.verdict.updated
    if not isinstance(arguments, Mapping):
        raise ToolError("hook returned updatedInput that is not an object")
    return turn.with_arguments(call, arguments)
