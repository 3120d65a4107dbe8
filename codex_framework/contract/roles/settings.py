"""The settings of a thread, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.environments import EnvironmentSelection
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    CollaborationMode,
    GranularApproval,
    SandboxPolicy,
)
from codex_framework.contract.roles.models import ModelInfo, ProviderInfo
from codex_framework.contract.value import Value, field

__all__ = ["Settings"]

_BYTES_PER_TOKEN = 4
"""Codex's estimate, for models whose outputs are measured in bytes."""


class Settings(Value, kw_only=True):
    """The settings of a thread. They do not change during a turn.

    Attributes:
        reasoning_effort: None leaves it to the model, as do ``reasoning_summary`` and ``verbosity``.
        context_window: The context window in tokens, instead of the model's.
        tool_output_token_limit: The maximum length of a tool's output in tokens, instead of the model's.
        reasoning: True treats an unknown model as a reasoning model.
        shell_environment_policy: The table ``[shell_environment_policy]``.
        keep_variables: Patterns of variables that commands get although their names look like secrets.
        ephemeral: If true, the thread is not stored.
        collaboration_mode: How the model works with the user. By default, the default mode.
        approvals_reviewer: The reviewer of approvals: ``user``, or ``auto_review`` for a model. None leaves it to the
            configuration.
        personality: The tone that the user wants: ``none``, ``friendly`` or ``pragmatic``. For context sources and other plugins.
        environments: The places in which the thread works, the primary one first, whose folder is ``cwd``. By default, this
            machine.
    """

    model: str
    provider: ProviderInfo
    approval_policy: ApprovalPolicy | GranularApproval
    permissions: Permissions
    cwd: Path
    reasoning_effort: str | None = None
    reasoning_summary: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    context_window: int | None = None
    tool_output_token_limit: int | None = None
    reasoning: bool | None = None
    shell_environment_policy: Mapping[str, Any] = field(factory=dict)
    keep_variables: tuple[str, ...] = ()
    hide_agent_reasoning: bool = False
    show_raw_agent_reasoning: bool = False
    ephemeral: bool = False
    collaboration_mode: CollaborationMode | None = None
    approvals_reviewer: str | None = None
    personality: str | None = None
    environments: tuple[EnvironmentSelection, ...] | None = None

    @property
    def sandbox_policy(self) -> SandboxPolicy:
        """The nearest sandbox policy to the permissions."""
        return self.permissions.sandbox_policy

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed. A ``sandbox_policy`` becomes permissions, unless it matches the current ones."""
        if "sandbox_policy" in changes:
            policy = changes.pop("sandbox_policy")
            # A client that returns the policy it received does not intend to widen a profile.
            if policy != self.sandbox_policy:
                changes["permissions"] = permissions_of(policy)
        return super().evolve(**changes)

    def with_overrides(self, info: ModelInfo) -> ModelInfo:
        """Return the properties of the model, overridden by the configuration."""
        changes: dict[str, Any] = {}
        if self.context_window is not None:
            changes["context_window"] = min(self.context_window, info.max_context_window or self.context_window)
        if self.tool_output_token_limit is not None:
            unit = info.truncation[0]
            factor = _BYTES_PER_TOKEN if unit == "bytes" else 1
            changes["truncation"] = (unit, self.tool_output_token_limit * factor)
        if self.reasoning:
            changes["reasoning"] = True
        return info.evolve(**changes) if changes else info
