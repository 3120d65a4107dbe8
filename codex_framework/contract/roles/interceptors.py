"""The role of an interceptor, which sees and can change the requests, calls and outputs of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.ops import MentionInput, SkillInput
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelClient, ModelRequest, ProviderInfo
from codex_framework.contract.roles.outcomes import Compaction, Outcome
from codex_framework.contract.roles.threads import TurnContext
from codex_framework.contract.value import Value

__all__ = ["Interceptor", "MessageView", "UserInput"]


class UserInput(Value, kw_only=True):
    """User input that is about to be recorded.

    Attributes:
        items: The items to record.
        additional_context: Context sent by the client (``additional_context`` of the op), recorded before ``items``.
        context: Additional texts for the model, recorded as developer messages.
        mentions: Skills and other things that the client has named in separate items. They are not recorded. An interceptor
            that knows one adds text for the model to ``items``.
        steered: Whether it arrived while a turn was running.
    """

    items: Sequence[ResponseItem]
    additional_context: Sequence[ResponseItem] = ()
    context: Sequence[str] = ()
    mentions: Sequence[SkillInput | MentionInput] = ()
    steered: bool = False


class MessageView(Protocol):
    """Decides which text of one message clients see while it streams."""

    def feed(self, text: str) -> str:
        """Return the visible part of a piece of text. Pieces can end anywhere: keep back text that you cannot decide about yet."""
        ...

    def end(self) -> str:
        """Return the visible part of the text that was kept back. Called once, when the message is complete."""
        ...


class Interceptor:
    """Sees and can change the data of a turn. Override what you need: a method that is not overridden costs nothing.

    Its changes and refusals are recorded with its name and plugin, and with the causes that it names with ``turn.because``.
    Methods that run before a step are called in ``order``, smallest first, and methods that run after it in reverse order, so
    that the first interceptor is the outermost. If a method raises, the request or call is not made, or an error replaces the
    output. :class:`~codex_framework.contract.errors.StopTurn` ends the turn as a normal stop.

    Attributes:
        name: Short and unique.
        order: Its position among the interceptors.
        redacts: Whether :meth:`redact` is used. If so, the output of calls is not streamed to clients.
    """

    name: ClassVar[str] = ""
    order: int = 100
    redacts: bool = False

    def applies(self, turn: TurnFacts) -> bool:  # noqa: ARG002  # for those who override it
        """Return whether it takes part in a turn."""
        return True

    def takes(self, input: UserInput, turn: TurnFacts) -> bool:  # noqa: A002, ARG002  # the contract's word
        """Return whether :meth:`input` may do something with an input. Keep it cheap.

        An input that no interceptor takes is recorded immediately, which saves a step of the event loop before the first
        request.
        """
        return True

    async def input(self, input: UserInput, turn: TurnContext) -> UserInput:  # noqa: A002, ARG002  # the contract's word
        """Process each user input before it is recorded.

        Raises:
            InputRefused: The input is refused, and its sender is informed.
        """
        return input

    async def request(self, request: ModelRequest, turn: TurnContext) -> ModelRequest:  # noqa: ARG002
        """Process each request to the model."""
        return request

    async def after_item(self, item: ResponseItem, turn: TurnContext) -> ResponseItem:  # noqa: ARG002
        """Process each message and reasoning item of the model before clients see it. Its text deltas are delayed until then."""
        return item

    def view_message(self, turn: TurnContext) -> MessageView | None:  # noqa: ARG002
        """Return a view for a message that begins: it decides which of the text clients see. None shows all of it.

        The conversation keeps the whole message. An exception, also of the view, ends the turn, as for :meth:`after_item`.
        """
        return None

    async def before_tool(self, call: ToolCall, turn: TurnContext) -> ToolCall:  # noqa: ARG002
        """Process each tool call.

        Raises:
            ToolRefused: The call is not made, and the text is returned to the model.
        """
        return call

    def alone(self, call: ToolCall) -> bool:  # noqa: ARG002
        """Return whether a call must run alone although its tool is parallel-safe. Keep it cheap.

        For interceptors that rewrite calls into ones that must not overlap with others.
        """
        return False

    async def after_tool(self, call: ToolCall, output: ToolOutput, turn: TurnContext) -> ToolOutput:  # noqa: ARG002
        """Process the output of each call."""
        return output

    def redact(self, text: str, turn: TurnFacts) -> str:  # noqa: ARG002
        """Return a text of a call or a task without its secrets.

        Called for output, events and details, for the commands of tasks and for items that tasks record. Long texts are
        redacted before they are cut, and again afterwards, so a text that is already redacted must not change.
        """
        return text

    async def before_compact(self, reason: str, turn: TurnContext) -> None:
        """Run before a compaction. An exception prevents it."""

    async def after_compact(self, compaction: Compaction, reason: str, turn: TurnContext) -> None:
        """Run after a compaction."""

    async def stop(self, outcome: Outcome, turn: TurnContext) -> str | None:  # noqa: ARG002
        """Check a turn that is about to complete. A returned text continues the turn as its input, at most 25 times."""
        return None

    def client(self, client: ModelClient, provider: ProviderInfo) -> ModelClient:  # noqa: ARG002
        """Return the client to use for a provider, such as a recorder, a cache or a limiter around ``client``.

        Called once for each provider, when it is first used. A client that derives from
        :class:`~codex_framework.ClientWrapper` keeps the optional abilities of the other one.
        """
        return client
