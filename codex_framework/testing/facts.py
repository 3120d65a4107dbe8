"""The facts of an imaginary turn, for tests of code that depends on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import ApprovalPolicy, DangerFullAccess, SandboxPolicy
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo

__all__ = ["turn_facts"]


def turn_facts(*, sandbox_policy: SandboxPolicy | None = None, **fields: Any) -> TurnFacts:
    """Return the facts of a turn. By default, everything is permitted without approval.

    Args:
        sandbox_policy: The permissions, as a sandbox policy.
        fields: Fields of ``TurnFacts``.
    """
    if sandbox_policy is not None:
        fields["permissions"] = permissions_of(sandbox_policy)
    usual: dict[str, Any] = {
        "thread_id": "thread-1",
        "turn_id": "turn-1",
        "cwd": Path("/"),
        "model": ModelInfo(slug="test-model"),
        "approval_policy": ApprovalPolicy.NEVER,
        "permissions": permissions_of(DangerFullAccess()),
        "access": FileAccess(full=True, network=NetworkMode.ON),
    }
    return TurnFacts(**{**usual, **fields})
