"""The implementations of ``TurnContext`` and ``TaskContext``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from codex_framework.contract.errors import ToolError, TurnEnded
from codex_framework.contract.protocol.events import EventMsg, Request
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.calls import CallView, ToolCall, ToolOutput
from codex_framework.contract.roles.commands import CommandRequest, CommandResult
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.outcomes import Outcome, SampleResult
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.scopes import Span
from codex_framework.contract.roles.threads import ThreadClient, ThreadContext
from codex_framework.contract.value import Value
from codex_framework.threads.agents import check_agent
from codex_framework.threads.conversation import Start
from codex_framework.threads.faults import checked_items, refuse
from codex_framework.threads.plugin_calls import because
from codex_framework.threads.plugin_view import PluginView, view_of
from codex_framework.threads.turn.model_requests import draft_request
from codex_framework.threads.turn.scope import TurnScope

__all__ = ["PluginTurn", "TurnActions", "TurnContexts"]

T = TypeVar("T")
A = TypeVar("A")


class TurnActions(Value, kw_only=True):
    """Actions that only higher-level parts can perform. They set them when the turn is created."""

    call_tool: Callable[[str, Mapping[str, Any] | str, str | None, str, str | None], Awaitable[ToolOutput]]
    sample: Callable[[ModelRequest, bool], Awaitable[SampleResult]]
    run_loop: Callable[[], Awaitable[Outcome]]
    run_command: Callable[[CommandRequest, bool], Awaitable[CommandResult]]
    compact: Callable[[str], Awaitable[None]]
    record: Callable[[Sequence[ResponseItem], Actor], None]


class TurnContexts:
    """The contexts of one turn, one for each plugin. They become invalid when the turn ends."""

    def __init__(self, scope: TurnScope) -> None:
        self.scope = scope
        self.actions: TurnActions | None = None
        self.ended = False
        self._input_waits = False
        self._input_arrived: asyncio.Event | None = None  # made for those who wait
        self.children: list[ThreadClient] = []
        self._contexts: dict[str, PluginTurn] = {}

    def __call__(self, plugin: str) -> PluginTurn:
        """Return the context of a plugin."""
        context = self._contexts.get(plugin)
        if context is None:
            context = self._contexts[plugin] = PluginTurn(self, plugin)
        return context

    def note_input(self, *, waits: bool) -> None:
        """Note whether there is input of the user that is in no request to the model yet."""
        self._input_waits = waits
        if waits and self._input_arrived is not None:
            self._input_arrived.set()
            self._input_arrived = None

    async def until_input(self) -> None:
        """Wait until there is such input."""
        if not self._input_waits:
            self._input_arrived = self._input_arrived or asyncio.Event()
            await self._input_arrived.wait()

    def end_actions(self) -> None:
        """Disable the actions of the task, so that nothing is recorded after its end."""
        self.actions = None

    async def end_children(self) -> None:
        """Shut down the children of the turn."""
        children, self.children = self.children, []
        for child in children:
            await child.shutdown()


class PluginTurn(PluginView):
    """A turn for one plugin. The contract describes the members."""

    facts: TurnFacts = view_of("_contexts.scope.facts")
    history: Sequence[ResponseItem] = view_of("_scope.conversation.journal.history.items")
    samples: int = view_of("_scope.samples")
    continuations: int = view_of("_scope.continuations")
    _services = view_of("_scope.conversation.services")
    _state = view_of("_scope.conversation.plugin_state")
    _background = view_of("_scope.conversation.background")

    def __init__(self, contexts: TurnContexts, plugin: str) -> None:
        super().__init__(plugin)
        self._contexts = contexts

    @property
    def _scope(self) -> TurnScope:
        if self._contexts.ended:
            raise TurnEnded(
                f"the turn {self._contexts.scope.turn_id} has ended",
                hint="Use the context of a turn only while the turn runs. For later work, use `turn.thread`.",
            )
        return self._contexts.scope

    @property
    def _actions(self) -> TurnActions:
        actions = self._contexts.actions
        if self._contexts.ended or actions is None:
            raise TurnEnded(f"the turn {self._contexts.scope.turn_id} has ended")
        return actions

    # TurnContext

    @property
    def thread(self) -> ThreadContext:
        """The thread."""
        return self._contexts.scope.conversation.context(self._plugin)

    def emit(self, event: EventMsg) -> None:
        """Send an event to the clients."""
        if not isinstance(event, EventMsg):
            refuse("an EventMsg", event, "emit")
        self._scope.emit(event)

    def because(self, cause: str) -> None:
        """Name the cause of the plugin's next action."""
        if not isinstance(cause, str):
            refuse("a string", cause, "because")
        because(cause)

    async def request(self, request: Request[A]) -> A:
        """Ask the clients."""
        scope = self._scope
        if not isinstance(request, Request):
            refuse("a Request", request, "request")
        answer: A = await scope.ask(request)
        return answer

    async def until_input(self) -> None:
        """Wait until there is input for the model."""
        _ = self._scope
        await self._contexts.until_input()

    def view(self, call: ToolCall) -> CallView | None:
        """Return the name and arguments of a call in the form for hooks."""
        registered = self._scope.router.find(call.name)
        return None if registered is None or registered.view is None else registered.view(call)

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with other arguments."""
        registered = self._scope.router.find(call.name)
        if registered is None or registered.with_arguments is None:
            raise ToolError(f"the arguments of {call.name} cannot be changed")
        return registered.with_arguments(call, arguments)

    def span(self, name: str, **attributes: str | float | bool) -> AbstractContextManager[Span]:
        """Measure a block."""
        return self._contexts.scope.reports.telemetry.measure(name, **attributes)

    # TaskContext

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history."""
        checked = checked_items(items, "what is recorded")
        self._actions.record(checked, Actor(role="task", name=self._scope.facts.kind, plugin=self._plugin))

    def draft(self, items: Sequence[ResponseItem] | None = None, *, tools: bool = True) -> ModelRequest:
        """Return the request that the next sample would send."""
        if items is not None:
            items = checked_items(items, "what is drafted")
        return draft_request(self._scope, items, tools=tools)

    @property
    def server_compacts(self) -> bool:
        """Whether the server shortens conversations itself."""
        return getattr(self._scope.client, "compacts", False) is True

    async def sample(self, request: ModelRequest, *, announce: bool = True) -> SampleResult:
        """Ask the model."""
        if not isinstance(request, ModelRequest):
            refuse("a ModelRequest, such as the result of `turn.draft()`", request, "sample")
        return await self._actions.sample(request, announce)

    async def run_loop(self) -> Outcome:
        """Run the built-in loop."""
        return await self._actions.run_loop()

    async def compact(self, reason: str) -> None:
        """Shorten the history."""
        await self._actions.compact(reason)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str | None = None
    ) -> ToolOutput:
        """Call a tool."""
        return await self.call_within(None, name, arguments, call_id)

    async def call_within(
        self, within: str | None, name: str, arguments: Mapping[str, Any] | str, call_id: str | None
    ) -> ToolOutput:
        """Call a tool within a call, whose id is given, of another one."""
        return await self._actions.call_tool(name, arguments, call_id, self._plugin, within)

    async def run_command(self, command: CommandRequest, *, as_user: bool = False) -> CommandResult:
        """Run a command."""
        return await self._actions.run_command(command, as_user)

    async def spawn(self, agent: Agent[Any], prompt: str | None = None, *, fork: int | None = 0) -> ThreadClient:
        """Start a child thread that ends with the turn."""
        check_agent(agent, "spawn")
        contexts = self._contexts
        _ = self._actions
        child = await self._scope.conversation.spawn(agent, prompt, Start(fork=fork))
        contexts.children.append(child)
        if contexts.actions is None:  # the turn has ended in the meantime
            await contexts.end_children()
        return child
