"""The life of a thread, and notices that belong to no turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from codex_framework.protocol.policies import ApprovalPolicy, GranularApproval, SandboxPolicy

__all__ = [
    "BackgroundEvent",
    "DeprecationNoticeEvent",
    "SessionConfiguredEvent",
    "ShutdownCompleteEvent",
    "ThreadSettingsAppliedEvent",
    "WarningEvent",
]


@attrs.frozen(kw_only=True)
class SessionConfiguredEvent:
    """Always the first event of a thread."""

    type: ClassVar[str] = "session_configured"
    session_id: str
    thread_id: str
    model: str
    model_provider_id: str
    approval_policy: ApprovalPolicy | GranularApproval
    sandbox_policy: SandboxPolicy
    cwd: str
    reasoning_effort: str | None = None
    forked_from_id: str | None = None
    rollout_path: str | None = None
    initial_messages: tuple[Any, ...] | None = None


@attrs.frozen
class ThreadSettingsAppliedEvent:
    """Settings were changed; the snapshot holds all of them."""

    type: ClassVar[str] = "thread_settings_applied"
    thread_settings: Mapping[str, Any]


@attrs.frozen
class WarningEvent:
    """Something a person should know; nothing has failed."""

    type: ClassVar[str] = "warning"
    message: str


@attrs.frozen
class DeprecationNoticeEvent:
    """A setting or flag that will go away."""

    type: ClassVar[str] = "deprecation_notice"
    summary: str
    details: str | None = None


@attrs.frozen
class BackgroundEvent:
    """A line about work behind the scenes."""

    type: ClassVar[str] = "background_event"
    message: str


@attrs.frozen
class ShutdownCompleteEvent:
    """Always the last event of a thread."""

    type: ClassVar[str] = "shutdown_complete"
