"""The parts of a conversation that one turn uses, with settings that do not change during it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from codex_framework.commands.caller import Ask, Caller
from codex_framework.contract.errors import PluginError
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_framework.contract.protocol.events import (
    EventMsg,
    Request,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    WarningEvent,
)
from codex_framework.contract.protocol.events.requests import Closed
from codex_framework.contract.protocol.events.thread import HistoryLossEvent
from codex_framework.contract.protocol.items import ContentItem, InputText, Message, ResponseItem
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.roles.compactors import Compactor, ContextStatus
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import LeftOut, ModelClient, ModelRequest
from codex_framework.contract.roles.observers import Notification
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.settings import Settings
from codex_framework.loader.interceptor_table import Guard, InterceptorTable
from codex_framework.loader.offers import Offer
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.faults import Label, checked, fact_of
from codex_framework.threads.history import HistoryPrompt
from codex_framework.threads.tool_router import ToolRouter
from codex_framework.threads.turn.diff import TurnDiff
from codex_framework.threads.turn.request_images import with_images
from codex_framework.threads.turn.telemetry import TurnTelemetry
from codex_framework.threads.turn.turn_permissions import TurnPermissions
from codex_framework.toolkit.environments import shell_in
from codex_framework.toolkit.truncation import truncate, truncate_content

if TYPE_CHECKING:
    from codex_framework.threads.turn.call_order import CallOrder
    from codex_framework.threads.turn.changes import Changes

__all__ = ["TurnScope"]


class TurnScope:
    """The access of one turn to its conversation.

    Args:
        turn_id: The id of the submission that started the turn.
        kind: The kind of the task that fills the turn.
        schema: A JSON Schema that the final message must follow.
        client_metadata: The metadata that the client sent with the turn.

    Attributes:
        samples: The number of requests to the model so far, including those of tasks and compactors.
        calls: The number of tool calls so far.
        telemetry: What the turn reports to telemetry.
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
        self.previous_model = conversation.previous_model
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
            previous_model=conversation.previous_model,
            client_metadata=client_metadata or {},
            collaboration_mode=settings.collaboration_mode,
            approvals_reviewer=settings.approvals_reviewer or conversation.config.get("approvals_reviewer") or "user",
            previous_environments=conversation.note_environments(),
            **self._permitted.facts(),
            environment_states=host.environments.states(settings, host.shell),
        )
        self.guards: InterceptorTable = host.registry.interceptors.for_turn(self._applies)
        self.compactor = compactor = self._chosen_compactor()
        name, plugin = ("", "") if compactor is None else (compactor.item.name, compactor.plugin)
        self._compactor_label = Label("compactor", name, plugin)
        self.router = self._routed()
        self._instructions = conversation.base_instructions or host.models.instructions(self.model)
        self._schema = schema
        self.telemetry = TurnTelemetry(host.broadcast, conversation.id, turn_id)
        self._changes: Changes | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the turn."""
        return self._permitted.settings

    @cached_property
    def order(self) -> CallOrder:
        """Which calls may overlap."""
        from codex_framework.threads.turn.call_order import CallOrder

        return CallOrder()

    @property
    def works_here(self) -> bool:
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

    def _grant(self, environment_id: str, more: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001  # as Caller.grant
        """Grant further permissions for the rest of the turn, or for the session including this turn."""
        self._permitted.grant(environment_id, more, session)
        self.facts = self.facts.evolve(**self._permitted.facts())

    def facts_at(self, environment_id: str | None = None) -> TurnFacts:
        """Return the facts as they are in an environment of the turn. None means the primary one."""
        environment_id = environment_id or self._permitted.primary
        if environment_id == LOCAL_ENVIRONMENT:
            return self.facts
        shell = shell_in(environment_id, self.facts)
        return self.facts.evolve(**self._permitted.facts(environment_id), shell=shell)

    # Requests to the model

    def request(self) -> ModelRequest:
        """Return the next request, with the current history."""
        return self._request(self.conversation.journal.history.prompt())

    def draft(self, items: Sequence[ResponseItem] | None, *, tools: bool) -> ModelRequest:
        """Return a request with other items."""
        history = self.conversation.journal.history
        request = self._request(history.prompt() if items is None else history.prompt_of(items))
        return request if tools else request.evolve(tools=(), parallel_tool_calls=False)

    def _request(self, prompt: HistoryPrompt) -> ModelRequest:
        settings = self.settings
        meta = self.conversation.meta
        history = self.conversation.journal.history
        prompt = with_images(prompt, history, self.left_out, sees=self.model.supports_images)
        if not self.conversation.origins.is_pure(self.provider.id):
            prompt = self._for_provider(prompt)
        return ModelRequest(
            model=self.model,
            instructions=self._instructions,
            prompt=prompt,
            tools=self.router.specs,
            parallel_tool_calls=self.model.parallel_tool_calls,
            cache_key=self.thread_id,
            thread_id=self.thread_id,
            turn_id=self.turn_id,
            output_schema=self._schema,
            reasoning_effort=settings.reasoning_effort or self.model.default_effort,
            reasoning_summary=settings.reasoning_summary,
            verbosity=settings.verbosity or self.model.verbosity,
            service_tier=settings.service_tier,
            metadata={"originator": meta.originator, "source": meta.source},
            client_metadata=self.facts.client_metadata,
            measure=self.telemetry.happened if self.telemetry.measures else None,
        )

    def _for_provider(self, prompt: HistoryPrompt) -> HistoryPrompt:
        """Return the prompt without what only another provider can use, and report how much that is."""
        carried = prompt.for_provider(self.provider.id)
        if count := len(prompt.items) - len(carried.items):
            self.left_out(LeftOut("reasoning", count, "only the provider that wrote it can use it"))
        return carried

    def left_out(self, loss: LeftOut, provider: str = "", model: str = "") -> None:
        """Report that a request does not carry a part of the history, once per thread, cause and provider."""
        provider, model = provider or self.provider.id, model or self.model.slug
        cause = (loss.what, loss.reason, provider)
        if cause in self.conversation.losses:
            return
        self.conversation.losses.add(cause)
        what = f"{loss.what} ({loss.count}), because {loss.reason}"
        self.emit(
            WarningEvent(f"left out of requests to `{model}` of the provider `{provider}`: {what}", slug="history-loss")
        )
        self.emit(HistoryLossEvent(loss.what, loss.count, loss.reason, provider, model))

    def refresh_tools(self) -> None:
        """Rebuild the table of tools if the thread's tools have changed."""
        if self.router.version != self._tools_version:
            self.router = self._routed()

    @property
    def _tools_version(self) -> int:
        return self.conversation.tools_version + self.conversation.parts.lost

    def _routed(self) -> ToolRouter:
        conversation = self.conversation
        router = ToolRouter(
            conversation.find_tools(self.facts),
            self.facts,
            version=self._tools_version,
            notices=conversation.notices,
            found=conversation.offered_tools,
        )
        if router.deferred or self.facts.deferred_tools:
            self.facts = self.facts.evolve(deferred_tools=router.deferred)
        for text in router.table.withheld:
            conversation.notices.tell(text)
        return router

    def tell_unmatched(self) -> None:
        """Warn about names in the agent that match nothing. Called once the components are ready, because they provide tools."""
        agent = self.conversation.agent
        if agent is None:
            return
        for text in self.router.table.unmatched:
            self.conversation.notices.tell(text)
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
            return bool(self.conversation.notices.timed(label, "applies", guard.call, self.facts))
        except Exception as error:  # fails closed: its effect is unknown
            fact = f"{label}: applies() failed: {fact_of(error, guard.call)}"
            raise PluginError(guard.plugin, fact, hint=label.advice(error)) from error

    # The context window

    def _chosen_compactor(self) -> Offer[Compactor] | None:
        """Return the compactor that ``[framework] compactor`` names, else the first one."""
        host = self.conversation.host
        compactors = host.registry.compactors
        wanted = host.config.get("framework.compactor")
        if wanted in compactors:
            return compactors[wanted]
        first = next(iter(compactors.values()), None)
        if wanted is None and len(compactors) < 2:
            return first
        used = "none" if first is None else f"{first.item.name!r} of plugin {first.plugin!r}"
        known = ", ".join(f"{name!r} of plugin {offer.plugin!r}" for name, offer in compactors.items())
        if wanted is not None:
            text = f"no plugin offers the compactor {wanted!r}; used instead is {used}"
            hint = f"Set `[framework] compactor` to one of these: {known}." if known else "Install a plugin that does."
            self.conversation.notices.tell(f"{text}. {hint}")
        elif first is not None and host.registry.is_installed(first.plugin):
            text = f"there are several compactors ({known}), and {used} is used"
            self.conversation.notices.tell(f"{text}. Choose one with `[framework] compactor`.")
        return first

    def compaction_due(self) -> str | None:
        """Return the compactor's reason for a compaction before the next sample, or None."""
        if self.compactor is None:
            return None
        previous = self.previous_model
        status = ContextStatus(
            tokens=self.conversation.journal.history.tokens,
            window=self.model.context_window,
            first=not self.sampled,
            previous_model=None if previous is None or previous.slug == self.model.slug else previous,
        )
        due = self.compactor.item.due
        label = self._compactor_label
        try:
            reason = self.conversation.notices.timed(label, "due", due, status, self.facts)
            return None if reason is None else checked(reason, str, "it", due)
        except Exception as error:  # counts as not due, and is reported once
            self.conversation.notices.tell(label.failed("due", error, then="The history is not compacted.", source=due))
            return None

    def usage(self, last: TokenUsage, *, of_history: bool = True) -> TokenUsageInfo:
        """Count the tokens of a response.

        Args:
            of_history: Whether the request contained exactly the history, so that the count is the length of the history.
        """
        conversation = self.conversation
        self.turn_usage += last
        conversation.total_usage += last
        conversation.budget.tokens(last, self.model)
        if of_history:
            conversation.journal.history.counted(last.total_tokens)
        return TokenUsageInfo(conversation.total_usage, last, self.model.usable_window)

    def filled(self) -> None:
        """Tell clients that the history fills the window, which the server has said by refusing the request."""
        if window := self.model.usable_window:
            info = TokenUsageInfo(self.conversation.total_usage, TokenUsage(total_tokens=window), window)
            self.emit(TokenCountEvent(info, self.last_rate_limits))

    # Calls

    def caller(self, call_id: str, ask: Ask, environment_id: str | None = None) -> Caller:
        """Return the caller for the commands of a call in an environment. None means the primary one."""
        facts = self.facts_at(environment_id)
        return Caller(
            call_id=call_id,
            turn=facts,
            env={"CODEX_TOOL_CALL_ID": call_id},
            emit=self.emit,
            ask=ask,
            resolve=partial(self._permitted.resolve, facts.environment_id),
            note=self.note,
            grant=partial(self._grant, facts.environment_id),
            measuring=self.telemetry.measuring,
            decided=lambda decision, source: self._decided_for(call_id, decision, source),
            refused=lambda by, reason: self.refused(call_id, by, reason),
        )

    def _decided_for(self, call_id: str, decision: str, source: str) -> None:
        self.telemetry.decided(call_id, decision, source)
        self.approved_before(call_id, source)

    def note(self, text: str) -> None:
        """Add a developer message for the model."""
        items = [Message(role="developer", content=(InputText(text),))]
        self.conversation.trail.added("record", Actor(role="kernel", name="note"), items, self.turn_id)
        self.record(items)

    def limited(self, content: str | tuple[ContentItem, ...]) -> str | tuple[ContentItem, ...]:
        """Truncate a tool's output to 1.2 times the limit of the model's policy (Codex's factor)."""
        kind, limit = self.model.truncation
        policy = (kind, int(limit * 1.2))
        return truncate(content, policy) if isinstance(content, str) else truncate_content(content, policy)

    # Events and the record

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history and to the thread's record."""
        self.conversation.journal.record(items)

    def emit(self, msg: EventMsg) -> None:
        """Send an event to clients and observers, and record it if its type is recorded."""
        self.conversation.journal.emit(self.turn_id, msg)

    def flush(self) -> None:
        """Flush the record to disk."""
        self.conversation.journal.flush(self.turn_id)

    async def ask(
        self,
        request: Request[Any],
        shown: Callable[[], None] | None = None,
        how: Callable[[Closed], None] | None = None,
    ) -> Any:
        """Ask the thread's clients on behalf of the turn. ``how`` is called with the way in which the request was closed."""
        return await self.conversation.requests.ask(request, self.turn_id, shown=shown, how=how)

    def approval_pending(self, text: str) -> None:
        """Flush the record, which shows what led to the question, and inform notifiers."""
        self.flush()
        self.conversation.host.broadcast.notification(
            Notification(
                type="approval-requested",
                thread_id=self.thread_id,
                turn_id=self.turn_id,
                cwd=str(self.settings.cwd),
                text=text,
                client=self.conversation.meta.originator,
            )
        )

    # Provenance

    @property
    def changes(self) -> Changes:
        """The record of what interceptors do in this turn. Ask ``keeps_changes`` first, because nothing is imported without need."""
        if self._changes is None:
            from codex_framework.threads.turn.changes import Changes

            self._changes = Changes(
                self.conversation.trail,
                self.turn_id,
                guards=self.guards.redact,
                facts=lambda: self.facts,
                tell=self.conversation.notices.tell,
            )
        return self._changes

    @property
    def keeps_changes(self) -> bool:
        """Whether there is a record for changes."""
        return self.conversation.trail.keeps

    @property
    def has_changes(self) -> bool:
        """Whether something has been changed or refused in this turn."""
        return self._changes is not None

    def refused(self, call_id: str | None, by: Actor, reason: str) -> None:
        """Write into the record who refused a call, or something in it."""
        if self.keeps_changes:
            self.changes.refused("call", by, reason, call_id=call_id)

    def approved_before(self, call_id: str, source: str = "user") -> None:
        """Write into the record that an earlier answer of the user covers a call."""
        if source == "user" and self.keeps_changes:
            by = Actor(role="user", causes=("an earlier answer, for the session",))
            self.changes.decided(call_id, by, "approved_for_session", None, allows=True)
