"""The ops ``configure_session``, ``user_turn``, ``user_input_with_turn_context`` and ``override_turn_context``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, ThreadError
from codex_framework.contract.protocol.environments import EnvironmentSelections
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides, UserInputItem, UserInputOp
from codex_framework.contract.protocol.permissions import PermissionProfile
from codex_framework.contract.protocol.policies import CollaborationMode

__all__ = [
    "ConfigureHandler",
    "ConfigureSession",
    "InputHandler",
    "OverrideHandler",
    "OverrideTurnContext",
    "TurnHandler",
    "UserInputWithTurnContext",
    "UserTurn",
]

_SAME = "\0same"
"""The value of a setting that was not given. None means the model's default."""

_KEPT = ("provider", "instructions", "notify")
"""Settings that a running thread cannot change."""


class ConfigureSession(Op):
    """Set up the session (2025). A thread is set up when it is started, so this changes its settings.

    Attributes:
        approval_policy: A policy of today or an older name, in this op and the others.
        sandbox_policy: A policy, or the older list of permissions: ``{"permissions": ["disk-full-read-access", ...]}``.
        provider, instructions, notify, disable_response_storage: Accepted. A value that the thread does not have is a warning.
    """

    type: ClassVar[Literal["configure_session"]] = "configure_session"
    model: str | None = None
    model_reasoning_effort: str | None = None
    model_reasoning_summary: str | None = None
    approval_policy: Any = None
    sandbox_policy: Any = None
    cwd: str | None = None
    provider: Any = None
    instructions: str | None = None
    notify: Sequence[str] | None = None
    disable_response_storage: bool = False


class UserTurn(Op):
    """Input with settings for its turn and later turns.

    Attributes:
        effort, service_tier: None restores the default. A missing field is unchanged.
        permission_profile, active_permission_profile: Have precedence over ``sandbox_policy``, which older clients send too.
    """

    type: ClassVar[Literal["user_turn"]] = "user_turn"
    nulls = ("effort",)
    items: tuple[UserInputItem, ...]
    cwd: str | None = None
    approval_policy: Any = None
    sandbox_policy: Any = None
    model: str | None = None
    effort: str | None = _SAME
    summary: str | None = None
    final_output_json_schema: Mapping[str, Any] | None = None
    collaboration_mode: CollaborationMode | None = None
    approvals_reviewer: str | None = None
    personality: str | None = None
    permission_profile: PermissionProfile | None = None
    service_tier: str | None = _SAME
    environments: EnvironmentSelections | None = None


class UserInputWithTurnContext(UserTurn):
    """Input, with changed settings. The other fields are the fields of ``thread_settings`` and ``user_input``."""

    type: ClassVar[Literal["user_input_with_turn_context"]] = "user_input_with_turn_context"  # type: ignore[assignment]
    workspace_roots: tuple[str, ...] | None = None
    profile_workspace_roots: tuple[str, ...] | None = None
    active_permission_profile: Mapping[str, str | None] | None = None
    windows_sandbox_level: str | None = None
    responsesapi_client_metadata: Mapping[str, str] | None = None


class OverrideTurnContext(Op):
    """Change settings from the next turn on.

    Attributes:
        effort, service_tier: None restores the default. A missing field is unchanged.
    """

    type: ClassVar[Literal["override_turn_context"]] = "override_turn_context"
    nulls = ("effort",)
    cwd: str | None = None
    approval_policy: Any = None
    sandbox_policy: Any = None
    model: str | None = None
    effort: str | None = _SAME
    summary: str | None = None
    collaboration_mode: CollaborationMode | None = None
    approvals_reviewer: str | None = None
    personality: str | None = None
    permission_profile: PermissionProfile | None = None
    service_tier: str | None = _SAME
    environments: EnvironmentSelections | None = None
    windows_sandbox_level: str | None = None


class ConfigureHandler(OpHandler[ConfigureSession]):
    """Changes the thread's settings, and reports fields that it cannot change."""

    op = ConfigureSession

    async def handle(self, op: ConfigureSession, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Submit the changes. Raises ThreadError."""
        effort = _SAME if op.model_reasoning_effort is None else op.model_reasoning_effort
        overrides = _overrides(op, effort, op.model_reasoning_summary)
        kept = [name for name in _KEPT if getattr(op, name)]
        if kept:
            thread.warn(
                f"configure_session: {' and '.join(kept)} cannot change while the thread runs; set them in config.toml"
            )
        await thread.submit(ThreadSettings(overrides), id=id)


class OverrideHandler(OpHandler[OverrideTurnContext]):
    """Changes the thread's settings."""

    op = OverrideTurnContext

    async def handle(self, op: OverrideTurnContext, thread: ThreadContext, id: str) -> None:  # noqa: A002
        """Submit the changes. Raises ThreadError."""
        await thread.submit(ThreadSettings(_overrides(op, op.effort, op.summary)), id=id)


class _Inputs(OpHandler[UserTurn]):
    """Submits input with settings."""

    async def handle(self, op: UserTurn, thread: ThreadContext, id: str) -> None:  # noqa: A002
        """Submit the input. Raises ThreadError."""
        overrides = _overrides(op, op.effort, op.summary)
        given = UserInputOp(
            op.items,
            final_output_json_schema=op.final_output_json_schema,
            thread_settings=overrides,
            responsesapi_client_metadata=getattr(op, "responsesapi_client_metadata", None),
        )
        await thread.submit(given, id=id)


class TurnHandler(_Inputs):
    """Submits the input of a ``user_turn``."""

    op = UserTurn


class InputHandler(_Inputs):
    """Submits the input of a ``user_input_with_turn_context``."""

    op = UserInputWithTurnContext


_UNCHANGED = (
    *("collaboration_mode", "environments", "approvals_reviewer", "personality", "windows_sandbox_level"),
    *("workspace_roots", "profile_workspace_roots", "active_permission_profile"),
)
"""Fields that have the same name and meaning today. Not every op has all of them."""


def _overrides(op: Any, effort: str | None, summary: str | None) -> ThreadSettingsOverrides:
    from codex_plugin_older_ops.sandboxes import approval_of

    cwd, tier = op.cwd, getattr(op, "service_tier", _SAME)
    if cwd is not None and not cwd.startswith("/"):
        raise ThreadError(
            f"cwd is not absolute: {cwd!r}", slug="bad-request", hint="Send the whole path of the folder."
        )
    return ThreadSettingsOverrides(
        cwd=cwd,
        approval_policy=approval_of(op.approval_policy),
        **_limits(op),
        model=op.model,
        effort=None if effort == _SAME else effort or "",
        summary=summary,
        service_tier=None if tier == _SAME else tier or "",
        **{name: value for name in _UNCHANGED if (value := getattr(op, name, None)) is not None},
    )


def _limits(op: Any) -> dict[str, Any]:
    from codex_plugin_older_ops.sandboxes import limits_of

    profile = getattr(op, "permission_profile", None)
    if profile is not None:
        return {"permission_profile": profile}
    return {} if getattr(op, "active_permission_profile", None) else limits_of(op.sandbox_policy)
