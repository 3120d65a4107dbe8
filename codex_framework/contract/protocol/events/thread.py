"""The life of a thread, and notices outside of turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.permissions import PermissionProfile
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval, SandboxPolicy
from codex_framework.contract.value import field

__all__ = [
    "BackgroundEvent",
    "ContextCompactedEvent",
    "DeprecationNoticeEvent",
    "HistoryLossEvent",
    "ModelFallbackEvent",
    "SessionConfiguredEvent",
    "ShutdownCompleteEvent",
    "ThreadRolledBackEvent",
    "ThreadSettingsAppliedEvent",
    "WarningEvent",
]


class SessionConfiguredEvent(EventMsg, kw_only=True):
    """The first event of every thread.

    Attributes:
        sandbox_policy: The sandbox policy nearest to the permission profile.
        active_permission_profile: ``{"id", "extends"?}`` of a profile that was chosen by name.
        approvals_reviewer: The reviewer of approvals: ``user``, or ``auto_review`` for a model.
        parent_thread_id: The thread that started this one.
        thread_source: The purpose of the thread, such as ``user``, if its client has stated it.
    """

    type: ClassVar[Literal["session_configured"]] = "session_configured"
    session_id: str
    thread_id: str
    model: str
    model_provider_id: str
    approval_policy: ApprovalPolicy | GranularApproval
    sandbox_policy: SandboxPolicy
    cwd: str
    permission_profile: PermissionProfile | None = None
    active_permission_profile: Mapping[str, Any] | None = None
    reasoning_effort: str | None = None
    service_tier: str | None = None
    approvals_reviewer: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    thread_source: str | None = None
    rollout_path: str | None = None
    initial_messages: tuple[Any, ...] | None = None


class ThreadSettingsAppliedEvent(EventMsg):
    """Settings were changed; the snapshot contains all of them."""

    type: ClassVar[Literal["thread_settings_applied"]] = "thread_settings_applied"
    thread_settings: Mapping[str, Any]


class WarningEvent(EventMsg):
    """A notice for the user. Nothing has failed.

    Attributes:
        slug: The heading in ``docs/errors.md`` that explains it. Warnings with the same message are equal, whatever their slugs.
    """

    type: ClassVar[Literal["warning"]] = "warning"
    message: str
    slug: str = field(default="warning", eq=False, repr=False)


class HistoryLossEvent(EventMsg):
    """A request could not carry a part of the history. A warning is sent too, once per thread and cause.

    Attributes:
        what: A word for it: ``reasoning``, ``images``, ``hosted tools``, ...
        count: The number of dropped parts in the first request that dropped them.
        reason: Why, as a clause.
        provider, model: The provider and model of the request.
    """

    type: ClassVar[Literal["history_loss"]] = "history_loss"
    what: str
    count: int
    reason: str
    provider: str
    model: str


class ModelFallbackEvent(EventMsg):
    """Another model continues the turn, because the first one failed permanently. A warning is sent too.

    Attributes:
        reason: Why, as a clause.
    """

    type: ClassVar[Literal["model_fallback"]] = "model_fallback"
    from_provider: str
    from_model: str
    to_provider: str
    to_model: str
    reason: str


class DeprecationNoticeEvent(EventMsg):
    """A setting or flag that will be removed.

    Attributes:
        details: The replacement to use.
        slug: As in :class:`WarningEvent`.
    """

    type: ClassVar[Literal["deprecation_notice"]] = "deprecation_notice"
    summary: str
    details: str | None = None
    slug: str = field(default="deprecated", eq=False, repr=False)


class BackgroundEvent(EventMsg):
    """A line about background work."""

    type: ClassVar[Literal["background_event"]] = "background_event"
    message: str


class ContextCompactedEvent(EventMsg):
    """The conversation was shortened. A summary in the history replaces its earlier part."""

    type: ClassVar[Literal["context_compacted"]] = "context_compacted"
    kept = True


class ThreadRolledBackEvent(EventMsg):
    """The last ``num_turns`` turns were removed from the conversation. Files are not changed."""

    type: ClassVar[Literal["thread_rolled_back"]] = "thread_rolled_back"
    kept = True
    num_turns: int


class ShutdownCompleteEvent(EventMsg):
    """Always the last event of a thread."""

    type: ClassVar[Literal["shutdown_complete"]] = "shutdown_complete"
