"""The events of a thread for its clients (wire: ``EventMsg``, tag ``type``), grouped by owner.

``turn``: the life of a turn, plan, tokens, errors. ``thread``: configuration, warnings, shutdown. ``message``: messages, reasoning.
``command``: commands, patches, approvals. ``event``: the base class, the envelope, and events without a class of their own.
:data:`KernelEvent` is the union of the kernel's own; the set of events is open, as plugins add theirs.
"""

from __future__ import annotations

from typing import TypeAlias

from codex_framework.contract.protocol.events.command import (
    AddFile,
    ApplyPatchApprovalRequestEvent,
    DeleteFile,
    ExecApprovalRequestEvent,
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ExecCommandOutputDeltaEvent,
    FileChange,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    PatchApplyUpdatedEvent,
    RequestPermissionsEvent,
    TerminalInteractionEvent,
    UpdateFile,
    ViewImageToolCallEvent,
)
from codex_framework.contract.protocol.events.event import Event, EventMsg, PluginEvent, UnknownEvent
from codex_framework.contract.protocol.events.message import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    AgentReasoningEvent,
    AgentReasoningRawContentEvent,
    AgentReasoningSectionBreakEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    RawResponseItemEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.events.requests import (
    Approval,
    ApprovalRequest,
    Closed,
    Request,
    RequestResolvedEvent,
    ToolApprovalRequestEvent,
)
from codex_framework.contract.protocol.events.thread import (
    BackgroundEvent,
    ContextCompactedEvent,
    DeprecationNoticeEvent,
    HistoryLossEvent,
    ModelFallbackEvent,
    SessionConfiguredEvent,
    ShutdownCompleteEvent,
    ThreadRolledBackEvent,
    ThreadSettingsAppliedEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.events.tool import (
    ImageGenerationBeginEvent,
    ImageGenerationEndEvent,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    ToolCallProgressEvent,
    WebSearchBeginEvent,
    WebSearchEndEvent,
)
from codex_framework.contract.protocol.events.turn import (
    ErrorEvent,
    PlanStep,
    PlanUpdateEvent,
    StreamErrorEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnDiffEvent,
    TurnStartedEvent,
)

__all__ = [
    "AddFile",
    "AgentMessageContentDeltaEvent",
    "AgentMessageEvent",
    "AgentReasoningEvent",
    "AgentReasoningRawContentEvent",
    "AgentReasoningSectionBreakEvent",
    "ApplyPatchApprovalRequestEvent",
    "Approval",
    "ApprovalRequest",
    "BackgroundEvent",
    "Closed",
    "CommandEvent",
    "ContextCompactedEvent",
    "DeleteFile",
    "DeprecationNoticeEvent",
    "ErrorEvent",
    "Event",
    "EventMsg",
    "ExecApprovalRequestEvent",
    "ExecCommandBeginEvent",
    "ExecCommandEndEvent",
    "ExecCommandOutputDeltaEvent",
    "FileChange",
    "HistoryLossEvent",
    "ImageGenerationBeginEvent",
    "ImageGenerationEndEvent",
    "ItemCompletedEvent",
    "ItemStartedEvent",
    "KernelEvent",
    "MessageEvent",
    "ModelFallbackEvent",
    "PatchApplyBeginEvent",
    "PatchApplyEndEvent",
    "PatchApplyUpdatedEvent",
    "PlanStep",
    "PlanUpdateEvent",
    "PluginEvent",
    "RawResponseItemEvent",
    "ReasoningContentDeltaEvent",
    "ReasoningRawContentDeltaEvent",
    "Request",
    "RequestEvent",
    "RequestPermissionsEvent",
    "RequestResolvedEvent",
    "SessionConfiguredEvent",
    "ShutdownCompleteEvent",
    "StreamErrorEvent",
    "TerminalInteractionEvent",
    "ThreadEvent",
    "ThreadRolledBackEvent",
    "ThreadSettingsAppliedEvent",
    "TokenCountEvent",
    "TokenUsage",
    "TokenUsageInfo",
    "ToolApprovalRequestEvent",
    "ToolCallBeginEvent",
    "ToolCallEndEvent",
    "ToolCallProgressEvent",
    "TurnAbortedEvent",
    "TurnCompleteEvent",
    "TurnDiffEvent",
    "TurnEvent",
    "TurnStartedEvent",
    "UnknownEvent",
    "UpdateFile",
    "UserMessageEvent",
    "ViewImageToolCallEvent",
    "WarningEvent",
    "WebSearchBeginEvent",
    "WebSearchEndEvent",
]


TurnEvent: TypeAlias = (
    TurnStartedEvent
    | TurnCompleteEvent
    | TurnAbortedEvent
    | TokenCountEvent
    | TurnDiffEvent
    | PlanUpdateEvent
    | ErrorEvent
    | StreamErrorEvent
)
ThreadEvent: TypeAlias = (
    SessionConfiguredEvent
    | ThreadSettingsAppliedEvent
    | WarningEvent
    | HistoryLossEvent
    | ModelFallbackEvent
    | DeprecationNoticeEvent
    | BackgroundEvent
    | ContextCompactedEvent
    | ThreadRolledBackEvent
    | ShutdownCompleteEvent
)
MessageEvent: TypeAlias = (
    UserMessageEvent
    | AgentMessageEvent
    | AgentReasoningEvent
    | AgentReasoningSectionBreakEvent
    | RawResponseItemEvent
    | ItemStartedEvent
    | ItemCompletedEvent
    | AgentMessageContentDeltaEvent
    | ReasoningContentDeltaEvent
    | ReasoningRawContentDeltaEvent
)
CommandEvent: TypeAlias = (
    ExecCommandBeginEvent
    | ExecCommandOutputDeltaEvent
    | TerminalInteractionEvent
    | ExecCommandEndEvent
    | PatchApplyBeginEvent
    | PatchApplyUpdatedEvent
    | PatchApplyEndEvent
    | ViewImageToolCallEvent
    | ToolCallBeginEvent
    | ToolCallProgressEvent
    | ToolCallEndEvent
)
RequestEvent: TypeAlias = (
    ExecApprovalRequestEvent | ApplyPatchApprovalRequestEvent | RequestPermissionsEvent | ToolApprovalRequestEvent
)
KernelEvent: TypeAlias = (
    TurnEvent
    | ThreadEvent
    | MessageEvent
    | CommandEvent
    | RequestEvent
    | RequestResolvedEvent
    | PluginEvent
    | UnknownEvent
)
