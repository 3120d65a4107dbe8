"""The calls of interceptors in a turn: each method in order, with the handling of failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from codex_framework.contract.errors import (
    CodexError,
    FatalToolError,
    InputRefused,
    ModelError,
    StopTurn,
    ThreadError,
    ToolError,
)
from codex_framework.contract.protocol.items import InputText, Message, ResponseItem, user_message
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.interceptors import MessageView, UserInput
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.outcomes import Compaction, Outcome
from codex_framework.contract.roles.provenance import Actor, Change
from codex_framework.contract.value import Value
from codex_framework.threads.faults import Label, WrongValue, check_type, checked_items, error_text, fact_of, kind_of
from codex_framework.threads.interceptor_table import Guard
from codex_framework.threads.plugin_calls import call_isolated, collect_causes
from codex_framework.threads.turn.inputs import InputArrived
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["Interception", "notes"]

T = TypeVar("T")


class _Chain(Value):
    """One method of interceptors through which a value passes.

    Attributes:
        what: The kind of the value, as in ``Provenance``.
        decisions: The exceptions with which an interceptor refuses the value or ends the turn.
        refusal: The error that refuses the value if an interceptor fails.
    """

    method: str
    what: str
    decisions: tuple[type[Exception], ...]
    refusal: type[CodexError]


_INPUT = _Chain("input", "input", (InputRefused, StopTurn), InputRefused)
_REQUEST = _Chain("request", "request", (StopTurn,), ModelError)
_ITEM = _Chain("after_item", "item", (StopTurn,), ModelError)
_CALL = _Chain("before_tool", "call", (ToolError, FatalToolError, StopTurn), ToolError)
_OUTPUT = _Chain("after_tool", "output", (ToolError, FatalToolError, StopTurn), ToolError)
_COMPACTION = _Chain("before_compact", "compaction", (CodexError,), ThreadError)


class Interception:
    """The interceptors of one turn.

    Attributes:
        contexts: The contexts that plugins get in this turn.
        holds_items: Whether interceptors get items of the model before clients do.
    """

    def __init__(self, contexts: TurnContexts) -> None:
        self.contexts = contexts
        self._guards = guards = contexts.scope.guards
        self.holds_items = bool(guards.after_item)
        self._notices = contexts.scope.conversation.notices
        self._corrections = 0
        self._scope = contexts.scope

    async def _pass(
        self,
        chain: _Chain,
        value: T,
        *,
        check: Callable[[Any, T, Guard], T],
        before: tuple[Any, ...] = (),
        call: ToolCall | None = None,
        sample: int | None = None,
    ) -> T:
        """Pass a value through the interceptors. Each of them may replace it.

        Args:
            check: Returns an interceptor's result if it is valid, and raises otherwise.
            before: The arguments before the value.
            call: The call that the value belongs to.
            sample: The number of the request.

        Raises:
            Exception: One of ``chain.decisions``, as an interceptor decides, or ``chain.refusal`` if one fails, because a value
                must not continue without a required change.
        """
        changes: list[Change] = []
        causes = collect_causes()
        for guard in getattr(self._guards, chain.method):
            causes.clear()
            began = time.monotonic()
            try:
                result = await call_isolated(guard.call, *before, value, self.contexts(guard.plugin))
                changed = check(result, value, guard)
            except Exception as error:
                seconds = time.monotonic() - began
                refusal = error if isinstance(error, chain.decisions) else self._refusal(chain, guard, error)
                self._scope.reports.report_end(chain.what, changes, _actor(guard, causes), refusal, seconds, call)
                if refusal is error:
                    raise
                raise refusal from error
            if changed is not value:
                changes.append(Change(_actor(guard, causes), value, changed, time.monotonic() - began))
                value = changed
        self._scope.reports.report_changes(chain.what, changes, call, sample)
        return value

    def _refusal(self, chain: _Chain, guard: Guard, error: Exception) -> CodexError:
        """Return the error that refuses a value because an interceptor failed."""
        label = _label(guard)
        if chain is _COMPACTION:
            fact = f"{label}: before_compact() failed: {fact_of(error, guard.call)}"
            return ThreadError(fact, slug="compaction", hint=label.advice(error))
        text = _failure_text(guard, chain.method, error)
        if chain in (_CALL, _OUTPUT):
            self._notices.tell(text)
            text = f"interceptor {guard.name!r} failed: {error_text(error)}"
        return chain.refusal(text)

    def takes(self, arrived: InputArrived, *, steered: bool) -> bool:
        """Return whether an interceptor takes an input. A failure counts as true."""
        whole = _user_input(arrived, steered=steered)
        return any(
            guard is None or self._answers(guard, "takes", whole, self._scope.facts) for guard in self._guards.takes
        )

    def alone(self, call: ToolCall) -> bool:
        """Return whether an interceptor wants a call to run alone. A failure counts as true."""
        return any(self._answers(guard, "alone", call) for guard in self._guards.alone)

    def _answers(self, guard: Guard, method: str, *arguments: Any) -> bool:
        """Return whether a predicate answers yes. A failure counts as yes, which is the safe answer."""
        try:
            return bool(self._notices.call(_label(guard), method, guard.call, *arguments))
        except Exception as error:
            self._notices.tell(_failure_text(guard, method, error))
            return True

    async def input(self, arrived: InputArrived, *, steered: bool) -> InputArrived:
        """Pass an input to the interceptors. Return the changed input and the added context.

        Raises:
            InputRefused: One of them refuses it, or failed.
            StopTurn: One of them ends the turn.
        """
        whole = await self._pass(_INPUT, _user_input(arrived, steered=steered), check=_check_input)
        items = (*whole.items, *notes(whole.context))
        return InputArrived(items, arrived.event, context=tuple(whole.additional_context))

    async def request(self, request: ModelRequest) -> ModelRequest:
        """Pass a request to the interceptors.

        Raises:
            ModelError: One of them failed.
            StopTurn: One of them ends the turn.
        """
        return await self._pass(_REQUEST, request, check=_check_class, sample=self._scope.samples + 1)

    async def item(self, item: ResponseItem) -> ResponseItem:
        """Pass an item of the model to the interceptors. Raises the same errors as :meth:`request`."""
        return await self._pass(_ITEM, item, check=_check_class)

    async def before_tool(self, call: ToolCall) -> ToolCall:
        """Pass a call to the interceptors.

        Raises:
            ToolError, FatalToolError, StopTurn: As an interceptor decides. If one fails, this is reported and the call is not
                run.
        """
        return await self._pass(_CALL, call, check=_check_class, call=call)

    async def after_tool(self, call: ToolCall, output: ToolOutput) -> ToolOutput:
        """Pass a call's output to the interceptors. Raises the same errors as :meth:`before_tool`."""
        changed = await self._pass(_OUTPUT, output, check=_check_class, before=(call,), call=call)
        if changed.result is not None and changed.result is output.result and changed.content != output.content:
            return changed.evolve(result=None)  # the result still has what they removed from the content
        return changed

    async def compact(self, reason: str) -> Compaction:
        """Return the compactor's compaction of the conversation, after the interceptors have agreed. Nothing is replaced yet.

        Raises:
            StopTurn: An interceptor ends the turn.
            CodexError: There is no compactor, an interceptor prevents it, or one of them failed.
        """
        compactor = self._scope.compaction.require()
        await self._pass(_COMPACTION, reason, check=lambda _, reason, __: reason)
        compaction = await self._scope.compaction.compact(reason, self.contexts(compactor.plugin))
        for guard in self._guards.after_compact:
            try:
                await call_isolated(guard.call, compaction, reason, self.contexts(guard.plugin))
            except Exception as error:  # the compaction has already happened
                self._notices.tell(_failure_text(guard, "after_compact", error))
        return compaction

    @property
    def views_messages(self) -> bool:
        """Whether interceptors decide which text of messages clients see."""
        return bool(self._guards.view_message)

    def message_views(self) -> list[MessageView]:
        """Return the views for a message that begins. They and this method raise ModelError if an interceptor fails."""
        views: list[MessageView] = []
        for guard in self._guards.view_message:
            try:
                view = guard.call(self.contexts(guard.plugin))
                if view is not None and not (hasattr(view, "feed") and hasattr(view, "end")):
                    fact = f"it returned {kind_of(view)}, which has no feed() and end()"
                    raise WrongValue(fact, guard.call, hint="Return an object with both, or None.")
            except Exception as error:  # fails closed: the text might be what nobody may see
                raise ModelError(_failure_text(guard, "view_message", error)) from error
            if view is not None:
                views.append(_CheckedView(view, guard))
        return views

    @property
    def checks_stop(self) -> bool:
        """Whether an interceptor checks the end of the turn."""
        return bool(self._guards.stop) or self._scope.conversation.output is not None

    async def stop(self, outcome: Outcome) -> InputArrived | None:
        """Ask whether the turn may end. The first returned text makes it continue. A failure becomes a warning."""
        causes = collect_causes()
        for guard in self._guards.stop:
            causes.clear()
            began = time.monotonic()
            try:
                text = await call_isolated(guard.call, outcome, self.contexts(guard.plugin))
                if text is not None:
                    text = check_type(text, str, "it", guard.call)
            except StopTurn as error:
                self._scope.reports.report_end("stop", (), _actor(guard, causes), error, time.monotonic() - began)
                return None
            except Exception as error:  # the turn may end
                self._notices.tell(_failure_text(guard, "stop", error))
                continue
            if text:
                return self._continue_with(user_message(text), _actor(guard, causes), time.monotonic() - began)
        return self._correction(outcome)

    def _continue_with(self, message: Message, by: Actor, seconds: float | None = None) -> InputArrived:
        self._scope.reports.report_changes("stop", (Change(by, (), (message,), seconds),))
        return InputArrived((message,))

    def _correction(self, outcome: Outcome) -> InputArrived | None:
        """Return the message that makes the model correct an output of the wrong type, a limited number of times."""
        output = self._scope.conversation.output
        if output is None or self._corrections >= output.retries:
            return None
        problem = output.problem(outcome.last_agent_message)
        if problem is None:
            return None
        self._corrections += 1
        return self._continue_with(user_message(problem, role="developer"), Actor(role="kernel", name="output type"))


def _user_input(arrived: InputArrived, *, steered: bool) -> UserInput:
    return UserInput(
        items=arrived.items, additional_context=arrived.context, mentions=arrived.mentions, steered=steered
    )


def notes(texts: Sequence[str], source: Any = None) -> tuple[ResponseItem, ...]:
    """Return texts for the model as developer messages.

    Raises:
        WrongValue: It is not a list of strings.
    """
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts):
        raise WrongValue(f"its `context` is {texts!r}, not a list of texts", source, hint="Pass a list of strings.")
    return tuple(Message(role="developer", content=(InputText(text),)) for text in texts)


class _CheckedView:
    """A view whose exceptions end the turn and name its plugin."""

    def __init__(self, view: MessageView, guard: Guard) -> None:
        self._view = view
        self._guard = guard

    def feed(self, text: str) -> str:
        return self._call(lambda: self._view.feed(text))

    def end(self) -> str:
        return self._call(self._view.end)

    def _call(self, method: Callable[[], object]) -> str:
        try:
            found = method()
            if not isinstance(found, str):
                raise WrongValue(
                    f"its view returned {kind_of(found)}, not text", self._guard.call, hint="Return a str."
                )
        except Exception as error:  # fails closed
            raise ModelError(_failure_text(self._guard, "view_message", error)) from error
        return found


def _check_class(result: object, value: T, guard: Guard) -> T:
    """Return the result of a method that may change a value.

    Raises:
        WrongValue: It has the wrong class, or a field that was changed has.
    """
    if result is value:
        return value
    from codex_framework.toolkit.validation import validate  # only where an interceptor changes something

    return validate(result, type(value), "it", guard.call, previous=value)


def _check_input(result: object, whole: UserInput, guard: Guard) -> UserInput:
    """Return the input that an interceptor returned. Raises WrongValue, as :func:`_check_class`."""
    changed = _check_class(result, whole, guard)
    if changed is whole:
        return whole
    items = checked_items(changed.items, "its input's `items`", guard.call)
    given = checked_items(changed.additional_context, "its input's `additional_context`", guard.call)
    notes(changed.context, guard.call)
    return changed.evolve(items=items, additional_context=given)


def _actor(guard: Guard, causes: list[str]) -> Actor:
    return Actor(role="interceptor", name=guard.name, plugin=guard.plugin, causes=tuple(causes))


def _label(guard: Guard) -> Label:
    return Label("interceptor", guard.name, guard.plugin)


def _failure_text(guard: Guard, method: str, error: Exception) -> str:
    return _label(guard).describe_failure(method, error, source=guard.call)
