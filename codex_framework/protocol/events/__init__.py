"""What a thread tells its clients (wire: ``EventMsg``, tag ``type``), grouped by owner.

``turn``: the life of a turn, plan, tokens, errors. ``thread``: configuration, warnings, shutdown. ``message``: what is said.
``command``: commands, patches, approvals. A variant that is not known here is kept as :class:`UnknownEvent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from codex_framework.protocol.events.command import (
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
from codex_framework.protocol.events.message import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    AgentReasoningEvent,
    AgentReasoningSectionBreakEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    RawResponseItemEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
    UserMessageEvent,
)
from codex_framework.protocol.events.thread import (
    BackgroundEvent,
    DeprecationNoticeEvent,
    SessionConfiguredEvent,
    ShutdownCompleteEvent,
    ThreadSettingsAppliedEvent,
    WarningEvent,
)
from codex_framework.protocol.events.turn import (
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
from codex_framework.value import Value

__all__ = [
    "DELTA_EVENTS",
    "AddFile",
    "AgentMessageContentDeltaEvent",
    "AgentMessageEvent",
    "AgentReasoningEvent",
    "AgentReasoningSectionBreakEvent",
    "ApplyPatchApprovalRequestEvent",
    "ApprovalEvent",
    "BackgroundEvent",
    "CommandEvent",
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
    "ItemCompletedEvent",
    "ItemStartedEvent",
    "MessageEvent",
    "PatchApplyBeginEvent",
    "PatchApplyEndEvent",
    "PatchApplyUpdatedEvent",
    "PlanStep",
    "PlanUpdateEvent",
    "PluginEvent",
    "RawResponseItemEvent",
    "ReasoningContentDeltaEvent",
    "ReasoningRawContentDeltaEvent",
    "RequestPermissionsEvent",
    "SessionConfiguredEvent",
    "ShutdownCompleteEvent",
    "StreamErrorEvent",
    "TerminalInteractionEvent",
    "ThreadEvent",
    "ThreadSettingsAppliedEvent",
    "TokenCountEvent",
    "TokenUsage",
    "TokenUsageInfo",
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
]


class PluginEvent(Value):
    """An event of a plugin's own. ``kind`` is ``<plugin>.<name>``; clients that do not know it pass it on."""

    type: ClassVar[str] = "plugin_event"
    kind: str
    payload: Mapping[str, Any]


class UnknownEvent(Value):
    """An event of a kind not known here, kept as it came."""

    type: ClassVar[str] = ""
    raw: Mapping[str, Any]


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
    | DeprecationNoticeEvent
    | BackgroundEvent
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
)
ApprovalEvent: TypeAlias = ExecApprovalRequestEvent | ApplyPatchApprovalRequestEvent | RequestPermissionsEvent
EventMsg: TypeAlias = TurnEvent | ThreadEvent | MessageEvent | CommandEvent | ApprovalEvent | PluginEvent | UnknownEvent


DELTA_EVENTS = (
    AgentMessageContentDeltaEvent,
    ReasoningContentDeltaEvent,
    ReasoningRawContentDeltaEvent,
    ExecCommandOutputDeltaEvent,
    PatchApplyUpdatedEvent,
)
"""The events that come by the thousand and say nothing that a later event does not say again: not recorded, not observed."""


class Event(Value):
    """An event with the id of the submission that caused it (a turn's id is that of the op which started it)."""

    id: str
    msg: EventMsg
