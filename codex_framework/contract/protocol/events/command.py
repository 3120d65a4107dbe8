"""Commands: begin, output, end; patches; images; approvals of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.requests import OFF_WIRE, ApprovalRequest
from codex_framework.contract.protocol.policies import Decision, ReviewDecision
from codex_framework.contract.value import Value, field

__all__ = [
    "AddFile",
    "ApplyPatchApprovalRequestEvent",
    "DeleteFile",
    "ExecApprovalRequestEvent",
    "ExecCommandBeginEvent",
    "ExecCommandEndEvent",
    "ExecCommandOutputDeltaEvent",
    "FileChange",
    "PatchApplyBeginEvent",
    "PatchApplyEndEvent",
    "PatchApplyUpdatedEvent",
    "RequestPermissionsEvent",
    "TerminalInteractionEvent",
    "UpdateFile",
    "ViewImageToolCallEvent",
]


class ExecCommandBeginEvent(EventMsg, kw_only=True):
    """A command has been started. ``source``: ``agent``, ``user_shell``, ``unified_exec_startup`` or ``unified_exec_interaction``."""

    type: ClassVar[Literal["exec_command_begin"]] = "exec_command_begin"
    call_id: str
    turn_id: str
    command: tuple[str, ...]
    cwd: str
    started_at_ms: int
    process_id: str | None = None
    parsed_cmd: tuple[Mapping[str, Any], ...] = ()
    source: str = "agent"
    interaction_input: str | None = None


class ExecCommandOutputDeltaEvent(EventMsg, kw_only=True):
    """Raw output of a running command, at most 8,192 bytes per event. ``stream`` is ``stdout`` or ``stderr``."""

    type: ClassVar[Literal["exec_command_output_delta"]] = "exec_command_output_delta"
    is_delta = True
    call_id: str
    stream: str
    chunk: bytes


class TerminalInteractionEvent(EventMsg, kw_only=True):
    """Input was sent to a running command session."""

    type: ClassVar[Literal["terminal_interaction"]] = "terminal_interaction"
    call_id: str
    process_id: str
    stdin: str


class ExecCommandEndEvent(EventMsg, kw_only=True):
    """A command has ended. ``status``: ``completed``, ``failed`` or ``declined``; ``duration_s`` is in seconds."""

    type: ClassVar[Literal["exec_command_end"]] = "exec_command_end"
    call_id: str
    turn_id: str
    command: tuple[str, ...]
    cwd: str
    completed_at_ms: int
    stdout: str
    stderr: str
    aggregated_output: str
    exit_code: int
    duration_s: float
    formatted_output: str
    status: str
    process_id: str | None = None
    parsed_cmd: tuple[Mapping[str, Any], ...] = ()
    source: str = "agent"
    interaction_input: str | None = None


class AddFile(Value):
    """A file was created with this content."""

    type: ClassVar[Literal["add"]] = "add"
    content: str


class DeleteFile(Value):
    """A file with this content was deleted."""

    type: ClassVar[Literal["delete"]] = "delete"
    content: str


class UpdateFile(Value):
    """A file was changed, and moved to the absolute ``move_path`` if that is not None."""

    type: ClassVar[Literal["update"]] = "update"
    unified_diff: str
    move_path: str | None = None


FileChange: TypeAlias = AddFile | DeleteFile | UpdateFile


class PatchApplyBeginEvent(EventMsg, kw_only=True):
    """A patch is about to be applied. Keys of ``changes`` are absolute paths."""

    type: ClassVar[Literal["patch_apply_begin"]] = "patch_apply_begin"
    call_id: str
    turn_id: str
    auto_approved: bool
    changes: Mapping[str, FileChange]


class PatchApplyUpdatedEvent(EventMsg, kw_only=True):
    """A preview of the patch that the model is still writing."""

    type: ClassVar[Literal["patch_apply_updated"]] = "patch_apply_updated"
    is_delta = True
    call_id: str
    changes: Mapping[str, FileChange]


class PatchApplyEndEvent(EventMsg, kw_only=True):
    """An attempt to apply a patch has ended. ``status``: ``completed``, ``failed`` or ``declined``."""

    type: ClassVar[Literal["patch_apply_end"]] = "patch_apply_end"
    kept = True
    call_id: str
    turn_id: str
    stdout: str
    stderr: str
    success: bool
    changes: Mapping[str, FileChange]
    status: str


class ViewImageToolCallEvent(EventMsg):
    """An image file was shown to the model."""

    type: ClassVar[Literal["view_image_tool_call"]] = "view_image_tool_call"
    call_id: str
    path: str


class ExecApprovalRequestEvent(ApprovalRequest, kw_only=True):
    """A request to run a command. Answer with an ``exec_approval`` op that names ``approval_id`` or ``call_id``.

    Attributes:
        proposed_execpolicy_amendment: A command prefix that can be allowed permanently.
        available_decisions: The possible answers in their wire form.
        network_approval_context: ``{"host", "protocol"}``: the request is for a host that a running command wants to reach, and
            ``command`` is ``("network-access", URL)``.
        additional_permissions: Permissions requested in addition to the profile: ``{"network"?, "file_system"?}``.
        precaution: Whether the command runs if no client can answer. Not on the wire.
        without_sandbox: Whether the command then runs without a sandbox. On the wire only if it is true.
    """

    type: ClassVar[Literal["exec_approval_request"]] = "exec_approval_request"
    call_id: str
    turn_id: str
    command: tuple[str, ...]
    cwd: str
    started_at_ms: int
    approval_id: str | None = None
    reason: str | None = None
    proposed_execpolicy_amendment: tuple[str, ...] | None = None
    available_decisions: tuple[Any, ...] | None = None
    parsed_cmd: tuple[Mapping[str, Any], ...] = ()
    network_approval_context: Mapping[str, str] | None = None
    proposed_network_policy_amendments: tuple[Mapping[str, str], ...] | None = None
    additional_permissions: Mapping[str, Any] | None = None
    precaution: bool = field(default=False, metadata=OFF_WIRE)
    without_sandbox: bool = False
    environment_id: str | None = None
    request_id: str = field(
        factory=lambda event: event.approval_id or event.call_id,
        takes_self=True,
        metadata=OFF_WIRE,
        kw_only=True,
    )

    def with_id(self, request_id: str) -> Self:
        """Return the request under another id."""
        return self.evolve(approval_id=request_id, request_id=request_id)

    def unattended(self) -> ReviewDecision:
        """Return a denial, unless the question was a precaution."""
        return ReviewDecision(Decision.APPROVED) if self.precaution else super().unattended()

    @property
    def subject(self) -> str:
        """The command."""
        return f"the command {' '.join(self.command)}"

    @property
    def details(self) -> Mapping[str, Any]:
        """The command and its folder."""
        return {"command": list(self.command), "cwd": self.cwd}


class ApplyPatchApprovalRequestEvent(ApprovalRequest, kw_only=True):
    """A request to apply a patch. Answer with a ``patch_approval`` op that names ``call_id``.

    Attributes:
        grant_root: A folder that ``approved_for_session`` makes writable, if any.
        without_sandbox: Whether the patch writes where the turn must not write. On the wire only if it is true.
    """

    type: ClassVar[Literal["apply_patch_approval_request"]] = "apply_patch_approval_request"
    call_id: str
    turn_id: str
    started_at_ms: int
    changes: Mapping[str, FileChange]
    reason: str | None = None
    grant_root: str | None = None
    environment_id: str | None = None
    without_sandbox: bool = False
    request_id: str = field(factory=lambda event: event.call_id, takes_self=True, metadata=OFF_WIRE, kw_only=True)

    def with_id(self, request_id: str) -> Self:
        """Return the request under another id."""
        return self.evolve(call_id=request_id, request_id=request_id)

    @property
    def subject(self) -> str:
        """The files."""
        return f"a patch of {', '.join(sorted(self.changes))}"

    @property
    def details(self) -> Mapping[str, Any]:
        """The files."""
        return {"files": sorted(self.changes)}


class RequestPermissionsEvent(ApprovalRequest, kw_only=True):
    """A request for more permissions for the thread. Answer with a ``request_permissions_response`` op that names ``call_id``.

    Attributes:
        permissions: ``{"network"?: {"enabled": true}, "file_system"?: {"entries": [...]}}``; the answer may grant a part of it.
    """

    type: ClassVar[Literal["request_permissions"]] = "request_permissions"
    call_id: str
    turn_id: str
    started_at_ms: int
    cwd: str
    permissions: Mapping[str, Any]
    reason: str | None = None
    environment_id: str | None = None
    request_id: str = field(factory=lambda event: event.call_id, takes_self=True, metadata=OFF_WIRE, kw_only=True)

    def with_id(self, request_id: str) -> Self:
        """Return the request under another id."""
        return self.evolve(call_id=request_id, request_id=request_id)

    @property
    def subject(self) -> str:
        """Permissions."""
        return "further permissions"

    @property
    def details(self) -> Mapping[str, Any]:
        """The permissions."""
        return {"permissions": dict(self.permissions)}
