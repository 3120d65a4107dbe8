"""The parts of a thread that its turns, tasks and plugins share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from codex_framework.commands.access import file_access
from codex_framework.commands.approval import ApprovalCache
from codex_framework.commands.runner import CommandRunner
from codex_framework.config import Config
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.events import (
    ContextCompactedEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
)
from codex_framework.contract.protocol.items import Message, ResponseItem, is_user_message, message_text
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.protocol.turn_items import older_events
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.commands import RunningCommand
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.outcomes import Compaction, Limits
from codex_framework.contract.roles.policies import CommandPolicy
from codex_framework.contract.roles.provenance import Actor, Provenance
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import PluginEntry, ThreadMeta
from codex_framework.contract.roles.threads import ThreadClient, ThreadContext
from codex_framework.contract.value import Value, field
from codex_framework.contract.version import __version__
from codex_framework.threads.background import Background
from codex_framework.threads.budget import BUDGET_KIND, Budget, Spent, tighter
from codex_framework.threads.components import Origin
from codex_framework.threads.delivery import Delivered
from codex_framework.threads.faults import advice
from codex_framework.threads.host import Host
from codex_framework.threads.ids import new_id
from codex_framework.threads.journal import Journal
from codex_framework.threads.notices import Notices
from codex_framework.threads.offered_tools import OfferedTools
from codex_framework.threads.origins import Origins
from codex_framework.threads.output import Output
from codex_framework.threads.plugin_state import PluginState
from codex_framework.threads.prompt_context import ContextUpdate, PromptContext, sources_of
from codex_framework.threads.provenance import Trail
from codex_framework.threads.requests import RequestDesk
from codex_framework.threads.services import Services
from codex_framework.threads.thread_parts import ThreadParts
from codex_framework.threads.tool_table import ToolTable
from codex_framework.toolkit.environments import environments_of
from codex_framework.toolkit.truncation import truncate

if TYPE_CHECKING:
    from codex_framework.config.credentials import Credentials

__all__ = ["ContextPlace", "Conversation", "Origin", "Start"]

_ANYTHING = FileAccess(full=True, network=NetworkMode.ON)

ContextPlace = Literal["next_turn", "end", "last_words"]
"""The place of the initial context after a compaction: none yet, at the end, or before the last user message."""


class Start(Value, kw_only=True):
    """How a child starts; see ``ThreadContext.spawn``."""

    fork: int | None = 0
    extra: Mapping[str, Any] = field(factory=dict)
    resume: str | None = None


class Conversation:
    """One conversation. Its attributes are the parts that turns, tasks and ops work on.

    Attributes:
        base_instructions: Those of the thread's metadata. None means those of the model.
        agent: The agent of the thread. None means that it has none.
        patches, tool_approvals: Approvals for the session.
        granted: Permissions granted for the session, by environment.
        total_usage: Tokens of all turns.
        first_model: The model of the first turn since the thread was started or resumed. None before the end of this turn.
        previous_model: The model of the previous turn. None for the first turn.
        previous_environments: The ids of the environments of the newest turns that had others than the last one.
        output: The check of the agent's output. None for plain text.
        notices: Warnings about plugins in this thread, each emitted once.
        turn: The facts of the running turn. None while the thread is idle.
        tools_version: Counts the changes of the thread's tools.
        offered_tools: The deferred tools that the model is offered.
        deliveries: Delivered items that no turn has recorded yet.
        trail: The record of who changed what.
        origins: Which provider wrote reasoning.
        losses: What requests left out, as far as the user was told.
        next_config: The configuration from the next turn on.
        context: The thread's context for a plugin, by the plugin's name.
        spawn: Starts a child.
    """

    def __init__(
        self,
        *,
        host: Host,
        settings: Settings,
        meta: ThreadMeta,
        journal: Journal,
        agent: Agent[Any] | None = None,
        parent: Conversation | None = None,
        origin: Origin = "new",
        services: Mapping[ServiceKey[Any], object] | None = None,
        usage: TokenUsage = TokenUsage(),  # noqa: B008  # frozen
        spent: Spent = Spent(),  # noqa: B008  # frozen
        inherited: Origins | None = None,
    ) -> None:
        self.id = meta.id
        self.meta = meta
        self.host = host
        self.next_config: Config = host.config if parent is None else parent.next_config
        self._earlier: Credentials | None = None
        self.settings = settings
        self.journal = journal
        self.agent = agent
        self.parent = parent
        self.origin: Origin = origin
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.base_instructions = meta.base_instructions
        self.plugin_state = PluginState()
        self.patches = ApprovalCache()
        self.tool_approvals = ApprovalCache()
        self.granted: dict[str, AdditionalPermissions] = {}
        self.total_usage = usage
        self.first_model: ModelInfo | None = None
        self.previous_model: ModelInfo | None = None
        self.previous_environments: tuple[str, ...] = ()
        self._last_environments: tuple[str, ...] | None = None
        self.turn: TurnFacts | None = None
        self.tools_version = 0
        self._tools: ToolTable | None = None  # kept for the next turn and for other threads
        self.offered_tools = OfferedTools(journal)
        self.deliveries: list[Delivered] = []
        self.services = Services(services, host.services)
        self.trail = Trail(journal)
        self.origins = journal.history.origins = Origins(journal, meta.model_provider, inherited)
        self.losses: set[tuple[str, str, str]] = set()
        self.notices = Notices(lambda text: journal.warn(text, slug="plugin-failed"))
        self.background = Background(journal.warn)
        self.requests: RequestDesk = RequestDesk(
            meta.id,
            tell=journal.emit,
            answering=journal.answering,
            parent=None if parent is None else parent.requests,
        )
        limits = Limits() if agent is None else agent.limits
        self.budget: Budget = Budget(
            limits if parent is not None else tighter(limits, Limits(**(host.config.get("framework.limits") or {}))),
            parent=None if parent is None else parent.budget,
            spent=spent,
            keep=self._keep_spent,
            warn=journal.warn,
        )
        self.parts = ThreadParts((), self.notices)
        self.output = None if agent is None or agent.output_type is str else Output(agent)
        self.children: list[ThreadClient] = []
        self._processes: list[RunningCommand] = []
        self._compaction: dict[str, Any] = {}
        self.context: Callable[[str], ThreadContext] = _no_context
        self.spawn: Callable[[Agent[Any], str | None, Start], Awaitable[ThreadClient]] = _no_children
        self.commands = CommandRunner(
            policies=self._judges,
            confinements=host.confinements,
            environment_policy=settings.shell_environment_policy,
            keep_variables=settings.keep_variables,
            credentials=self._credentials,
            environ=host.environ,
            extra_env={
                "CODEX_HOME": str(host.codex_home),
                "CODEX_SESSION_ID": meta.id,
                "CODEX_THREAD_ID": meta.id,
                "CODEX_VERSION": __version__,
            },
            search_path=host.programs.path,
            limit_text=lambda text: truncate(text, ("tokens", 10_000)),
            proxy=next(iter(host.registry.network_proxies.values()), None),
            elsewhere=host.environments.offered,
        )

    @property
    def tells_interrupts(self) -> bool:
        """Whether the model is told of interrupts (``agents.interrupt_message``)."""
        return self.host.config.get("agents.interrupt_message") is not False

    def _credentials(self) -> Credentials:
        """Return what no command gets. What an earlier configuration named stays secret."""
        found = self.host.credentials(self.settings.provider)
        return found if self._earlier is None else found.and_also(self._earlier)

    def _keep_spent(self, data: Mapping[str, Any]) -> None:
        """Record what the thread and its children have spent. A turn flushes it at its end; for a child, nobody else would."""
        self.journal.keep(PluginEntry(plugin="", kind=BUDGET_KIND, data=data))
        if self.turn is None:
            self.journal.flush("")

    def _judges(self) -> tuple[CommandPolicy, ...]:
        """Return the command policies, made for the first command."""
        from codex_framework.threads.judges import judges

        return judges(self.host.registry, self.notices)

    def find_tools(self, facts: TurnFacts) -> ToolTable:
        """Return the table of tools for a turn."""
        offers = tuple(self.parts.tools(facts))
        self._tools = self.host.tool_tables.table(self.host.registry, self.agent, self.agents_above, offers)
        return self._tools

    @property
    def agents_above(self) -> Sequence[Agent[Any]]:
        """The agents of the ancestors, whose restrictions of tools apply to this thread too."""
        found: list[Agent[Any]] = []
        above = self.parent
        while above is not None:
            found += () if above.agent is None else (above.agent,)
            above = above.parent
        return found

    @property
    def settings_above(self) -> Sequence[Settings]:
        """The settings of the ancestors."""
        found: list[Settings] = []
        above = self.parent
        while above is not None:
            found.append(above.settings)
            above = above.parent
        return found

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged configuration as plain tables."""
        return self.host.config.tables

    def grant(self, environment_id: str, more: AdditionalPermissions) -> None:
        """Grant further permissions in an environment for the session."""
        before = self.granted.get(environment_id, AdditionalPermissions())
        self.granted[environment_id] = before.merged(more)

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
            self._earlier = self._credentials()
            self.host = self.host.configured(self.next_config)
            self.commands.forget_environment()
            self.host.components.renew(self.parts, self.context, self.notices)

    def update_context(self, facts: TurnFacts) -> ContextUpdate:
        """Record new and changed context, and return it."""
        update = self._prompt_context.update(facts, self.journal.history)
        if update.messages and self.trail.keeps:
            self._tell_sources(update, facts)
        self.journal.record(update.messages)
        return update

    def begin_compaction(self, facts: TurnFacts) -> None:
        """Tell clients that a compaction begins, as a turn item. :meth:`compact` completes it."""
        self._compaction = {"type": "ContextCompaction", "id": new_id()}
        now_ms = int(time.time() * 1000)
        self.journal.emit(facts.turn_id, ItemStartedEvent(facts.thread_id, facts.turn_id, self._compaction, now_ms))

    def compact(self, compaction: Compaction, facts: TurnFacts, place: ContextPlace) -> Sequence[str]:
        """Replace the history by a compaction and flush it to disk.

        Args:
            place: Where the initial context is inserted. ``next_turn`` means that the next turn adds it.

        Returns:
            The problem as a sentence for the user, or None.
        """
        items: list[ResponseItem] = list(compaction.items)
        warnings: Sequence[str] = ()
        if place != "next_turn":
            update = self._prompt_context.update(facts.evolve(first=True), None)
            at = len(items) if place == "end" else _last_words(items, compaction.message)
            items[at:at] = update.messages
            warnings = update.warnings
            if update.messages and self.trail.keeps:
                self._tell_sources(update, facts)
        self.journal.compact(items, compaction.message)
        now_ms = int(time.time() * 1000)
        self.journal.emit(facts.turn_id, ItemCompletedEvent(facts.thread_id, facts.turn_id, self._compaction, now_ms))
        for event in older_events(self._compaction) or ():
            self.journal.emit(facts.turn_id, event)
        self._tell_length(facts)
        self.journal.flush(facts.turn_id)
        return warnings

    def _tell_sources(self, update: ContextUpdate, facts: TurnFacts) -> None:
        """Write into the record which source gave which part of the context."""
        sources = sources_of(update)
        by = Actor(role="kernel")
        record = Provenance(
            did="added", what="context", by=by, items=list({source.item: None for source in sources}), sources=sources
        )
        self.trail.keep(record, facts.turn_id)

    def _tell_length(self, facts: TurnFacts) -> None:
        """Report the estimated length of the history to clients, because no server has counted it yet."""
        now = TokenUsage(total_tokens=self.journal.history.tokens)
        info = TokenUsageInfo(self.total_usage, now, facts.model.usable_window)
        self.journal.emit(facts.turn_id, TokenCountEvent(info))

    def compact_idle(self, compaction: Compaction) -> None:
        """Replace the history by a compaction while the thread is idle."""
        self.journal.compact(compaction.items, compaction.message)
        self.journal.emit("", ContextCompactedEvent())
        self.journal.flush("")

    async def start_process(
        self,
        argv: Sequence[str],
        permissions: Permissions | str | None,
        env: Mapping[str, str],
        cwd: Path | None,
        **options: Any,
    ) -> RunningCommand:
        """Start a process that ends with the thread. ``options`` are those of ``start_unasked``.

        Raises:
            ConfigError: There is no profile of that name.
            CommandFailed: It could not be started.
            SandboxError: The permissions cannot be enforced here.
        """
        folder = cwd or self.settings.cwd
        access = _ANYTHING
        if isinstance(permissions, str):
            named = self.host.named_permissions(permissions)
            permissions = named.evolve(options=self.settings.permissions.options)
        if permissions is not None:
            access = file_access(permissions, folder, self.host.environ, self.host.deciding)
        process = await self.commands.start_unasked(argv, access=access, cwd=folder, env=env, **options)
        self._processes = [other for other in self._processes if other.exit_code is None]
        self._processes.append(process)
        return process

    async def aclose(self) -> Sequence[str]:
        """Close the parts of the conversation. Return warnings for the user."""
        await self.background.aclose()
        for child in self.children:
            await child.shutdown()
        await self.parts.aclose()
        await asyncio.gather(*(process.kill() for process in self._processes), return_exceptions=True)
        await self.commands.gates_ended()
        return [f"{fact}. {advice(plugin)}" for plugin, fact in await self.plugin_state.aclose()]

    @cached_property
    def _prompt_context(self) -> PromptContext:
        registry = self.host.registry
        sources: Sequence[Any] = registry.context_sources
        if self.agent is not None and self.agent.context is not None:
            sources = [source for source in sources if source.name in self.agent.context]
        return PromptContext(sources, registry.owners)


def _last_words(items: Sequence[ResponseItem], summary: str) -> int:
    """Return the index of the last user message, or of the summary if there is none."""
    at_summary = len(items)
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if not isinstance(item, Message) or item.role != "user":
            continue
        if summary and message_text(item) == summary:
            at_summary = place
        elif is_user_message(item):
            return place
    return at_summary


def _no_context(plugin: str) -> ThreadContext:
    raise RuntimeError(f"the thread is not ready for plugin {plugin!r}")


async def _no_children(agent: Agent[Any], prompt: str | None, start: Start) -> ThreadClient:
    del agent, prompt, start
    raise RuntimeError("the thread is not ready")
