"""The facts of a turn: one plain value for all objects that decide without acting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT, EnvironmentSelection
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    CollaborationMode,
    GranularApproval,
    SandboxPolicy,
)
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.tool_specs import DeferredTool
from codex_framework.contract.value import Value, field

__all__ = ["EnvironmentState", "TurnFacts"]


class EnvironmentState(Value, kw_only=True):
    """The state of an environment when the turn began.

    Attributes:
        shell: Path of the user's shell there. Empty if it is not known.
        fault: Why it cannot be used. Empty if it can be used.
    """

    shell: str = ""
    fault: str = ""


class TurnFacts(Value, kw_only=True):
    """The facts of a turn, created once per turn for command policies, context sources, tools, compactors and predicates.

    Attributes:
        kind: ``regular``, or the kind of the task that the turn runs.
        cwd: The turn's folder, absolute.
        environment_id: The environment of ``cwd``, ``permissions``, ``access`` and ``shell``. Context sources and command
            policies get the facts of the environment in question. Do not open its paths on this machine if the environment is
            remote.
        permissions: The permissions of the thread, with symbolic locations.
        access: The permissions, resolved for this turn.
        shell: Path of the user's shell.
        config: The merged configuration of the thread as plain tables.
        codex_home: ``$CODEX_HOME``. None if there is no kernel (a policy tried on the command line).
        agent: The name of the agent that the thread runs. None for a thread without one.
        depth: The number of the thread's ancestors.
        first: Whether the history is empty.
        first_model: The model of the thread's first turn since it was started or resumed. None in this turn.
        previous_model: The model of the previous turn. None for the first turn.
        client_metadata: Metadata that the client sent with the turn.
        collaboration_mode: How the model works with the user. None if no mode was set, which is the default mode.
        approvals_reviewer: The reviewer of approvals: ``user``, or ``auto_review`` for a model.
        environments: The environments of the turn. The primary one comes first, and its folder is ``cwd``. By default, this
            machine. Environments that could not be used when the turn began come last.
        environment_states: Their states, by id. Empty if all of them are this machine.
        previous_environments: The ids of the environments that were selected before these. Empty if there was no other selection.
        deferred_tools: The deferred tools of all plugins. Replaced when the tools of the turn change.
    """

    cwd: Path
    approval_policy: ApprovalPolicy | GranularApproval
    permissions: Permissions
    access: FileAccess = FileAccess()
    model: ModelInfo = ModelInfo(slug="unknown", known=False)
    config: Mapping[str, Any] = field(factory=dict)
    environment_id: str = LOCAL_ENVIRONMENT
    thread_id: str = ""
    turn_id: str = ""
    kind: str = "regular"
    shell: str = "/bin/sh"
    codex_home: Path | None = None
    agent: str | None = None
    depth: int = 0
    first: bool = False
    first_model: ModelInfo | None = None
    previous_model: ModelInfo | None = None
    client_metadata: Mapping[str, str] = field(factory=dict)
    collaboration_mode: CollaborationMode | None = None
    approvals_reviewer: str = "user"
    environments: tuple[EnvironmentSelection, ...] | None = None
    environment_states: Mapping[str, EnvironmentState] = field(factory=dict)
    previous_environments: tuple[str, ...] = ()
    deferred_tools: Sequence[DeferredTool] = ()

    @property
    def mode(self) -> str:
        """The kind of the collaboration mode: ``plan`` or ``default``."""
        return "default" if self.collaboration_mode is None else self.collaboration_mode.kind

    @property
    def sandbox_policy(self) -> SandboxPolicy:
        """The sandbox policy nearest to the permissions."""
        return self.permissions.sandbox_policy
