"""The settings of a thread, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval, SandboxPolicy
from codex_framework.contract.roles.models import ModelInfo, ProviderInfo
from codex_framework.contract.value import Value, field

__all__ = ["Settings"]

_BYTES_PER_TOKEN = 4
"""Codex's estimate, for models whose outputs are measured in bytes."""


class Settings(Value, kw_only=True):
    """The settings of a thread. Nothing changes them under a running turn.

    Attributes:
        reasoning_effort: None leaves it to the model, as do ``reasoning_summary`` and ``verbosity``.
        context_window: In tokens, instead of what is known of the model.
        tool_output_token_limit: Tokens of a tool's output that are kept, instead of what is known of the model.
        reasoning: True treats a model as a reasoning model though it is not known as one.
        shell_environment_policy: The table of that name.
        keep_variables: Patterns of variables that commands get although they look like keys.
        ephemeral: Keep nothing of the thread on disk.
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
    ephemeral: bool = False

    @property
    def sandbox_policy(self) -> SandboxPolicy:
        """The nearest sandbox policy to the permissions."""
        return self.permissions.sandbox_policy

    def evolve(self, **changes: Any) -> Self:
        """A copy with some fields changed. A ``sandbox_policy`` among them becomes permissions, unless it is what these say."""
        if "sandbox_policy" in changes:
            policy = changes.pop("sandbox_policy")
            # A client that sends back what it was told does not mean to widen a profile.
            if policy != self.sandbox_policy:
                changes["permissions"] = permissions_of(policy)
        return super().evolve(**changes)

    def with_overrides(self, info: ModelInfo) -> ModelInfo:
        """What is known of the model, with what the configuration says instead."""
        changes: dict[str, Any] = {}
        if self.context_window is not None:
            changes["context_window"] = self.context_window
        if self.tool_output_token_limit is not None:
            unit = info.truncation[0]
            factor = _BYTES_PER_TOKEN if unit == "bytes" else 1
            changes["truncation"] = (unit, self.tool_output_token_limit * factor)
        if self.reasoning:
            changes["reasoning"] = True
        return info.evolve(**changes) if changes else info
