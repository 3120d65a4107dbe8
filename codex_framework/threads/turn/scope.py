"""The parts of a conversation that one turn uses, with settings that do not change during it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from codex_framework.commands.access import file_access
from codex_framework.commands.caller import Ask, Caller
from codex_framework.contract.errors import PluginError
from codex_framework.contract.protocol.events import EventMsg, Request, TokenUsage, TokenUsageInfo
from codex_framework.contract.protocol.items import ContentItem, InputText, Message, ResponseItem
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.roles.compactors import Compactor, ContextStatus
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelClient, ModelRequest
from codex_framework.contract.roles.observers import Measurement, Notification
from codex_framework.contract.roles.settings import Settings
from codex_framework.plugins.interceptor_table import Guard, InterceptorTable
from codex_framework.plugins.offers import Offer
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.faults import Label, checked
from codex_framework.threads.history import HistoryPrompt
from codex_framework.threads.spans import measured
from codex_framework.threads.tool_router import ToolRouter
from codex_framework.threads.turn.diff import TurnDiff
from codex_framework.toolkit.truncation import truncate, truncate_content

__all__ = ["TurnScope"]


class TurnScope:
    """What one turn may reach of its conversation.

    Args:
        turn_id: That of the submission that started it.
        kind: What fills it.
        schema: A JSON Schema that the final message must follow.
        client_metadata: What the client sent with the turn.

    Attributes:
        samples: Requests to the model so far, those of tasks and compactors included.
        sampled: Whether the built-in loop has asked the model in this turn.

    Raises:
        CodexError: The turn cannot be put together (no provider, no profile of that name).
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
        settings = conversation.settings
        self.conversation = conversation
        self.turn_id = turn_id
        self.settings: Settings = settings
        self.provider = settings.provider
        self.model = host.models.info(settings)
        granted = conversation.granted
        permissions = settings.permissions.with_entries(granted.entries, network=granted.network)
        self.diff = TurnDiff(settings.cwd)
        self.samples = 0
        self.sampled = False
        self.continuations = 0
        self.last_rate_limits: Mapping[str, Any] | None = None
        self.turn_usage = TokenUsage()
        self.previous_model = conversation.previous_model
        self.facts = TurnFacts(
            thread_id=conversation.id,
            turn_id=turn_id,
            kind=kind,
            cwd=settings.cwd,
            model=self.model,
            permissions=permissions,
            access=file_access(permissions, settings.cwd, host.environ),
            approval_policy=settings.approval_policy,
            shell=host.shell,
            config=conversation.config,
            codex_home=host.codex_home,
            agent=None if conversation.agent is None else conversation.agent.name,
            depth=conversation.depth,
            first=len(conversation.journal.history) == 0,
            previous_model=conversation.previous_model,
            client_metadata=client_metadata or {},
        )
        self.guards: InterceptorTable = host.registry.interceptors.for_turn(self._applies)
        self.compactor = compactor = self._chosen_compactor()
        name, plugin = ("", "") if compactor is None else (compactor.item.name, compactor.plugin)
        self._compactor_label = Label("compactor", name, plugin)
        self.router = self._routed()
        self._instructions = conversation.base_instructions or host.models.instructions(self.model)
        self._schema = schema

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self.conversation.id

    @cached_property
    def client(self) -> ModelClient:
        """The client of the turn's provider. Raises CodexError."""
        return self.conversation.host.models.client(self.provider)

    def connect(self) -> None:
        """Make the client now, so that a turn without a provider is refused before it begins. Raises CodexError."""
        _ = self.client

    # Requests to the model

    def request(self) -> ModelRequest:
        """The next request, with history as it is now."""
        return self._request(self.conversation.journal.history.prompt())

    def draft(self, items: Sequence[ResponseItem] | None, *, tools: bool) -> ModelRequest:
        """A request of other items."""
        history = self.conversation.journal.history
        request = self._request(history.prompt() if items is None else history.prompt_of(items))
        return request if tools else request.evolve(tools=(), parallel_tool_calls=False)

    def _request(self, prompt: HistoryPrompt) -> ModelRequest:
        settings = self.settings
        meta = self.conversation.meta
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
        )

    def refresh_tools(self) -> None:
        """Make the table of tools anew, if the thread's tools have changed."""
        if self.router.version != self._tools_version:
            self.router = self._routed()

    @property
    def _tools_version(self) -> int:
        return self.conversation.tools_version + self.conversation.parts.lost

    def _routed(self) -> ToolRouter:
        conversation = self.conversation
        router = ToolRouter(
            conversation.host.registry,
            self.facts,
            agent=conversation.agent,
            parts=conversation.parts,
            version=self._tools_version,
            notices=conversation.notices,
        )
        for text in router.withheld:
            conversation.notices.tell(text)
        return router

    def tell_unmatched(self) -> None:
        """Tell which names of the agent nothing has. Asked once the components are ready, because they bring tools."""
        agent = self.conversation.agent
        if agent is None:
            return
        for text in self.router.unmatched:
            self.conversation.notices.tell(text)
        sources = {source.name for source in self.conversation.host.registry.context_sources}
        for name in agent.context or ():
            if name not in sources:
                known = ", ".join(sorted(sources)) or "none"
                self.conversation.notices.tell(
                    f"agent {agent.name!r}: its context names {name!r}, and there is no such source. The sources are: {known}."
                )

    def _applies(self, guard: Guard) -> bool:
        label = Label("interceptor", guard.name, guard.plugin)
        try:
            return bool(self.conversation.notices.timed(label, "applies", guard.call, self.facts))
        except Exception as error:  # fails closed: nobody knows what it would have done
            hint = "Fix the plugin, or disable it."
            raise PluginError(guard.plugin, label.failed("applies", error), hint=hint) from error

    # What is known of the context window

    def _chosen_compactor(self) -> Offer[Compactor] | None:
        """The compactor that ``[framework] compactor`` names, else the first."""
        host = self.conversation.host
        compactors = host.registry.compactors
        wanted = host.config.get("framework.compactor")
        if wanted in compactors:
            return compactors[wanted]
        first = next(iter(compactors.values()), None)
        used = "none" if first is None else f"{first.item.name!r} of plugin {first.plugin!r}"
        known = ", ".join(f"{name!r} of plugin {offer.plugin!r}" for name, offer in compactors.items())
        if wanted is not None:
            text = f"no plugin offers the compactor {wanted!r}; used instead: {used}"
            hint = f"Set `[framework] compactor` to one of these: {known}." if known else "Install a plugin that does."
            self.conversation.notices.tell(f"{text}. {hint}")
        elif first is not None and len(compactors) > 1 and host.registry.is_installed(first.plugin):
            text = f"there are several compactors ({known}), and {used} is used"
            self.conversation.notices.tell(f"{text}. Choose one with `[framework] compactor`.")
        return first

    def compaction_due(self) -> str | None:
        """The compactor's reason to shorten the history before the next sample, or None."""
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
        except Exception as error:  # not due, and told once
            self.conversation.notices.tell(label.failed("due", error))
            return None

    def usage(self, last: TokenUsage, *, of_history: bool = True) -> TokenUsageInfo:
        """Count the tokens of a response.

        Args:
            of_history: Whether the request held the history as it is, so that the count tells how long the history is.
        """
        conversation = self.conversation
        self.turn_usage += last
        conversation.total_usage += last
        conversation.budget.tokens(last)
        if of_history:
            conversation.journal.history.counted(last.total_tokens)
        return TokenUsageInfo(conversation.total_usage, last, self.model.context_window)

    # Calls

    def caller(self, call_id: str, ask: Ask) -> Caller:
        """On whose behalf the commands of a call run."""
        host = self.conversation.host
        return Caller(
            call_id=call_id,
            turn=self.facts,
            env={"CODEX_TOOL_CALL_ID": call_id},
            emit=self.emit,
            ask=ask,
            resolve=lambda wider: file_access(wider, self.settings.cwd, host.environ),
            note=self.note,
            grant=self._grant,
        )

    def note(self, text: str) -> None:
        """Tell the model something that it need not answer."""
        self.record([Message(role="developer", content=(InputText(text),))])

    def _grant(self, more: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001  # as Caller.grant
        """Let the rest of the turn do more, or of the session, this turn included."""
        if session:
            self.conversation.granted = self.conversation.granted.merged(more)
        permissions = self.facts.permissions.with_entries(more.entries, network=more.network)
        access = file_access(permissions, self.settings.cwd, self.conversation.host.environ)
        self.facts = self.facts.evolve(permissions=permissions, access=access)

    def limited(self, content: str | tuple[ContentItem, ...]) -> str | tuple[ContentItem, ...]:
        """A tool's output, cut to 1.2 times what the model's policy allows (the slack is Codex's)."""
        kind, limit = self.model.truncation
        policy = (kind, int(limit * 1.2))
        return truncate(content, policy) if isinstance(content, str) else truncate_content(content, policy)

    # Telling and recording

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history and to the thread's record."""
        self.conversation.journal.record(items)

    def emit(self, msg: EventMsg) -> None:
        """Tell clients and observers, and keep what is to be kept."""
        self.conversation.journal.emit(self.turn_id, msg)

    def flush(self) -> None:
        """Bring the record to disk."""
        self.conversation.journal.flush(self.turn_id)

    async def ask(self, request: Request[Any], shown: Callable[[], None] | None = None) -> Any:
        """Ask the thread's clients on behalf of the turn."""
        return await self.conversation.requests.ask(request, self.turn_id, shown=shown)

    def approval_pending(self, text: str) -> None:
        """Bring what led to a question to disk, and tell notifiers."""
        self.flush()
        self.conversation.host.broadcast.notification(
            Notification(
                type="approval-requested",
                thread_id=self.thread_id,
                turn_id=self.turn_id,
                cwd=str(self.settings.cwd),
                text=text,
            )
        )

    def measured(self, name: str, began: float, started: float, *, failed: bool = False, **attributes: Any) -> None:
        """Tell telemetry of a piece of work.

        Args:
            began: Unix time of its start, in seconds.
            started: The monotonic clock at its start.
        """
        broadcast = self.conversation.host.broadcast
        if broadcast.measures:
            measured(
                broadcast,
                Measurement(
                    kind="span",
                    name=name,
                    time_s=began,
                    duration_s=time.monotonic() - started,
                    attributes=attributes,
                    thread_id=self.thread_id,
                    turn_id=self.turn_id,
                    failed=failed,
                ),
            )
