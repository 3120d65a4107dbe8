"""What one turn may reach of its thread, and what all threads of a kernel share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.access import file_access
from codex_framework.broadcast import Broadcast
from codex_framework.commands import CallFacts, Confinements
from codex_framework.config.settings import Settings
from codex_framework.context import CallContext
from codex_framework.delegation import Delegation
from codex_framework.driver import Ask
from codex_framework.permissions import Permissions
from codex_framework.programs import ProgramFolder
from codex_framework.protocol.events import (
    ApprovalEvent,
    EventMsg,
    TokenUsage,
    TokenUsageInfo,
    WarningEvent,
)
from codex_framework.protocol.items import ContentItem, InputText, Message, ResponseItem
from codex_framework.protocol.permissions import AdditionalPermissions
from codex_framework.registry import RegisteredTool, Registry
from codex_framework.roles.deciders import ApprovalReviewer, Interceptor, ReviewFacts
from codex_framework.roles.observers import Measurement, Notification
from codex_framework.roles.providers import ModelClient, ModelInfo, ModelRequest, ProviderInfo
from codex_framework.roles.sandboxes import FileAccess
from codex_framework.roles.tools import ToolCall, ToolSpec, TurnFacts
from codex_framework.truncation import truncate, truncate_content
from codex_framework.turn_diff import TurnDiff
from codex_framework.value import Value

if TYPE_CHECKING:
    from codex_framework.thread import Thread

__all__ = ["Resources", "TurnScope"]


class Resources(Value, kw_only=True):
    """What all threads of a kernel share."""

    registry: Registry
    config: Mapping[str, Any]
    codex_home: Path
    environ: Mapping[str, str]
    shell: str
    confinements: Confinements
    broadcast: Broadcast
    programs: ProgramFolder
    client: Callable[[ProviderInfo], ModelClient]
    model: Callable[[Settings], ModelInfo]
    instructions: Callable[[ModelInfo], str]
    forget: Callable[[str], object]
    named_permissions: Callable[[str], Permissions]
    start: Callable[[Settings, str], Awaitable[Thread]]


class TurnScope:
    """What one turn may reach of its thread, with settings that do not change under it."""

    def __init__(self, thread: Thread, turn_id: str, settings: Settings, schema: Mapping[str, Any] | None) -> None:
        resources = thread.resources
        self.thread_id = thread.id
        self.turn_id = turn_id
        self.settings = settings
        self.provider = settings.provider
        self.model = resources.model(settings)
        self.client = resources.client(settings.provider)
        granted = thread.granted
        self.permissions = settings.permissions.with_entries(granted.entries, network=granted.network)
        self.access: FileAccess = file_access(self.permissions, settings.cwd, resources.environ)
        self.diff = TurnDiff(settings.cwd)
        self.tools: Mapping[str, RegisteredTool] = resources.registry.tools_by_call
        self.interceptors: Sequence[Interceptor] = resources.registry.interceptors
        self.reviewers: Sequence[ApprovalReviewer] = resources.registry.reviewers
        self.last_rate_limits: Mapping[str, Any] | None = None
        self.turn_usage = TokenUsage()
        self._thread = thread
        self._specs = _offered(resources.registry, self.model, resources.config)
        self._instructions = thread.base_instructions or resources.instructions(self.model)
        self._schema = schema

    def request(self) -> ModelRequest:
        """The next request, with history as it is now."""
        settings = self.settings
        return ModelRequest(
            model=self.model,
            instructions=self._instructions,
            prompt=self._thread.history.prompt(),
            tools=self._specs,
            parallel_tool_calls=self.model.parallel_tool_calls,
            cache_key=self.thread_id,
            thread_id=self.thread_id,
            turn_id=self.turn_id,
            output_schema=self._schema,
            reasoning_effort=settings.reasoning_effort or self.model.default_effort,
            reasoning_summary=settings.reasoning_summary,
            verbosity=settings.verbosity or self.model.verbosity,
            service_tier=settings.service_tier,
            metadata={"originator": self._thread.meta.originator, "source": self._thread.meta.source},
        )

    def context(self, call: ToolCall, ask: Ask) -> CallContext:
        """What a tool gets for one call."""
        thread = self._thread
        facts = CallFacts(
            call_id=call.call_id,
            turn_id=self.turn_id,
            cwd=self.settings.cwd,
            access=self.access,
            approval_policy=self.settings.approval_policy,
            permissions=self.permissions,
            config=thread.resources.config,
            env={"CODEX_TOOL_CALL_ID": call.call_id},
            emit=self.emit,
            ask=ask,
            realise=lambda wider: file_access(wider, self.settings.cwd, thread.resources.environ),
            note=self._note,
            grant=self._grant,
            codex_home=thread.resources.codex_home,
        )
        return CallContext(
            thread_id=thread.id,
            model=self.model,
            facts=facts,
            commands=thread.commands,
            patches=thread.approved_patches,
            stash=thread.stash,
            diff=self.diff,
        )

    def _note(self, text: str) -> None:
        """Tell the model something that it need not answer."""
        self.record([Message(role="developer", content=(InputText(text),))])

    def _grant(self, more: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001  # as CallFacts.grant
        """Let the rest of the turn do more, or of the session, this turn included."""
        if session:
            self._thread.granted = self._thread.granted.merged(more)
        self.permissions = self.permissions.with_entries(more.entries, network=more.network)
        self.access = file_access(self.permissions, self.settings.cwd, self._thread.resources.environ)

    def review_facts(self) -> ReviewFacts:
        """What a reviewer gets to know of the turn, as it is now."""
        resources = self._thread.resources
        return ReviewFacts(
            thread_id=self.thread_id,
            turn_id=self.turn_id,
            cwd=self.settings.cwd,
            approval_policy=self.settings.approval_policy,
            access=self.access,
            config=resources.config,
            codex_home=resources.codex_home,
            model=self.model,
            history=self._thread.history.items,
            delegate=Delegation(resources.start, self.settings),
            state=self._thread.stash.get,
            warn=lambda text: self.emit(WarningEvent(text)),
        )

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history and to the thread's record."""
        self._thread.record(items)

    def emit(self, msg: EventMsg) -> None:
        """Tell clients and observers, and record what is to be kept."""
        self._thread.emit(self.turn_id, msg)

    def flush(self) -> None:
        """Bring the record to disk."""
        self._thread.flush(self.turn_id)

    def limited(self, content: str | tuple[ContentItem, ...]) -> str | tuple[ContentItem, ...]:
        """A tool's output, cut to 1.2 times what the model's policy allows (the slack is Codex's)."""
        kind, limit = self.model.truncation
        policy = (kind, int(limit * 1.2))
        return truncate(content, policy) if isinstance(content, str) else truncate_content(content, policy)

    def usage(self, last: TokenUsage) -> TokenUsageInfo:
        """Count the tokens of a response."""
        self.turn_usage += last
        self._thread.total_usage += last
        return TokenUsageInfo(self._thread.total_usage, last, self.model.context_window)

    def rate_limits(self, snapshot: Mapping[str, Any]) -> None:
        """Keep the newest limits for the next ``token_count``."""
        self.last_rate_limits = snapshot

    def measure(self, measurement: Measurement) -> None:
        """Tell telemetry."""
        broadcast = self._thread.resources.broadcast
        if broadcast.measures:
            broadcast.measurement(self.thread_id, measurement)

    def approval_pending(self, event: ApprovalEvent) -> None:
        """Bring what led to the question to disk, and tell notifiers."""
        self.flush()
        self._thread.resources.broadcast.notification(
            Notification(
                type="approval-requested",
                thread_id=self.thread_id,
                turn_id=self.turn_id,
                cwd=str(self.settings.cwd),
                text=event.reason or "",
            )
        )


def _offered(registry: Registry, model: ModelInfo, config: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    """The tools of a turn, in a stable order (the provider's prompt cache depends on it)."""
    facts = TurnFacts(model=model, config=config)
    return tuple(
        registered.spec if registered.spec_for is None else registered.spec_for(facts)
        for registered in registry.tools.values()
        if registered.offered is None or registered.offered(facts)
    )
