"""What a client asks of a thread. Wire names as in Codex (tag ``type``, snake_case)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from codex_framework.protocol.permissions import PermissionProfile
from codex_framework.protocol.policies import ApprovalPolicy, GranularApproval, ReviewDecision, SandboxPolicy
from codex_framework.value import Value

__all__ = [
    "CleanBackgroundTerminals",
    "ExecApproval",
    "ImageInput",
    "Interrupt",
    "LocalImageInput",
    "Op",
    "PatchApproval",
    "PermissionsResponse",
    "RequestPermissionsResponse",
    "Shutdown",
    "Submission",
    "TextInput",
    "ThreadSettings",
    "ThreadSettingsOverrides",
    "UnknownInput",
    "UserInputItem",
    "UserInputOp",
]

MAX_USER_INPUT_TEXT_CHARS = 1 << 20
"""Longest accepted text input, in characters (Codex: ``MAX_USER_INPUT_TEXT_CHARS``)."""


class TextInput(Value):
    """Text typed by the person."""

    type: ClassVar[str] = "text"
    text: str


class ImageInput(Value):
    """An image by URL (``https:`` or ``data:``)."""

    type: ClassVar[str] = "image"
    image_url: str
    detail: str | None = None


class LocalImageInput(Value):
    """An image file; read and sent as a data URL when the turn starts."""

    type: ClassVar[str] = "local_image"
    path: str
    detail: str | None = None


class UnknownInput(Value):
    """An input of a kind not known here; kept, and ignored by the turn with a warning."""

    type: ClassVar[str] = ""
    raw: Mapping[str, Any]


UserInputItem: TypeAlias = TextInput | ImageInput | LocalImageInput | UnknownInput


class ThreadSettingsOverrides(Value, kw_only=True):
    """Changes to a thread's settings from the next turn on. ``None`` leaves a setting as it is.

    Attributes:
        sandbox_policy, permission_profile, permissions: Three ways to say what may be done; ``permissions`` is the name of a
            profile. At most one of them.
        workspace_roots: Absolute folders that belong to the workspace besides ``cwd``, instead of the ones before.
    """

    cwd: str | None = None
    approval_policy: ApprovalPolicy | GranularApproval | None = None
    sandbox_policy: SandboxPolicy | None = None
    permission_profile: PermissionProfile | None = None
    permissions: str | None = None
    workspace_roots: tuple[str, ...] | None = None
    model: str | None = None
    effort: str | None = None
    summary: str | None = None


class Interrupt(Value):
    """End the running turn now. Background terminals survive."""

    type: ClassVar[str] = "interrupt"


class CleanBackgroundTerminals(Value):
    """Kill every command session of the thread."""

    type: ClassVar[str] = "clean_background_terminals"


class UserInputOp(Value):
    """Input for the running turn, or the start of a new one (wire: ``user_input``)."""

    type: ClassVar[str] = "user_input"
    items: tuple[UserInputItem, ...]
    final_output_json_schema: Mapping[str, Any] | None = None
    thread_settings: ThreadSettingsOverrides = ThreadSettingsOverrides()


class ThreadSettings(Value):
    """Change settings without starting a turn."""

    type: ClassVar[str] = "thread_settings"
    thread_settings: ThreadSettingsOverrides


class ExecApproval(Value):
    """The answer to an ``exec_approval_request``; ``id`` is the request's ``approval_id`` or ``call_id``."""

    type: ClassVar[str] = "exec_approval"
    id: str
    decision: ReviewDecision
    turn_id: str | None = None


class PatchApproval(Value):
    """The answer to an ``apply_patch_approval_request``."""

    type: ClassVar[str] = "patch_approval"
    id: str
    decision: ReviewDecision


class PermissionsResponse(Value, kw_only=True):
    """What is granted of a request for permissions.

    Attributes:
        permissions: As in the request, or a part of it; what was not asked for is left out. Empty: nothing.
        scope: ``turn`` or ``session``.
    """

    permissions: Mapping[str, Any]
    scope: str = "turn"


class RequestPermissionsResponse(Value):
    """The answer to a ``request_permissions`` event; ``id`` is its ``call_id``."""

    type: ClassVar[str] = "request_permissions_response"
    id: str
    response: PermissionsResponse


class Shutdown(Value):
    """Stop everything, save everything, answer with ``shutdown_complete``."""

    type: ClassVar[str] = "shutdown"


Op: TypeAlias = (
    Interrupt
    | CleanBackgroundTerminals
    | UserInputOp
    | ThreadSettings
    | ExecApproval
    | PatchApproval
    | RequestPermissionsResponse
    | Shutdown
)


class Submission(Value):
    """An op on its way to a thread.

    Attributes:
        id: Chosen by the client; every event that the op causes carries it.
    """

    id: str
    op: Op
