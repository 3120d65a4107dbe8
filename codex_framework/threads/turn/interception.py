"""What interceptors do in a turn: each method's calls, in order, with what follows when one fails."""

from __future__ import annotations

from collections.abc import Sequence
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
from codex_framework.contract.roles.interceptors import UserInput
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.outcomes import Compaction, Outcome
from codex_framework.plugins.interceptor_table import Guard
from codex_framework.threads.faults import Label, WrongValue, checked, checked_items, described
from codex_framework.threads.patience import contained
from codex_framework.threads.turn.machine import InputArrived
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["Interception", "notes"]

T = TypeVar("T")


class Interception:
    """The interceptors of one turn."""

    def __init__(self, contexts: TurnContexts) -> None:
        self._contexts = contexts
        self._guards = contexts.scope.guards
        self._notices = contexts.scope.conversation.notices
        self._corrections = 0

    @property
    def redacts(self) -> bool:
        """Whether output of calls is redacted, and so not streamed."""
        return bool(self._guards.redact)

    async def input(self, arrived: InputArrived, *, steered: bool) -> InputArrived:
        """Show an input to the interceptors; return it as they leave it, with the context they add.

        Raises:
            InputRefused: One of them refuses it, or failed.
            StopTurn: One of them ends the turn.
        """
        whole = UserInput(items=arrived.items, steered=steered)
        added: tuple[ResponseItem, ...] = ()
        for guard in self._guards.input:
            try:
                whole = await self._called(guard, UserInput, whole)
                items = checked_items(whole.items, "its input's `items`", guard.call)
                added = notes(whole.context, guard.call)
            except (InputRefused, StopTurn):
                raise
            except Exception as error:  # fails closed
                raise InputRefused(_failed(guard, "input", error)) from error
            whole = whole.evolve(items=items)
        return InputArrived((*whole.items, *added), arrived.event)

    async def request(self, request: ModelRequest) -> ModelRequest:
        """Show a request to the interceptors.

        Raises:
            ModelError: One of them failed.
            StopTurn: One of them ends the turn.
        """
        for guard in self._guards.request:
            try:
                request = await self._called(guard, ModelRequest, request)
            except StopTurn:
                raise
            except Exception as error:  # fails closed: without its change the request must not go out
                raise ModelError(_failed(guard, "request", error)) from error
        return request

    @property
    def holds_items(self) -> bool:
        """Whether items of the model are shown to interceptors before clients see them."""
        return bool(self._guards.after_item)

    async def item(self, item: ResponseItem) -> ResponseItem:
        """Show an item of the model to the interceptors. Raises as :meth:`request`."""
        for guard in self._guards.after_item:
            try:
                item = await self._called(guard, type(item), item)
            except StopTurn:
                raise
            except Exception as error:  # fails closed: nobody may see the item
                raise ModelError(_failed(guard, "after_item", error)) from error
        return item

    async def before_tool(self, call: ToolCall) -> ToolCall:
        """Show a call to the interceptors.

        Raises:
            ToolError, FatalToolError, StopTurn: As an interceptor decides. One that failed is told, and the call is not made.
        """
        for guard in self._guards.before_tool:
            call = await self._decided(guard, "before_tool", ToolCall, call)
        return call

    async def after_tool(self, call: ToolCall, output: ToolOutput) -> ToolOutput:
        """Show a call's output to the interceptors. Raises as :meth:`before_tool`."""
        for guard in self._guards.after_tool:
            output = await self._decided(guard, "after_tool", ToolOutput, call, output)
        return output

    async def _decided(self, guard: Guard, method: str, kind: type[T], *arguments: Any) -> T:
        try:
            return await self._called(guard, kind, *arguments)
        except (ToolError, FatalToolError, StopTurn):
            raise
        except Exception as error:  # fails closed
            self._notices.tell(_failed(guard, method, error))
            raise ToolError(f"interceptor {guard.name!r} failed: {described(error)}") from error

    async def _called(self, guard: Guard, kind: type[T], *arguments: Any) -> T:
        result = await contained(guard.call, *arguments, self._contexts(guard.plugin))
        return checked(result, kind, "it", guard.call)

    def redact(self, text: str) -> str:
        """Return a text without what nobody should see. If an interceptor fails, nothing of the text is left."""
        for guard in self._guards.redact:
            try:
                label = _label(guard)
                redacted = self._notices.timed(label, "redact", guard.call, text, self._contexts.scope.facts)
                text = checked(redacted, str, "it", guard.call)
            except Exception as error:  # fails closed
                return f"[withheld: {_failed(guard, 'redact', error)}]"
        return text

    def alone(self, call: ToolCall) -> bool:
        """Return whether an interceptor wants a call to run alone. If it cannot say, it does."""
        for guard in self._guards.alone:
            try:
                if self._notices.timed(_label(guard), "alone", guard.call, call):
                    return True
            except Exception as error:  # the careful answer
                self._notices.tell(_failed(guard, "alone", error))
                return True
        return False

    async def before_compact(self, reason: str) -> None:
        """Tell the interceptors that a compaction is about to be made.

        Raises:
            CodexError: One of them prevents it, or failed.
        """
        for guard in self._guards.before_compact:
            try:
                await contained(guard.call, reason, self._contexts(guard.plugin))
            except CodexError:
                raise
            except Exception as error:  # fails closed
                raise ThreadError(_failed(guard, "before_compact", error), slug="compaction") from error

    async def after_compact(self, compaction: Compaction, reason: str) -> None:
        """Tell the interceptors of a compaction. A failure is a warning."""
        for guard in self._guards.after_compact:
            try:
                await contained(guard.call, compaction, reason, self._contexts(guard.plugin))
            except Exception as error:  # the compaction is made
                self._notices.tell(_failed(guard, "after_compact", error))

    @property
    def checks_stop(self) -> bool:
        """Whether an interceptor sees the end of the turn."""
        return bool(self._guards.stop) or self._contexts.scope.conversation.output is not None

    async def stop(self, outcome: Outcome) -> InputArrived | None:
        """Ask whether the turn may end; the first text makes it go on. A failure is a warning."""
        for guard in self._guards.stop:
            try:
                text = await contained(guard.call, outcome, self._contexts(guard.plugin))
                if text is not None:
                    text = checked(text, str, "it", guard.call)
            except StopTurn:
                return None
            except Exception as error:  # it may end
                self._notices.tell(_failed(guard, "stop", error))
                continue
            if text:
                return InputArrived((user_message(text),))
        return self._corrected(outcome)

    def _corrected(self, outcome: Outcome) -> InputArrived | None:
        """Send an output that does not fit the agent's type back to the model, a few times."""
        output = self._contexts.scope.conversation.output
        if output is None or self._corrections >= output.retries:
            return None
        problem = output.problem(outcome.last_agent_message)
        if problem is None:
            return None
        self._corrections += 1
        return InputArrived((user_message(problem, role="developer"),))


def notes(texts: Sequence[str], source: Any = None) -> tuple[ResponseItem, ...]:
    """Return texts for the model as developer messages.

    Raises:
        WrongValue: It is no list of texts.
    """
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts):
        raise WrongValue(f"its `context` is {texts!r}, not a list of texts", source)
    return tuple(Message(role="developer", content=(InputText(text),)) for text in texts)


def _label(guard: Guard) -> Label:
    return Label("interceptor", guard.name, guard.plugin)


def _failed(guard: Guard, method: str, error: Exception) -> str:
    return _label(guard).failed(method, error)
