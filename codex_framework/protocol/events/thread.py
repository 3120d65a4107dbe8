"""The life of a thread, and notices that belong to no turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from codex_framework.protocol.permissions import PermissionProfile
from codex_framework.protocol.policies import ApprovalPolicy, GranularApproval, SandboxPolicy
from codex_framework.value import Value

__all__ = [
    "BackgroundEvent",
    "DeprecationNoticeEvent",
    "SessionConfiguredEvent",
    "ShutdownCompleteEvent",
    "ThreadSettingsAppliedEvent",
    "WarningEvent",
]


class SessionConfiguredEvent(Value, kw_only=True):
    """Always the first event of a thread.

    Attributes:
        sandbox_policy: The nearest one to the permission profile.
        active_permission_profile: ``{"id", "extends"?}`` of a profile that was chosen by name.
    """

    type: ClassVar[str] = "session_configured"
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
    forked_from_id: str | None = None
    rollout_path: str | None = None
    initial_messages: tuple[Any, ...] | None = None


class ThreadSettingsAppliedEvent(Value):
    """Settings were changed; the snapshot holds all of them."""

    type: ClassVar[str] = "thread_settings_applied"
    thread_settings: Mapping[str, Any]


class WarningEvent(Value):
    """Something a person should know; nothing has failed."""

    type: ClassVar[str] = "warning"
    message: str


class DeprecationNoticeEvent(Value):
    """A setting or flag that will go away."""

    type: ClassVar[str] = "deprecation_notice"
    summary: str
    details: str | None = None


class BackgroundEvent(Value):
    """A line about work behind the scenes."""

    type: ClassVar[str] = "background_event"
    message: str


class ShutdownCompleteEvent(Value):
    """Always the last event of a thread."""

    type: ClassVar[str] = "shutdown_complete"
