"""The parts of a conversation that one turn uses, with settings that do not change during it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import PluginError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_framework.contract.protocol.events import (
    EventMsg,
    Request,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
)
from codex_framework.contract.protocol.events.requests import Closed
from codex_framework.contract.protocol.items import InputText, Message, ResponseItem
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelClient
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.settings import Settings
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.faults import Label, fact_of
from codex_framework.threads.interceptor_table import Guard, InterceptorTable
from codex_framework.threads.tool_router import ToolRouter
from codex_framework.threads.tool_table import allowed_names
from codex_framework.threads.turn.compaction import TurnCompaction
from codex_framework.threads.turn.diff import TurnDiff
from codex_framework.threads.turn.reports import TurnReports
from codex_framework.threads.turn.turn_permissions import TurnPermissions
from codex_framework.toolkit.selected_environments import shell_in

if TYPE_CHECKING:
    from codex_framework.threads.turn.call_scheduler import CallScheduler

__all__ = ["TurnScope"]


class TurnScope:
    """The access of one turn to its conversation.

    Args:
        turn_id: The id of the submission that started the turn.
        kind: The kind of the task that fills the turn.
        schema: A JSON Schema that the final message must follow.
        client_metadata: The metadata that the client sent with the turn.

    Attributes:
        samples: The number of requests to the model so far, including requests of tasks and compactors.
        calls: The number of tool calls so far.
        reports: The turn's reports to telemetry and to the record.
        instructions: The instructions for the model.
        compaction: The compactor of the turn.
        sampled: Whether the built-in loop has sampled the model in this turn.

    Raises:
        CodexError: The turn cannot be set up: the provider or the profile does not exist, or the permissions of a child and its
            parent have nothing in common.
    """

    def __init__(
        self,
        conversation: Conversation,
        turn_id: str,
        *,
        kind: str = "regular",
        schema: Mapping[str, Any] | None = None,
        client_metadata: Mapping[str, str] | None = None,
    ) -> None:
        host = conversation.host
        self._permitted = TurnPermissions(conversation, turn_id)
        settings = self._permitted.settings
        self.conversation = conversation
        self.thread_id = conversation.id
        self.turn_id = turn_id
        self.provider = settings.provider
        self.model = host.models.info(settings)
        self.diff = TurnDiff(settings.cwd)
        self.samples = 0
        self.calls = 0
        self.sampled = False
        self.continuations = 0
        self.last_rate_limits: Mapping[str, Any] | None = None
        self.turn_usage = TokenUsage()
        self.notices: list[EventMsg] = []
        self.facts = TurnFacts(
            thread_id=conversation.id,
            turn_id=turn_id,
            kind=kind,
            model=self.model,
            shell=host.shell,
            config=conversation.config,
            codex_home=host.codex_home,
            agent=None if conversation.agent is None else conversation.agent.name,
            depth=conversation.depth,
            first=len(conversation.journal.history) == 0,
            first_model=conversation.first_model,
            previous_model=conversation.previous_model,
            client_metadata=client_metadata or {},
            collaboration_mode=settings.collaboration_mode,
            approvals_reviewer=settings.approvals_reviewer or conversation.config.get("approvals_reviewer") or "user",
            previous_environments=conversation.note_environments(),
            **self._permitted.facts(),
            environment_states=host.environments.states(settings, host.shell),
        )
        self.guards: InterceptorTable = host.interceptors.for_turn(self._applies)
        self.compaction = TurnCompaction(conversation, self.model)
        self.router = self._build_router()
        self.reports = TurnReports(conversation, turn_id, self.guards.redact, lambda: self.facts)
        self.instructions = conversation.meta.base_instructions or host.models.instructions(self.model)
        self.schema = schema

    @property
    def settings(self) -> Settings:
        """The settings of the turn."""
        return self._permitted.settings

    @cached_property
    def scheduler(self) -> CallScheduler:
        """The scheduler of calls that may not overlap."""
        from codex_framework.threads.turn.call_scheduler import CallScheduler

        return CallScheduler()

    @property
    def is_local(self) -> bool:
        """Whether the primary environment is this machine."""
        return self._permitted.primary == LOCAL_ENVIRONMENT and self.settings.environments != ()

    @cached_property
    def client(self) -> ModelClient:
        """The client of the turn's provider. Raises CodexError."""
        return self.conversation.host.models.client(self.provider)

    def connect(self) -> None:
        """Create the client now, so that a turn without a provider is refused before it starts. Raises CodexError."""
        _ = self.client

    # Permissions

    def narrow(self) -> None:
        """Narrow the turn of a child, if its ancestors have been narrowed since. Called before each call. Raises ToolRefused."""
        if self._permitted.narrow():
            self.facts = self.facts.evolve(**self._permitted.facts())

    def grant(self, environment_id: str, more: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001  # as Caller.grant
        """Grant further permissions for the rest of the turn, or for the session including this turn."""
        self._permitted.grant(environment_id, more, session)
        self.facts = self.facts.evolve(**self._permitted.facts())

    def resolve(self, environment_id: str, permissions: Permissions) -> FileAccess:
        """Return permissions as they apply to the files of an environment of the turn."""
        return self._permitted.resolve(environment_id, permissions)

    def facts_at(self, environment_id: str | None = None) -> TurnFacts:
        """Return the facts for an environment of the turn, by default the primary one."""
        environment_id = environment_id or self._permitted.primary
        if environment_id == LOCAL_ENVIRONMENT:
            return self.facts
        shell = shell_in(environment_id, self.facts)
        return self.facts.evolve(**self._permitted.facts(environment_id), shell=shell)

    # Tools and interceptors

    def refresh_tools(self) -> None:
        """Rebuild the table of tools if the thread's tools have changed."""
        if self.router.version != self._tools_version:
            self.router = self._build_router()

    @property
    def _tools_version(self) -> int:
        return self.conversation.tools_version + self.conversation.parts.lost

    def _build_router(self) -> ToolRouter:
        conversation = self.conversation
        router = ToolRouter(
            conversation.find_tools(self.facts),
            self.facts,
            version=self._tools_version,
            notices=conversation.notices,
            found=conversation.offered_tools,
        )
        self.facts = router.facts
        for text in router.table.withheld:
            conversation.notices.tell(text)
        return router

    def warn_of_unmatched(self) -> None:
        """Warn about names in the agent that match nothing. Called once the components are ready, because they provide tools."""
        agent = self.conversation.agent
        if agent is None:
            return
        for text in self.router.table.unmatched:
            self.conversation.notices.tell(text)
        for pattern, names in allowed_names(agent, self.router.table.by_name):
            if names and not any(map(self.router.may_call, names)):
                self.conversation.notices.tell(
                    f"agent {agent.name!r}: its allowed_tools names {pattern!r}, but the model {self.model.slug!r} is not offered"
                    f" {', '.join(names)}. Choose another model, or remove it."
                )
        sources = {source.name for source in self.conversation.host.registry.context_sources}
        for name in agent.context or ():
            if name not in sources:
                known = ", ".join(sorted(sources)) or "none"
                self.conversation.notices.tell(
                    f"agent {agent.name!r}: its context names {name!r}, but there is no such source. The sources are: {known}."
                )

    def _applies(self, guard: Guard) -> bool:
        label = Label("interceptor", guard.name, guard.plugin)
        try:
            return bool(self.conversation.notices.call(label, "applies", guard.call, self.facts))
        except Exception as error:  # fails closed: its effect is unknown
            fact = f"{label}: applies() failed: {fact_of(error, guard.call)}"
            raise PluginError(guard.plugin, fact, hint=label.advice(error)) from error

    # Tokens

    def count_tokens(self, last: TokenUsage, *, of_history: bool = True) -> TokenUsageInfo:
        """Count the tokens of a response.

        Args:
            of_history: Whether the request contained exactly the history, so that the count is the length of the history.
        """
        conversation = self.conversation
        self.turn_usage += last
        conversation.total_usage += last
        conversation.budget.tokens(last, self.model)
        if of_history:
            conversation.journal.history.set_count(last.total_tokens)
        return TokenUsageInfo(conversation.total_usage, last, self.model.usable_window)

    def report_full_window(self) -> None:
        """Tell clients that the history fills the window, which the server has said by refusing the request."""
        if window := self.model.usable_window:
            info = TokenUsageInfo(self.conversation.total_usage, TokenUsage(total_tokens=window), window)
            self.emit(TokenCountEvent(info, self.last_rate_limits))

    # Events and the record

    def note(self, text: str) -> None:
        """Add a developer message for the model."""
        items = [Message(role="developer", content=(InputText(text),))]
        self.conversation.trail.record_addition("record", Actor(role="kernel", name="note"), items, self.turn_id)
        self.record(items)

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history and to the thread's record."""
        self.conversation.journal.record(items)

    def emit(self, msg: EventMsg) -> None:
        """Send an event to clients and observers, and record it if its type is recorded."""
        self.conversation.journal.emit(self.turn_id, msg)

    def flush(self) -> None:
        """Flush the record to disk."""
        self.conversation.journal.flush(self.turn_id)

    def flush_before_effects(self) -> None:
        """Flush the record to disk. Raises RecorderStopped if nothing more may happen."""
        self.conversation.journal.flush_before_effects(self.turn_id)

    async def ask(
        self,
        request: Request[Any],
        shown: Callable[[], None] | None = None,
        how: Callable[[Closed], None] | None = None,
    ) -> Any:
        """Ask the thread's clients on behalf of the turn. ``how`` is called with the way in which the request was closed."""
        return await self.conversation.requests.ask(request, self.turn_id, shown=shown, how=how)
