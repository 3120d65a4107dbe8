"""What a thread starts with: the settings of the configuration, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs

from codex_framework.config.layers import Config
from codex_framework.config.permissions import starting_permissions
from codex_framework.config.provider_table import provider_info
from codex_framework.permissions import Permissions, permissions_of
from codex_framework.protocol.policies import ApprovalPolicy, GranularApproval, SandboxPolicy
from codex_framework.roles.providers import ModelInfo, ProviderInfo
from codex_framework.value import Value

__all__ = ["DEFAULT_MODEL", "Settings", "fallback_model", "fallback_warning"]

DEFAULT_MODEL = "gpt-5.5"
"""The model where none is named: the newest one of Codex's catalogue that takes plain tools."""

_BYTES_PER_TOKEN = 4
"""Codex's estimate, for models whose outputs are measured in bytes."""

_SERVICE_TIERS = {"fast": "priority", "default": None}
"""Words of the configuration and what a request says instead (Codex's)."""


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
    shell_environment_policy: Mapping[str, Any] = attrs.field(factory=dict)
    keep_variables: tuple[str, ...] = ()
    hide_agent_reasoning: bool = False
    ephemeral: bool = False

    @property
    def sandbox_policy(self) -> SandboxPolicy:
        """The nearest sandbox policy to the permissions."""
        return self.permissions.sandbox_policy

    @classmethod
    def from_config(cls, config: Config, builtin_providers: Mapping[str, ProviderInfo]) -> Settings:
        """The settings that a configuration asks for.

        Args:
            config: A checked configuration.
            builtin_providers: Providers that exist without a table, by id, as the loaded plugins offer them.

        Raises:
            ConfigError: The provider is unknown or contradicts itself, or a permission profile is not known here.
        """
        tier = config.get("service_tier")
        return cls(
            model=config.get("model", DEFAULT_MODEL),
            provider=provider_info(config, builtin_providers),
            approval_policy=_approval_policy(config),
            permissions=starting_permissions(config),
            cwd=config.cwd,
            reasoning_effort=config.get("model_reasoning_effort"),
            reasoning_summary=config.get("model_reasoning_summary"),
            verbosity=config.get("model_verbosity"),
            service_tier=_SERVICE_TIERS.get(tier, tier) if tier else None,
            context_window=config.get("model_context_window"),
            tool_output_token_limit=config.get("tool_output_token_limit"),
            reasoning=config.get("model_supports_reasoning_summaries"),
            shell_environment_policy=config.get("shell_environment_policy", {}),
            keep_variables=tuple(config.get("framework.keep_variables", ())),
            hide_agent_reasoning=config.get("hide_agent_reasoning", default=False),
        )

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


def fallback_model(slug: str) -> ModelInfo:
    """What to assume of a model that no provider knows.

    As in Codex: a window of 272,000 tokens, 10,000 bytes of a tool's output, one call at a time, no reasoning settings.
    Other than in Codex, ``apply_patch`` is offered, as a plain function: an endpoint that does not know freeform tools
    refuses the whole request for one, while a function costs nothing and spares the model the quoting of a patch in a shell.
    """
    return ModelInfo(
        slug=slug,
        known=False,
        context_window=272_000,
        truncation=("bytes", 10_000),
        apply_patch="function",
        parallel_tool_calls=False,
        reasoning=False,
        default_effort=None,
    )


def fallback_warning(slug: str) -> str:
    """The sentence that a client hears when :func:`fallback_model` is used (Codex's, which clients look for)."""
    return (
        f"Model metadata for `{slug}` not found."
        " Defaulting to fallback metadata; this can degrade performance and cause issues."
    )


def _approval_policy(config: Config) -> ApprovalPolicy | GranularApproval:
    value = config.get("approval_policy")
    if isinstance(value, str):
        return ApprovalPolicy(value)
    if isinstance(value, Mapping):
        return _granular(config, value)
    return ApprovalPolicy.UNTRUSTED if config.trust == "untrusted" else ApprovalPolicy.ON_REQUEST


def _granular(config: Config, value: Mapping[str, Any]) -> GranularApproval:
    answers = value.get("granular") or {}
    required = [field.name for field in attrs.fields(GranularApproval) if field.default is attrs.NOTHING]
    missing = [name for name in required if name not in answers]
    if missing:
        raise config.error(
            "approval_policy.granular",
            f"`approval_policy.granular` lacks {', '.join(f'`{name}`' for name in missing)}",
            hint="Set each of them to true or false.",
        )
    return GranularApproval(**answers)
