"""The shared state of a thread's turns, tasks, ops and plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

from codex_framework.commands.approval import ApprovalCache
from codex_framework.config import Config
from codex_framework.contract.protocol.events import TokenUsage
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.outcomes import Limits
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import PluginEntry, ThreadMeta
from codex_framework.contract.roles.threads import ThreadClient, ThreadContext
from codex_framework.contract.value import Value, field
from codex_framework.threads.budget import BUDGET_KIND, Budget, Spent
from codex_framework.threads.components import Origin
from codex_framework.threads.delivery import Delivered
from codex_framework.threads.faults import advice
from codex_framework.threads.host import Host
from codex_framework.threads.journal import Journal
from codex_framework.threads.output import Output
from codex_framework.threads.plugin_calls import Notices
from codex_framework.threads.plugin_view import Background, PluginState, Services
from codex_framework.threads.prompt_context import ContextUpdate, PromptContext
from codex_framework.threads.provenance import Trail
from codex_framework.threads.reasoning_providers import ReasoningProviders
from codex_framework.threads.requests import RequestDesk
from codex_framework.threads.thread_commands import ThreadCommands
from codex_framework.threads.thread_parts import ThreadParts
from codex_framework.threads.tool_router import OfferedTools
from codex_framework.threads.tool_table import ToolTable
from codex_framework.toolkit.selected_environments import environments_of

__all__ = ["Conversation", "Origin", "Spawn", "Start"]


class Start(Value, kw_only=True):
    """How a child starts; see ``ThreadContext.spawn``."""

    fork: int | None = 0
    extra: Mapping[str, Any] = field(factory=dict)
    resume: str | None = None


Spawn: TypeAlias = "Callable[[Conversation, Agent[Any], str | None, Start], ThreadClient]"
"""Starts or resumes a child of a conversation, with a first prompt."""

_NO_TOKENS, _NOTHING_SPENT, _NO_LIMITS = TokenUsage(), Spent(), Limits()


class Conversation:
    """The shared state of a thread's turns, tasks, ops and plugins. Parts that only some threads need are created at first use.

    Attributes:
        host: The parts of the kernel, with the configuration of the running turn.
        next_config: The configuration from the next turn on.
        settings: The settings of the next turn.
        agent: The agent of the thread, if it has one.
        granted: Permissions granted for the session, by environment.
        total_usage: Tokens of all turns.
        first_model: The model of the first turn since the thread was started or resumed. None before the end of this turn.
        previous_model: The model of the previous turn.
        previous_environments: The ids of the environments of the newest turns that had others than the last one.
        notices: Warnings about plugins in this thread, each emitted once.
        turn: The facts of the running turn. None while the thread is idle.
        tools_version: Counts the changes of the thread's tools.
        deliveries: Delivered items that no turn has recorded yet.
        origins: The providers that wrote reasoning.
        losses: The omissions of requests that were reported to the user.
        parts: The thread's parts of components.
        output: The check of the agent's output. Plain text is not checked.
        context: Returns the view of the thread for a plugin.
    """

    context: Callable[[str], ThreadContext]
    granted: Mapping[str, AdditionalPermissions] = MappingProxyType({})
    losses: frozenset[tuple[str, str, str]] = frozenset()
    output: Output | None = None
    previous_environments: tuple[str, ...] = ()
    tools_version = 0

    def __init__(
        self,
        *,
        host: Host,
        settings: Settings,
        meta: ThreadMeta,
        journal: Journal,
        spawn: Spawn,
        agent: Agent[Any] | None = None,
        parent: Conversation | None = None,
        origin: Origin = "new",
        services: Mapping[ServiceKey[Any], object] | None = None,
        usage: TokenUsage = _NO_TOKENS,
        spent: Spent = _NOTHING_SPENT,
        inherited: ReasoningProviders | None = None,
    ) -> None:
        self.meta = meta
        self.host = host
        self.next_config: Config = host.config if parent is None else parent.next_config
        self.settings = settings
        self.journal = journal
        self.agent = agent
        self.parent = parent
        self.origin: Origin = origin
        self.total_usage = usage
        self.first_model: ModelInfo | None = None
        self.previous_model: ModelInfo | None = None
        self._last_environments: tuple[str, ...] | None = None
        self.turn: TurnFacts | None = None
        self._tools: ToolTable | None = None  # kept for the next turn and for other threads
        self.deliveries: list[Delivered] = []
        self.services = Services(services, host.services) if services else host.services
        self.origins = journal.history.origins = ReasoningProviders(journal, meta.model_provider, inherited)
        self.notices = Notices(journal.warn, host.registry.is_bundled)
        self.parts = ThreadParts((), self.notices)
        if agent is not None and agent.output_type is not str:
            self.output = Output(agent)
        self._spawn = spawn
        self._budget_start = (_limits(agent, host.config if parent is None else None), spent)

    def connect(self, context: Callable[[str], ThreadContext]) -> None:
        """Give plugins their views of the thread, and make its parts of components."""
        self.context = context
        self.parts = self.host.components.for_thread(context, self.notices, self.origin)

    # What the thread is

    @property
    def id(self) -> str:
        """The thread's id."""
        return self.meta.id

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged configuration as plain tables."""
        return self.host.config.tables

    @property
    def ancestors(self) -> Iterator[Conversation]:
        """The ancestors of this thread, its parent first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def depth(self) -> int:
        """The number of ancestors."""
        return sum(1 for _ in self.ancestors)

    @property
    def begins_work(self) -> bool:
        """Whether plugins have begun work for the thread in the background."""
        return bool(self.background) or not self.parts.ready

    @property
    def agents_above(self) -> Sequence[Agent[Any]]:
        """The agents of the ancestors, whose restrictions of tools apply to this thread too."""
        return [above.agent for above in self.ancestors if above.agent is not None]

    @property
    def settings_above(self) -> Sequence[Settings]:
        """The settings of the ancestors."""
        return [above.settings for above in self.ancestors]

    @property
    def tells_interrupts(self) -> bool:
        """Whether the model is told of interrupts (``agents.interrupt_message``)."""
        return self.host.config.get("agents.interrupt_message") is not False

    @property
    def trail(self) -> Trail:
        """The record of who changed what."""
        return Trail(self.journal, self.host.registry.change_recorders, self.notices)

    # What is made at its first use

    @cached_property
    def requests(self) -> RequestDesk:
        """The requests to clients that wait for an answer."""
        parent = None if self.parent is None else self.parent.requests
        return RequestDesk(self.id, tell=self.journal.emit, answering=self.journal.answering, parent=parent)

    @cached_property
    def budget(self) -> Budget:
        """The usage of the thread and its children, and their limits."""
        limits, spent = self._budget_start
        return Budget(
            limits,
            parent=None if self.parent is None else self.parent.budget,
            spent=spent,
            keep=self._record_spending,
            warn=self.journal.warn,
        )

    @cached_property
    def commands(self) -> ThreadCommands:
        """The commands of the thread, and the processes of its plugins."""
        return ThreadCommands(self.id, self.notices, lambda: (self.host, self.settings))

    @cached_property
    def patches(self) -> ApprovalCache:
        """Approvals of patches for the session."""
        return ApprovalCache()

    @cached_property
    def tool_approvals(self) -> ApprovalCache:
        """Approvals of calls of tools for the session."""
        return ApprovalCache()

    @cached_property
    def offered_tools(self) -> OfferedTools:
        """The deferred tools that the model is offered."""
        return OfferedTools(self.journal)

    @cached_property
    def plugin_state(self) -> PluginState:
        """The objects that plugins keep for the thread."""
        return PluginState()

    @cached_property
    def background(self) -> Background:
        """The background work of plugins."""
        return Background(self.journal.warn)

    @cached_property
    def children(self) -> list[ThreadClient]:
        """The threads that plugins have spawned for as long as this one lives."""
        return []

    @cached_property
    def prompt_context(self) -> PromptContext:
        """The context that sources add to prompts."""
        registry = self.host.registry
        sources: Sequence[Any] = registry.context_sources
        if self.agent is not None and self.agent.context is not None:
            sources = [source for source in sources if source.name in self.agent.context]
        return PromptContext(sources, registry.owners, self.host.first_contexts)

    def _record_spending(self, data: Mapping[str, Any]) -> None:
        """Record the usage of the thread and its children. A turn flushes it at its end; a child's usage is flushed here."""
        self.journal.keep(PluginEntry(plugin="", kind=BUDGET_KIND, data=data))
        if self.turn is None:
            self.journal.flush("")

    # What turns and plugins do

    async def spawn(self, agent: Agent[Any], prompt: str | None, start: Start) -> ThreadClient:
        """Start or resume a child."""
        return self._spawn(self, agent, prompt, start)

    def find_tools(self, facts: TurnFacts) -> ToolTable:
        """Return the table of tools for a turn."""
        offers = tuple(self.parts.tools(facts))
        self._tools = self.host.tool_tables.table(self.host.registry, self.agent, self.agents_above, offers)
        return self._tools

    def grant(self, environment_id: str, more: AdditionalPermissions) -> None:
        """Grant further permissions in an environment for the session."""
        before = self.granted.get(environment_id, AdditionalPermissions())
        self.granted = {**self.granted, environment_id: before.merged(more)}

    def note_environments(self) -> tuple[str, ...]:
        """Note the selection of a turn that begins. Return the ids of the selection before it."""
        now = tuple(environment.environment_id for environment in environments_of(self.settings))
        if self._last_environments not in (None, now):
            self.previous_environments = self._last_environments or ()
        self._last_environments = now
        return self.previous_environments

    def renew(self) -> None:
        """Begin to use a changed configuration. Called before a turn, so that nothing changes under a running one."""
        if self.next_config is not self.host.config:
            self.commands.forget_environment()
            self.host = self.host.with_config(self.next_config)
            self.host.components.renew(self.parts, self.context, self.notices)

    def update_context(self, facts: TurnFacts) -> ContextUpdate:
        """Record new and changed context, and return it."""
        update = self.prompt_context.update(facts, self.journal.history)
        self.trail.record_context(update, facts.turn_id)
        self.journal.record(update.messages)
        return update

    async def aclose(self) -> Sequence[str]:
        """Close objects that were created. Return warnings for the user."""
        made = self.__dict__
        await self.background.aclose()  # from here on, nothing is started any more
        for child in made.get("children", ()):
            await child.shutdown()
        await self.parts.aclose()
        if "commands" in made:
            await self.commands.aclose()
        if "plugin_state" not in made:
            return ()
        return [f"{fact}. {advice(plugin)}" for plugin, fact in await self.plugin_state.aclose()]


def _limits(agent: Agent[Any] | None, config: Config | None) -> Limits:
    """Return the limits of an agent and of the configuration. A child gets no limits from the configuration."""
    limits = _NO_LIMITS if agent is None else agent.limits
    configured = None if config is None else config.get("framework.limits")
    return limits.smaller(Limits(**configured)) if configured else limits
