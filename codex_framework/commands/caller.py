"""On whose behalf a command runs: a call of the model, or a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.events import ApprovalRequest
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval, ReviewDecision
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.value import Value

__all__ = ["Ask", "Caller"]

Ask = Callable[[ApprovalRequest], Awaitable[ReviewDecision]]
"""Asks reviewers and people."""


def _unheard(_: object) -> None:
    """Do nothing, where nobody listens."""


def _granted_to_nobody(permissions: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001
    """Do nothing, where nothing remembers it."""


class Caller(Value, kw_only=True):
    """On whose behalf a command runs.

    Attributes:
        turn: What is known of the turn.
        env: Variables for the command.
        emit: Tells the thread's clients.
        ask: Asks for an approval.
        resolve: Turns permissions into an access, in the turn's folder.
        note: Tells the model something in a developer message.
        grant: Lets the rest of the turn do more, or of the session where the second argument is true.
    """

    call_id: str
    turn: TurnFacts
    env: Mapping[str, str]
    emit: Callable[[Any], None]
    ask: Ask
    resolve: Callable[[Permissions], FileAccess]
    note: Callable[[str], None] = _unheard
    grant: Callable[[AdditionalPermissions, bool], None] = _granted_to_nobody

    @property
    def turn_id(self) -> str:
        """The turn's id."""
        return self.turn.turn_id

    @property
    def cwd(self) -> Path:
        """The turn's folder, absolute."""
        return self.turn.cwd

    @property
    def access(self) -> FileAccess:
        """What the turn may do with files and the network."""
        return self.turn.access

    @property
    def permissions(self) -> Permissions:
        """The same, with symbolic places."""
        return self.turn.permissions

    @property
    def approval_policy(self) -> ApprovalPolicy | GranularApproval:
        """Who is asked."""
        return self.turn.approval_policy

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged configuration as plain tables."""
        return self.turn.config
