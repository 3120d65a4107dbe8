"""Commands: begin, output, end; patches; images; approvals of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from codex_framework.value import Value

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


class ExecCommandBeginEvent(Value, kw_only=True):
    """A command has been started. ``source``: ``agent``, ``user_shell``, ``unified_exec_startup`` or ``unified_exec_interaction``."""

    type: ClassVar[str] = "exec_command_begin"
    call_id: str
    turn_id: str
    command: tuple[str, ...]
    cwd: str
    started_at_ms: int
    process_id: str | None = None
    parsed_cmd: tuple[Mapping[str, Any], ...] = ()
    source: str = "agent"
    interaction_input: str | None = None


class ExecCommandOutputDeltaEvent(Value, kw_only=True):
    """Raw output of a running command. ``stream`` is ``stdout`` or ``stderr``; at most 8,192 bytes a piece."""

    type: ClassVar[str] = "exec_command_output_delta"
    call_id: str
    stream: str
    chunk: bytes


class TerminalInteractionEvent(Value, kw_only=True):
    """Something was typed into a running command session."""

    type: ClassVar[str] = "terminal_interaction"
    call_id: str
    process_id: str
    stdin: str


class ExecCommandEndEvent(Value, kw_only=True):
    """A command has ended. ``status``: ``completed``, ``failed`` or ``declined``; ``duration_s`` is in seconds."""

    type: ClassVar[str] = "exec_command_end"
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
    """A file was made with this content."""

    type: ClassVar[str] = "add"
    content: str


class DeleteFile(Value):
    """A file with this content was deleted."""

    type: ClassVar[str] = "delete"
    content: str


class UpdateFile(Value):
    """A file was changed, and perhaps moved to the absolute ``move_path``."""

    type: ClassVar[str] = "update"
    unified_diff: str
    move_path: str | None = None


FileChange: TypeAlias = AddFile | DeleteFile | UpdateFile


class PatchApplyBeginEvent(Value, kw_only=True):
    """A patch is about to be applied. Keys of ``changes`` are absolute paths."""

    type: ClassVar[str] = "patch_apply_begin"
    call_id: str
    turn_id: str
    auto_approved: bool
    changes: Mapping[str, FileChange]


class PatchApplyUpdatedEvent(Value, kw_only=True):
    """A preview of the patch that the model is still writing."""

    type: ClassVar[str] = "patch_apply_updated"
    call_id: str
    changes: Mapping[str, FileChange]


class PatchApplyEndEvent(Value, kw_only=True):
    """A patch has been applied, or not. ``status``: ``completed``, ``failed`` or ``declined``."""

    type: ClassVar[str] = "patch_apply_end"
    call_id: str
    turn_id: str
    stdout: str
    stderr: str
    success: bool
    changes: Mapping[str, FileChange]
    status: str


class ViewImageToolCallEvent(Value):
    """An image file was shown to the model."""

    type: ClassVar[str] = "view_image_tool_call"
    call_id: str
    path: str


class ExecApprovalRequestEvent(Value, kw_only=True):
    """May this command run? Answer with an ``exec_approval`` op that names ``approval_id`` or ``call_id``.

    Attributes:
        proposed_execpolicy_amendment: A command prefix that could be allowed from now on.
        available_decisions: What may be answered, as it stands on the wire.
        network_approval_context: ``{"host", "protocol"}``: the question is about a host that a running command wants to reach,
            and ``command`` is ``("network-access", URL)``.
        additional_permissions: What the command wants on top of the profile: ``{"network"?, "file_system"?}``.
    """

    type: ClassVar[str] = "exec_approval_request"
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


class ApplyPatchApprovalRequestEvent(Value, kw_only=True):
    """May this patch be applied? Answer with a ``patch_approval`` op that names ``call_id``."""

    type: ClassVar[str] = "apply_patch_approval_request"
    call_id: str
    turn_id: str
    started_at_ms: int
    changes: Mapping[str, FileChange]
    reason: str | None = None
    grant_root: str | None = None


class RequestPermissionsEvent(Value, kw_only=True):
    """May the thread do more from now on? Answer with a ``request_permissions_response`` op that names ``call_id``.

    Attributes:
        permissions: ``{"network"?: {"enabled": true}, "file_system"?: {"entries": [...]}}``; a part of it may be granted.
    """

    type: ClassVar[str] = "request_permissions"
    call_id: str
    turn_id: str
    started_at_ms: int
    cwd: str
    permissions: Mapping[str, Any]
    reason: str | None = None
