"""The settings of a single thread, as types: keyword arguments of ``Kernel.start_thread``, ``Kernel.run`` and ``run``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.environments import EnvironmentSelection
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    CollaborationMode,
    GranularApproval,
    SandboxPolicy,
)
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.roles.scopes import ServiceKey

__all__ = ["RunOptions", "SettingsOverrides", "ThreadOptions"]


class SettingsOverrides(TypedDict, total=False):
    """Fields of ``Settings`` that replace the settings of the configuration.

    Attributes:
        cwd: The working folder. A relative path starts at the folder of the configuration.
        sandbox_policy: Replaces ``permissions``.
        environments: The folder of the first one replaces ``cwd``.
    """

    model: str
    provider: ProviderInfo
    approval_policy: ApprovalPolicy | GranularApproval | Literal["untrusted", "on-failure", "on-request", "never"]
    permissions: Permissions
    sandbox_policy: SandboxPolicy
    cwd: Path | str
    reasoning_effort: str | None
    reasoning_summary: str | None
    verbosity: str | None
    service_tier: str | None
    context_window: int | None
    tool_output_token_limit: int | None
    reasoning: bool | None
    shell_environment_policy: Mapping[str, Any]
    keep_variables: tuple[str, ...]
    hide_agent_reasoning: bool
    show_raw_agent_reasoning: bool
    ephemeral: bool
    collaboration_mode: CollaborationMode | None
    personality: Literal["none", "friendly", "pragmatic"] | None
    approvals_reviewer: Literal["user", "auto_review", "guardian_subagent"] | None
    environments: tuple[EnvironmentSelection, ...] | None


class ThreadOptions(SettingsOverrides, total=False):
    """The keyword arguments of ``Kernel.start_thread`` that are not about an agent."""

    config: Mapping[str, Any] | None
    source: str
    originator: str | None
    base_instructions: str | None
    extra: Mapping[str, Any] | None
    thread_id: str | None


class RunOptions(SettingsOverrides, total=False):
    """The keyword arguments of ``Kernel.start_thread`` that ``run`` and ``run_async`` take."""

    agent: Agent[Any] | None
    source: str
    originator: str | None
    base_instructions: str | None
    extra: Mapping[str, Any] | None
    thread_id: str | None
    services: Mapping[ServiceKey[Any], object] | None
