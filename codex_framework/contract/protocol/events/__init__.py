"""The events of a thread for its clients (wire: ``EventMsg``, tag ``type``), grouped by owner.

``turn``: the life of a turn, plan, tokens, errors. ``thread``: configuration, warnings, shutdown. ``message``: messages,
    reasoning.
``command``: commands, patches, approvals. ``event``: the base class, the envelope, and events without their own class.
:data:`KernelEvent` is the union of the kernel's own; the set of events is open, as plugins add theirs.
"""

# ruff: noqa: F403, F405  # each module lists its names in __all__
from __future__ import annotations

from typing import TypeAlias

from codex_framework.contract.protocol.events import command, event, message, requests, thread, tool, turn
from codex_framework.contract.protocol.events.command import *
from codex_framework.contract.protocol.events.event import *
from codex_framework.contract.protocol.events.message import *
from codex_framework.contract.protocol.events.requests import *
from codex_framework.contract.protocol.events.thread import *
from codex_framework.contract.protocol.events.tool import *
from codex_framework.contract.protocol.events.turn import *

__all__ = ["CommandEvent", "KernelEvent", "MessageEvent", "RequestEvent", "ThreadEvent", "TurnEvent"]
__all__ += command.__all__
__all__ += event.__all__
__all__ += message.__all__
__all__ += requests.__all__
__all__ += thread.__all__
__all__ += tool.__all__
__all__ += turn.__all__


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
