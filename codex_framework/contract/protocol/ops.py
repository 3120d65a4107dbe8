"""The operations that a client submits to a thread. Wire names as in Codex (tag ``type``, snake_case)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from codex_framework.contract.protocol.environments import EnvironmentSelections
from codex_framework.contract.protocol.permissions import PermissionProfile
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    CollaborationMode,
    GranularApproval,
    ReviewDecision,
    SandboxPolicy,
)
from codex_framework.contract.value import Value, field

__all__ = [
    "AdditionalContext",
    "ByteRange",
    "CleanBackgroundTerminals",
    "ExecApproval",
    "ImageInput",
    "Interrupt",
    "KernelOp",
    "LocalImageInput",
    "MentionInput",
    "Op",
    "PatchApproval",
    "PermissionsResponse",
    "ReloadUserConfig",
    "RequestPermissionsResponse",
    "Shutdown",
    "SkillInput",
    "TextElement",
    "TextInput",
    "ThreadSettings",
    "ThreadSettingsOverrides",
    "UnknownInput",
    "UserInputItem",
    "UserInputOp",
]

MAX_USER_INPUT_TEXT_CHARS = 1 << 20
"""Longest accepted text input, in characters (Codex: ``MAX_USER_INPUT_TEXT_CHARS``)."""


class Op(Value):
    """An operation that clients submit to a thread. Derive from it for a plugin's own op; ``type`` is the tag on the wire.

    Attributes:
        nulls: Names of fields for which None is something else than to be absent, so that it is written as null.
    """

    type: ClassVar[str] = ""
    nulls: ClassVar[Collection[str]] = ()


class ByteRange(Value):
    """A part of a text: from byte ``start`` up to byte ``end`` of its UTF-8 encoding."""

    start: int
    end: int


class TextElement(Value):
    """A placeholder in a text, such as for a pasted file. ``placeholder`` is the text that the user saw."""

    byte_range: ByteRange
    placeholder: str | None = None


class TextInput(Value):
    """Text typed by the user. ``text_elements`` are for clients; the model sees the text alone."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    text_elements: tuple[TextElement, ...] = ()


class ImageInput(Value):
    """An image by URL (``https:`` or ``data:``)."""

    type: ClassVar[Literal["image"]] = "image"
    image_url: str
    detail: str | None = None


class LocalImageInput(Value):
    """An image file; read and sent as a data URL when the turn starts."""

    type: ClassVar[Literal["local_image"]] = "local_image"
    path: str
    detail: str | None = None


class SkillInput(Value):
    """A skill that the user has chosen. ``path`` is the path of its ``SKILL.md``."""

    type: ClassVar[Literal["skill"]] = "skill"
    name: str
    path: str


class MentionInput(Value):
    """Something that the user mentions, with its address, such as ``app://ID`` or ``plugin://NAME``."""

    type: ClassVar[Literal["mention"]] = "mention"
    name: str
    path: str


class UnknownInput(Value):
    """An input of an unknown kind. It is kept, and the turn ignores it with a warning."""

    type: ClassVar[str] = ""
    raw: Mapping[str, Any]


UserInputItem: TypeAlias = TextInput | ImageInput | LocalImageInput | SkillInput | MentionInput | UnknownInput


class ThreadSettingsOverrides(Value, kw_only=True):
    """Changes to a thread's settings from the next turn on. ``None`` leaves a setting unchanged.

    Attributes:
        sandbox_policy, permission_profile, permissions: Three forms of the permissions; ``permissions`` is the name of a profile.
            At most one can be given.
        active_permission_profile: The name of ``permission_profile``, as ``{"id": ...}``. It must be the profile of this name.
            Alone it means the same as ``permissions``.
        approvals_reviewer: The reviewer of approvals: ``user``, or ``auto_review`` for a model.
        model_provider: The id of a provider, built in or a table of the configuration. Codex has no such field.
        effort, summary, service_tier: An empty value selects the default of the model and its provider. On the wire, null does
            the same for ``effort`` and ``service_tier``; a client omits a field to leave it unchanged.
        workspace_roots: Absolute folders that belong to the workspace besides ``cwd``. They replace the previous ones.
        profile_workspace_roots: The roots that come with the permission profile. They are added to ``workspace_roots``; without
            ``workspace_roots``, they replace the previous roots.
        windows_sandbox_level: Accepted; this machine is not Windows.
        collaboration_mode: The mode of the next turns. Its model and effort have precedence over those here.
        personality: ``none``, ``friendly`` or ``pragmatic``. Recorded, but has no effect, as in Codex since 0.169.
        environments: The places in which the thread works. They have precedence over ``cwd``. Without them, ``cwd`` selects this
            machine.
    """

    cwd: str | None = None
    approval_policy: ApprovalPolicy | GranularApproval | None = None
    sandbox_policy: SandboxPolicy | None = None
    permission_profile: PermissionProfile | None = None
    permissions: str | None = None
    active_permission_profile: Mapping[str, str | None] | None = None
    approvals_reviewer: str | None = None
    workspace_roots: tuple[str, ...] | None = None
    profile_workspace_roots: tuple[str, ...] | None = None
    windows_sandbox_level: str | None = None
    model: str | None = None
    model_provider: str | None = None
    effort: str | None = None
    summary: str | None = None
    service_tier: str | None = None
    collaboration_mode: CollaborationMode | None = None
    personality: str | None = None
    environments: EnvironmentSelections | None = None


class Interrupt(Op):
    """End the running turn now. Background terminals keep running."""

    type: ClassVar[Literal["interrupt"]] = "interrupt"


class CleanBackgroundTerminals(Op):
    """Kill every command session of the thread."""

    type: ClassVar[Literal["clean_background_terminals"]] = "clean_background_terminals"


class AdditionalContext(Value):
    """Context that a client provides for the model, such as the file that is open in an editor.

    Attributes:
        kind: ``application`` if the text is the client's own; the model gets it as a developer message. ``untrusted`` for text
            from elsewhere, such as a web page; the model gets it as a user message that is marked as external.
    """

    value: str
    kind: str


class UserInputOp(Op):
    """Input for the running turn, or the start of a new one (wire: ``user_input``).

    Attributes:
        responsesapi_client_metadata: Given to the model's server with each request of the turn that the input starts
            (``x-codex-turn-metadata``). It cannot replace existing metadata.
        additional_context: By name. An entry is recorded before the input if it differs from the last recorded entry of this
            name. At most 1,000 tokens of each entry are kept.
        client_user_message_id: The client's own id of the message. It comes back in the event ``user_message``.
        environments: The older place of ``thread_settings.environments``.
    """

    type: ClassVar[Literal["user_input"]] = "user_input"
    items: tuple[UserInputItem, ...]
    final_output_json_schema: Mapping[str, Any] | None = None
    thread_settings: ThreadSettingsOverrides = ThreadSettingsOverrides()
    responsesapi_client_metadata: Mapping[str, str] | None = None
    additional_context: Mapping[str, AdditionalContext] = field(factory=dict)
    client_user_message_id: str | None = None
    environments: EnvironmentSelections | None = None


class ThreadSettings(Op):
    """Change settings without starting a turn."""

    type: ClassVar[Literal["thread_settings"]] = "thread_settings"
    thread_settings: ThreadSettingsOverrides


class ExecApproval(Op):
    """The answer to an ``exec_approval_request``; ``id`` is the request's ``approval_id`` or ``call_id``."""

    type: ClassVar[Literal["exec_approval"]] = "exec_approval"
    id: str
    decision: ReviewDecision
    turn_id: str | None = None


class PatchApproval(Op):
    """The answer to an ``apply_patch_approval_request``."""

    type: ClassVar[Literal["patch_approval"]] = "patch_approval"
    id: str
    decision: ReviewDecision


class PermissionsResponse(Value, kw_only=True):
    """The permissions granted in answer to a request.

    Attributes:
        permissions: As in the request, or a part of it. Permissions that were not requested are ignored. Empty means that none
            are granted.
        scope: ``turn`` or ``session``.
    """

    permissions: Mapping[str, Any]
    scope: str = "turn"


class RequestPermissionsResponse(Op):
    """The answer to a ``request_permissions`` event; ``id`` is its ``call_id``."""

    type: ClassVar[Literal["request_permissions_response"]] = "request_permissions_response"
    id: str
    response: PermissionsResponse


class ReloadUserConfig(Op):
    """Read the user's ``config.toml`` again. The next turn uses it. A file with a mistake is refused, and changes nothing."""

    type: ClassVar[Literal["reload_user_config"]] = "reload_user_config"


class Shutdown(Op):
    """Stop all work, save the thread, and answer with ``shutdown_complete``."""

    type: ClassVar[Literal["shutdown"]] = "shutdown"


KernelOp: TypeAlias = (
    Interrupt
    | CleanBackgroundTerminals
    | UserInputOp
    | ThreadSettings
    | ReloadUserConfig
    | ExecApproval
    | PatchApproval
    | RequestPermissionsResponse
    | Shutdown
)
