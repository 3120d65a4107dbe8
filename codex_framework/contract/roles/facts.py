"""What is known of a turn: one plain value for everything that decides without acting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval, SandboxPolicy
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.value import Value, field

__all__ = ["TurnFacts"]


class TurnFacts(Value, kw_only=True):
    """The facts of a turn. Made once a turn; given to command policies, context sources, tools, compactors and predicates.

    Attributes:
        kind: What fills the turn: ``regular``, or the kind of a task.
        cwd: The turn's folder, absolute.
        permissions: What the thread may do, with symbolic places.
        access: The same, resolved for this turn.
        shell: Path of the person's shell.
        config: The merged configuration of the thread as plain tables.
        codex_home: ``$CODEX_HOME``. None where there is no kernel (a policy tried on the command line).
        agent: The name of the agent that the thread runs. None for a thread without one.
        depth: How many parents the thread has.
        first: Whether nothing stands in the history yet.
        previous_model: The model of the turn before. None for the first turn.
        client_metadata: What the client sent with the turn.
    """

    cwd: Path
    approval_policy: ApprovalPolicy | GranularApproval
    permissions: Permissions
    access: FileAccess = FileAccess()
    model: ModelInfo = ModelInfo(slug="unknown", known=False)
    config: Mapping[str, Any] = field(factory=dict)
    thread_id: str = ""
    turn_id: str = ""
    kind: str = "regular"
    shell: str = "/bin/sh"
    codex_home: Path | None = None
    agent: str | None = None
    depth: int = 0
    first: bool = False
    previous_model: ModelInfo | None = None
    client_metadata: Mapping[str, str] = field(factory=dict)

    @property
    def sandbox_policy(self) -> SandboxPolicy:
        """The sandbox policy nearest to the permissions."""
        return self.permissions.sandbox_policy
