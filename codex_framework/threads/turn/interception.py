"""The calls of interceptors in a turn: each method in order, with the handling of failures."""

from __future__ import annotations

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
from codex_framework.contract.roles.provenance import Actor
from codex_framework.loader.interceptor_table import Guard
from codex_framework.threads.faults import Label, WrongValue, checked, checked_items, described, fact_of, kind_of
from codex_framework.threads.plugin_calls import call_isolated
from codex_framework.threads.turn.inputs import InputArrived
from codex_framework.threads.turn.turn_context import TurnContexts
from codex_framework.threads.turn.watched import Watched

__all__ = ["Interception", "notes"]

T = TypeVar("T")


class Interception:
    """The interceptors of one turn.

    Attributes:
        contexts: The contexts that plugins get in this turn.
        redacts: Whether the output of calls is redacted and therefore not streamed.
        holds_items: Whether interceptors get items of the model before clients do.
    """

    def __init__(self, contexts: TurnContexts) -> None:
        self.contexts = contexts
        self._guards = guards = contexts.scope.guards
        self.redacts = bool(guards.redact)
        self.holds_items = bool(guards.after_item)
        self._notices = contexts.scope.conversation.notices
        self._corrections = 0
        self._scope = contexts.scope

    def takes(self, arrived: InputArrived, *, steered: bool) -> bool:
        """Return whether an interceptor takes an input. A failure counts as true."""
        whole = _whole(arrived, steered=steered)
        for guard in self._guards.takes:
            if guard is None:
                return True
            try:
                if self._notices.timed(_label(guard), "takes", guard.call, whole, self.contexts.scope.facts):
                    return True
            except Exception as error:  # the safe answer
                self._notices.tell(_failed(guard, "takes", error))
                return True
        return False

    async def input(self, arrived: InputArrived, *, steered: bool) -> InputArrived:
        """Pass an input to the interceptors. Return the changed input and the added context.

        Raises:
            InputRefused: One of them refuses it, or failed.
            StopTurn: One of them ends the turn.
        """
        whole = _whole(arrived, steered=steered)
        added: tuple[ResponseItem, ...] = ()
        watched = Watched()
        for guard in self._guards.input:
            watched.begin(guard)
            try:
                changed = await self._called(guard, UserInput, whole)
                if changed is not whole:
                    items = checked_items(changed.items, "its input's `items`", guard.call)
                    given = checked_items(changed.additional_context, "its input's `additional_context`", guard.call)
                    added = notes(changed.context, guard.call)
                    changed = changed.evolve(items=items, additional_context=given)
            except (InputRefused, StopTurn) as error:
                self._ended("input", watched, error)
                raise
            except Exception as error:  # fails closed
                refusal = InputRefused(_failed(guard, "input", error))
                self._ended("input", watched, refusal)
                raise refusal from error
            watched.end(whole, changed)
            whole = changed
        items = (*whole.items, *added)
        if watched.steps and self._scope.keeps_changes:
            self._scope.changes.input(watched.steps, (*whole.additional_context, *items))
        return InputArrived(items, arrived.event, context=tuple(whole.additional_context))

    async def request(self, request: ModelRequest) -> ModelRequest:
        """Pass a request to the interceptors.

        Raises:
            ModelError: One of them failed.
            StopTurn: One of them ends the turn.
        """
        watched = Watched()
        for guard in self._guards.request:
            watched.begin(guard)
            try:
                changed = await self._called(guard, ModelRequest, request)
            except StopTurn as error:
                self._ended("request", watched, error)
                raise
            except Exception as error:  # fails closed: the request must not be sent without its change
                refusal = ModelError(_failed(guard, "request", error))
                self._ended("request", watched, refusal)
                raise refusal from error
            watched.end(request, changed)
            request = changed
        if (watched.steps or self._scope.has_changes) and self._scope.keeps_changes:
            self._scope.changes.requests(watched.steps, self._scope.samples + 1)
        return request

    async def item(self, item: ResponseItem) -> ResponseItem:
        """Pass an item of the model to the interceptors. Raises the same errors as :meth:`request`."""
        watched = Watched()
        for guard in self._guards.after_item:
            watched.begin(guard)
            try:
                changed = await self._called(guard, type(item), item)
            except StopTurn as error:
                self._ended("item", watched, error)
                raise
            except Exception as error:  # fails closed: nobody may see the item
                refusal = ModelError(_failed(guard, "after_item", error))
                self._ended("item", watched, refusal)
                raise refusal from error
            watched.end(item, changed)
            item = changed
        if watched.steps and self._scope.keeps_changes:
            self._scope.changes.item(watched.steps)
        return item

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
                raise ModelError(_failed(guard, "view_message", error)) from error
            if view is not None:
                views.append(_GuardedView(view, guard))
        return views

    async def before_tool(self, call: ToolCall) -> ToolCall:
        """Pass a call to the interceptors.

        Raises:
            ToolError, FatalToolError, StopTurn: As an interceptor decides. If one fails, this is reported and the call is not run.
        """
        watched = Watched()
        for guard in self._guards.before_tool:
            changed = await self._decided(watched, guard, "before_tool", call, call)
            watched.end(call, changed)
            call = changed
        if watched.steps and self._scope.keeps_changes:
            self._scope.changes.changed("call", watched.steps, watched.steps[0].before)
        return call

    async def after_tool(self, call: ToolCall, output: ToolOutput) -> ToolOutput:
        """Pass a call's output to the interceptors. Raises the same errors as :meth:`before_tool`."""
        watched = Watched()
        for guard in self._guards.after_tool:
            changed = await self._decided(watched, guard, "after_tool", call, call, output)
            watched.end(output, changed)
            output = changed
        if watched.steps and self._scope.keeps_changes:
            self._scope.changes.changed("output", watched.steps, call)
        return output

    async def _decided(self, watched: Watched, guard: Guard, method: str, call: ToolCall, *given: Any) -> Any:
        """Call a method about a call, and return what takes the place of the last of ``given``."""
        what = "call" if method == "before_tool" else "output"
        watched.begin(guard)
        try:
            result = await call_isolated(guard.call, *given, self.contexts(guard.plugin))
            return _fitting(result, type(given[-1]), guard, given[-1])
        except (ToolError, FatalToolError, StopTurn) as error:
            self._ended(what, watched, error, call)
            raise
        except Exception as error:  # fails closed
            self._notices.tell(_failed(guard, method, error))
            refusal = ToolError(f"interceptor {guard.name!r} failed: {described(error)}")
            self._ended(what, watched, refusal, call)
            raise refusal from error

    def _ended(self, what: str, watched: Watched, error: CodexError, call: ToolCall | None = None) -> None:
        """Write into the record who refused something or ended the turn, and what was changed before."""
        if not self._scope.keeps_changes:
            return
        changes = self._scope.changes
        changes.abandoned(what, watched.steps, call)
        by, seconds = watched.actor()
        fields = {} if call is None else {"call_id": call.call_id, "tool": call.name}
        changes.refused(
            what, by, str(error), did="stopped" if isinstance(error, StopTurn) else "refused", seconds=seconds, **fields
        )

    async def _called(self, guard: Guard, kind: type[T], *arguments: Any) -> T:
        result = await call_isolated(guard.call, *arguments, self.contexts(guard.plugin))
        return _fitting(result, kind, guard, arguments[-1])

    def redact(self, text: str, note: Callable[[Guard], None] | None = None) -> str:
        """Return a redacted text. If an interceptor fails, the whole text is removed.

        Args:
            note: Called with each interceptor that changed the text.
        """
        for guard in self._guards.redact:
            try:
                label = _label(guard)
                redacted = self._notices.timed(label, "redact", guard.call, text, self.contexts.scope.facts)
                found = checked(redacted, str, "it", guard.call)
                if note is not None and found is not text and found != text:
                    note(guard)
                text = found
            except Exception as error:  # fails closed
                self._notices.tell(_failed(guard, "redact", error, "The text is withheld."))
                return _withheld(guard, error)
        return text

    def alone(self, call: ToolCall) -> bool:
        """Return whether an interceptor wants a call to run alone. A failure counts as true."""
        for guard in self._guards.alone:
            try:
                if self._notices.timed(_label(guard), "alone", guard.call, call):
                    return True
            except Exception as error:  # the safe answer
                self._notices.tell(_failed(guard, "alone", error))
                return True
        return False

    async def before_compact(self, reason: str) -> None:
        """Inform the interceptors before a compaction.

        Raises:
            CodexError: One of them prevents it, or failed.
        """
        watched = Watched()
        for guard in self._guards.before_compact:
            watched.begin(guard)
            try:
                await call_isolated(guard.call, reason, self.contexts(guard.plugin))
            except CodexError as error:
                self._ended("compaction", watched, error)
                raise
            except Exception as error:  # fails closed
                fact = f"{_label(guard)}: before_compact() failed: {fact_of(error, guard.call)}"
                refusal = ThreadError(fact, slug="compaction", hint=_label(guard).advice(error))
                self._ended("compaction", watched, refusal)
                raise refusal from error

    async def after_compact(self, compaction: Compaction, reason: str) -> None:
        """Inform the interceptors about a compaction. A failure becomes a warning."""
        for guard in self._guards.after_compact:
            try:
                await call_isolated(guard.call, compaction, reason, self.contexts(guard.plugin))
            except Exception as error:  # the compaction has already happened
                self._notices.tell(_failed(guard, "after_compact", error))

    @property
    def checks_stop(self) -> bool:
        """Whether an interceptor checks the end of the turn."""
        return bool(self._guards.stop) or self.contexts.scope.conversation.output is not None

    async def stop(self, outcome: Outcome) -> InputArrived | None:
        """Ask whether the turn may end. The first returned text makes it continue. A failure becomes a warning."""
        watched = Watched()
        for guard in self._guards.stop:
            watched.begin(guard)
            try:
                text = await call_isolated(guard.call, outcome, self.contexts(guard.plugin))
                if text is not None:
                    text = checked(text, str, "it", guard.call)
            except StopTurn as error:
                self._ended("stop", watched, error)
                return None
            except Exception as error:  # the turn may end
                self._notices.tell(_failed(guard, "stop", error))
                continue
            if text:
                return self._continued(user_message(text), *watched.actor())
        return self._corrected(outcome)

    def _continued(self, message: Message, by: Actor, seconds: float | None = None) -> InputArrived:
        if self._scope.keeps_changes:
            self._scope.changes.continued(message, by, seconds)
        return InputArrived((message,))

    def _corrected(self, outcome: Outcome) -> InputArrived | None:
        """Return an output that does not match the agent's type to the model, a limited number of times."""
        output = self.contexts.scope.conversation.output
        if output is None or self._corrections >= output.retries:
            return None
        problem = output.problem(outcome.last_agent_message)
        if problem is None:
            return None
        self._corrections += 1
        return self._continued(user_message(problem, role="developer"), Actor(role="kernel", name="output type"))


def _whole(arrived: InputArrived, *, steered: bool) -> UserInput:
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


class _GuardedView:
    """A view whose exceptions end the turn and name its plugin."""

    def __init__(self, view: MessageView, guard: Guard) -> None:
        self._view = view
        self._guard = guard

    def feed(self, text: str) -> str:
        return self._called(lambda: self._view.feed(text))

    def end(self) -> str:
        return self._called(self._view.end)

    def _called(self, method: Callable[[], object]) -> str:
        try:
            found = method()
            if not isinstance(found, str):
                raise WrongValue(
                    f"its view returned {kind_of(found)}, not text", self._guard.call, hint="Return a str."
                )
        except Exception as error:  # fails closed
            raise ModelError(_failed(self._guard, "view_message", error)) from error
        return found


def _fitting(result: object, kind: type[T], guard: Guard, given: object) -> T:
    """Return the result of a method that may change what it is given.

    Raises:
        WrongValue: It has the wrong class, or a field that was changed has.
    """
    if result is given and isinstance(result, kind):
        return result
    from codex_framework.toolkit.fitting import fitting  # only where an interceptor changes something

    return fitting(result, kind, "it", guard.call, than=given)


def _label(guard: Guard) -> Label:
    return Label("interceptor", guard.name, guard.plugin)


def _failed(guard: Guard, method: str, error: Exception, then: str = "") -> str:
    return _label(guard).failed(method, error, then=then, source=guard.call)


def _withheld(guard: Guard, error: Exception) -> str:
    return f"[withheld: interceptor {guard.name!r} of plugin {guard.plugin!r} failed: {described(error)}]"
