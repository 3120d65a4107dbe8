"""What interceptors do in a turn: each method's calls, in order, with what follows when one fails."""

from __future__ import annotations

from codex_framework.contract.errors import CodexError, InputRefused, ModelError, StopTurn, ThreadError
from codex_framework.contract.protocol.items import InputText, Message, ResponseItem, user_message
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.interceptors import UserInput
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.outcomes import Compaction, Outcome
from codex_framework.threads.faults import checked
from codex_framework.threads.turn.machine import InputArrived
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["Interception"]


class Interception:
    """The interceptors of one turn."""

    def __init__(self, contexts: TurnContexts) -> None:
        self._contexts = contexts
        self._guards = contexts.scope.guards
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
        for guard in self._guards.input:
            try:
                whole = checked(await guard.call(whole, self._contexts(guard.plugin)), UserInput, _label(guard.name))
            except (InputRefused, StopTurn):
                raise
            except Exception as error:  # deciders fail closed
                raise InputRefused(_failed(guard.name, error)) from error
        return InputArrived((*whole.items, *notes(whole.context)), arrived.event)

    async def request(self, request: ModelRequest) -> ModelRequest:
        """Show a request to the interceptors.

        Raises:
            ModelError: One of them failed.
            StopTurn: One of them ends the turn.
        """
        for guard in self._guards.request:
            try:
                result = await guard.call(request, self._contexts(guard.plugin))
                request = checked(result, ModelRequest, _label(guard.name))
            except StopTurn:
                raise
            except Exception as error:  # deciders fail closed: without its change the request must not go out
                raise ModelError(_failed(guard.name, error)) from error
        return request

    @property
    def holds_items(self) -> bool:
        """Whether items of the model are shown to interceptors before clients see them."""
        return bool(self._guards.after_item)

    async def item(self, item: ResponseItem) -> ResponseItem:
        """Show an item of the model to the interceptors. Raises as :meth:`request`."""
        for guard in self._guards.after_item:
            try:
                result = await guard.call(item, self._contexts(guard.plugin))
                item = checked(result, type(item), _label(guard.name))
            except StopTurn:
                raise
            except Exception as error:  # deciders fail closed: nobody may see the item
                raise ModelError(_failed(guard.name, error)) from error
        return item

    async def before_tool(self, call: ToolCall) -> ToolCall:
        """Show a call to the interceptors. What they raise comes through; it is the call's end."""
        for guard in self._guards.before_tool:
            result = await guard.call(call, self._contexts(guard.plugin))
            call = checked(result, ToolCall, _label(guard.name))
        return call

    async def after_tool(self, call: ToolCall, output: ToolOutput) -> ToolOutput:
        """Show a call's output to the interceptors. What they raise comes through."""
        for guard in self._guards.after_tool:
            result = await guard.call(call, output, self._contexts(guard.plugin))
            output = checked(result, ToolOutput, _label(guard.name))
        return output

    def redact(self, text: str) -> str:
        """Return a text without what nobody should see. If an interceptor fails, nothing of the text is left."""
        for guard in self._guards.redact:
            try:
                text = checked(guard.call(text, self._contexts.scope.facts), str, _label(guard.name))
            except Exception as error:  # fails closed
                return f"[withheld: {_failed(guard.name, error)}]"
        return text

    async def before_compact(self, reason: str) -> None:
        """Tell the interceptors that a compaction is about to be made.

        Raises:
            CodexError: One of them prevents it, or failed.
        """
        for guard in self._guards.before_compact:
            try:
                await guard.call(reason, self._contexts(guard.plugin))
            except CodexError:
                raise
            except Exception as error:  # deciders fail closed
                raise ThreadError(_failed(guard.name, error), slug="compaction") from error

    async def after_compact(self, compaction: Compaction, reason: str) -> None:
        """Tell the interceptors of a compaction. A failure is a warning."""
        for guard in self._guards.after_compact:
            try:
                await guard.call(compaction, reason, self._contexts(guard.plugin))
            except Exception as error:  # the compaction is made
                self._contexts.scope.conversation.parts.warn(_failed(guard.name, error))

    @property
    def checks_stop(self) -> bool:
        """Whether an interceptor sees the end of the turn."""
        return bool(self._guards.stop) or self._contexts.scope.conversation.output is not None

    async def stop(self, outcome: Outcome) -> InputArrived | None:
        """Ask whether the turn may end; the first text makes it go on. A failure is a warning."""
        for guard in self._guards.stop:
            try:
                text = await guard.call(outcome, self._contexts(guard.plugin))
            except StopTurn:
                return None
            except Exception as error:  # it may end
                self._contexts.scope.conversation.parts.warn(_failed(guard.name, error))
                continue
            if isinstance(text, str) and text:
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


def notes(texts: tuple[str, ...] | list[str] | object) -> tuple[ResponseItem, ...]:
    """Return texts for the model as developer messages."""
    assert isinstance(texts, (tuple, list))
    return tuple(Message(role="developer", content=(InputText(str(text)),)) for text in texts)


def _label(name: str) -> str:
    return f"interceptor {name!r}"


def _failed(name: str, error: Exception) -> str:
    return f"{_label(name)} failed: {type(error).__name__}: {error}"
