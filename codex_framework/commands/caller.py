"""The caller of a command: a call of the model, or the user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.events import ApprovalRequest
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval, ReviewDecision
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.value import Value
from codex_framework.toolkit.spans import NO_SPAN

__all__ = ["Ask", "Caller", "MeasuredSpan"]

Ask = Callable[[ApprovalRequest], Awaitable[ReviewDecision]]
"""Asks reviewers and the user."""


def _unheard(_: object) -> None:
    """Do nothing. The default for events without a receiver."""


def _granted_to_nobody(permissions: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001
    """Do nothing. The default for permissions that nothing keeps."""


class MeasuredSpan(Protocol):
    """A span of telemetry that is begun and ended by hand."""

    def set(self, **attributes: str | float | bool) -> None:
        """Add attributes."""
        ...

    def begin(self) -> None:
        """Begin."""
        ...

    def finish(self, *, failed: bool = False) -> None:
        """End."""
        ...


def _empty_span(_: str, **__: Any) -> MeasuredSpan:
    """Return a span that measures nothing. The default without telemetry."""
    return NO_SPAN


def _ignore_decision(_: str, __: str) -> None:
    """Do nothing. The default without telemetry."""


def _refused_unheard(_: Actor, __: str) -> None:
    """Do nothing. The default without a record."""


class Caller(Value, kw_only=True):
    """The caller of a command.

    Attributes:
        turn: The facts of the turn.
        env: Variables for the command.
        emit: Sends an event to the thread's clients.
        ask: Asks for an approval.
        resolve: Resolves permissions in the turn's folder.
        note: Adds a developer message for the model.
        redact: Removes secrets of interceptors from a text. None if no interceptor redacts.
        grant: Grants further permissions for the rest of the turn, or for the session if the second argument is true.
        measuring: Returns a span of telemetry, by name and attributes.
        decided: Reports a decision about the call to telemetry, with its source.
        refused: Records who refused something in the call, with the reason.
    """

    call_id: str
    turn: TurnFacts
    env: Mapping[str, str]
    emit: Callable[[Any], None]
    ask: Ask
    resolve: Callable[[Permissions], FileAccess]
    note: Callable[[str], None] = _unheard
    redact: Callable[[str], str] | None = None
    grant: Callable[[AdditionalPermissions, bool], None] = _granted_to_nobody
    measuring: Callable[..., MeasuredSpan] = _empty_span
    decided: Callable[[str, str], None] = _ignore_decision
    refused: Callable[[Actor, str], None] = _refused_unheard

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
        """The turn's access to files and the network."""
        return self.turn.access

    @property
    def permissions(self) -> Permissions:
        """The turn's permissions, with symbolic paths."""
        return self.turn.permissions

    @property
    def approval_policy(self) -> ApprovalPolicy | GranularApproval:
        """The approval policy."""
        return self.turn.approval_policy

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged configuration as plain tables."""
        return self.turn.config
