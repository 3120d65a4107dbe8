"""Approval policies, sandbox policies and decisions. Wire names as in Codex (spec: protocol, decisions)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import ClassVar, TypeAlias

from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.value import Value

__all__ = [
    "ApprovalPolicy",
    "CollaborationMode",
    "CollaborationSettings",
    "DangerFullAccess",
    "Decision",
    "ExternalSandbox",
    "GranularApproval",
    "ReadOnly",
    "ReasoningEffort",
    "ReviewDecision",
    "SandboxMode",
    "SandboxPermissions",
    "SandboxPolicy",
    "WorkspaceWrite",
]


class ApprovalPolicy(enum.StrEnum):
    """When the user is asked (wire: ``AskForApproval``)."""

    UNTRUSTED = "untrusted"
    ON_FAILURE = "on-failure"
    ON_REQUEST = "on-request"
    NEVER = "never"


class GranularApproval(Value):
    """The kinds of question that may be asked. ``False`` answers such a question with "no" without asking."""

    sandbox_approval: bool
    rules: bool
    mcp_elicitations: bool
    skill_approval: bool = False
    request_permissions: bool = False


class CollaborationSettings(Value):
    """The settings that come with a collaboration mode. None keeps the thread's settings.

    Attributes:
        developer_instructions: The instructions for the mode, in place of the built-in ones.
    """

    model: str | None = None
    reasoning_effort: str | None = None
    developer_instructions: str | None = None


class CollaborationMode(Value):
    """How the model works with the user.

    Attributes:
        mode: ``default``, or ``plan`` for a turn that plans and changes nothing. Codex's older names are read as ``default``.
    """

    mode: str = "default"
    settings: CollaborationSettings = CollaborationSettings()

    @property
    def kind(self) -> str:
        """``plan`` or ``default``."""
        return "plan" if self.mode == "plan" else "default"

    @property
    def is_known(self) -> bool:
        """Whether the mode is one of Codex."""
        return self.mode in ("plan", "default", "code", "pair_programming", "execute", "custom")


class SandboxMode(enum.StrEnum):
    """The three modes that can be selected on the command line or in the configuration."""

    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"
    DANGER_FULL_ACCESS = "danger-full-access"


class DangerFullAccess(Value):
    """No confinement."""

    type: ClassVar[str] = "danger-full-access"


class ReadOnly(Value):
    """Read everything, write nothing."""

    type: ClassVar[str] = "read-only"
    network_access: bool = False


class ExternalSandbox(Value):
    """Confinement by the environment (a container, a VM). The kernel adds none."""

    type: ClassVar[str] = "external-sandbox"
    network_access: str = "restricted"


class WorkspaceWrite(Value):
    """Read everything; write below the workspace, ``/tmp`` and ``$TMPDIR``.

    Attributes:
        writable_roots: Further writable folders, absolute.
    """

    type: ClassVar[str] = "workspace-write"
    writable_roots: tuple[str, ...] = ()
    network_access: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False


SandboxPolicy: TypeAlias = DangerFullAccess | ReadOnly | ExternalSandbox | WorkspaceWrite


class SandboxPermissions(enum.StrEnum):
    """Extra permissions requested by one call."""

    USE_DEFAULT = "use_default"
    REQUIRE_ESCALATED = "require_escalated"
    WITH_ADDITIONAL_PERMISSIONS = "with_additional_permissions"


class Decision(enum.StrEnum):
    """The simple answers to an approval request."""

    APPROVED = "approved"
    APPROVED_FOR_SESSION = "approved_for_session"
    APPROVED_ALWAYS = "approved_always"
    """Approved, and the tool saves it for all sessions. Only for tools that offer it."""
    DENIED = "denied"
    TIMED_OUT = "timed_out"
    ABORT = "abort"


class ReviewDecision(Value):
    """An answer to an approval request.

    Attributes:
        decision: The answer itself.
        execpolicy_amendment: A command prefix to allow permanently (wire: ``approved_execpolicy_amendment``).
        network_amendment: ``{"host", "action"}`` to remember (wire: ``network_policy_amendment``).
        granted: The permissions granted, in answer to a request for permissions. Not on the wire in this form.
        message: The text that the model reads after a refusal, or the user after ``abort``. Not on the wire.
    """

    decision: Decision
    execpolicy_amendment: tuple[str, ...] | None = None
    network_amendment: Mapping[str, str] | None = None
    granted: AdditionalPermissions | None = None
    message: str | None = None

    @property
    def approved(self) -> bool:
        """Whether the request is approved."""
        return self.decision in (Decision.APPROVED, Decision.APPROVED_FOR_SESSION, Decision.APPROVED_ALWAYS)


class ReasoningEffort(enum.StrEnum):
    """How hard a reasoning model thinks. Other values are passed on unchanged."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
