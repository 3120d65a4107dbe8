"""The role of an interceptor: it sees, and may change, what passes through a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelClient, ModelRequest, ProviderInfo
from codex_framework.contract.roles.outcomes import Compaction, Outcome
from codex_framework.contract.roles.threads import TurnContext
from codex_framework.contract.value import Value

__all__ = ["Interceptor", "UserInput"]


class UserInput(Value, kw_only=True):
    """Input of a person on its way into the conversation.

    Attributes:
        items: What is recorded.
        context: Texts for the model beside it, recorded as developer messages.
        steered: Whether it arrived while a turn was running.
    """

    items: Sequence[ResponseItem]
    context: Sequence[str] = ()
    steered: bool = False


class Interceptor:
    """Sees and may change what passes by. Override what you need: a method that is not overridden costs nothing.

    Methods that come before something are called in ``order``, smallest first; those that come after in reverse, so that the first
    interceptor is the outermost. An exception stops the thing at hand: no request, no call, an error in place of the output.
    :class:`~codex_framework.contract.errors.StopTurn` ends the turn as a normal stop.

    Attributes:
        name: Short and unique.
        order: Its place among the interceptors.
        redacts: Whether :meth:`redact` is used. While it applies, output of calls is not streamed to clients.
    """

    name: ClassVar[str] = ""
    order: int = 100
    redacts: bool = False

    def applies(self, turn: TurnFacts) -> bool:  # noqa: ARG002  # for those who override it
        """Return whether it takes part in a turn."""
        return True

    async def input(self, input: UserInput, turn: TurnContext) -> UserInput:  # noqa: A002, ARG002  # the contract's word
        """See each input of a person before it is recorded.

        Raises:
            InputRefused: The input is not taken; its sender is told.
        """
        return input

    async def request(self, request: ModelRequest, turn: TurnContext) -> ModelRequest:  # noqa: ARG002
        """See each request to the model."""
        return request

    async def after_item(self, item: ResponseItem, turn: TurnContext) -> ResponseItem:  # noqa: ARG002
        """See each message and reasoning of the model before clients do. Deltas of text are held back meanwhile."""
        return item

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:  # noqa: ARG002
        """See each call.

        Raises:
            ToolRefused: The call is not made; the text goes to the model.
        """
        return call

    def alone(self, call: ToolCall) -> bool:  # noqa: ARG002
        """Return whether a call has to run alone although its tool is parallel-safe. Keep it cheap.

        For interceptors that make something else of some calls, which must not overlap with others.
        """
        return False

    async def after_tool(self, call: ToolCall, output: ToolOutput, turn: TurnContext) -> ToolOutput:  # noqa: ARG002
        """See each call's output."""
        return output

    def redact(self, text: str, turn: TurnFacts) -> str:  # noqa: ARG002
        """Return a text that leaves a call without what nobody should see: output, events and details."""
        return text

    async def before_compact(self, reason: str, turn: TurnContext) -> None:
        """Run before a compaction. An exception prevents it."""

    async def after_compact(self, compaction: Compaction, reason: str, turn: TurnContext) -> None:
        """Run after a compaction."""

    async def stop(self, outcome: Outcome, turn: TurnContext) -> str | None:  # noqa: ARG002
        """See a completed turn that has nothing left to do. A text makes it go on, with the text as input; at most 25 a turn."""
        return None

    def client(self, client: ModelClient, provider: ProviderInfo) -> ModelClient:  # noqa: ARG002
        """Return the client to use for a provider: a recorder, a cache or a limiter around ``client``.

        Called once for each provider, when it is first used.
        """
        return client
