"""A coding-agent kernel whose every capability is a plugin.

Everything that a plugin author or an embedding program needs is importable from here. Names are loaded at first use, so
``import codex_framework`` itself costs almost nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as checkers know it; ``typing`` would be most of the time of this import
if TYPE_CHECKING:
    from typing import Any

    from codex_framework.commands.process.spawn import Unconfined
    from codex_framework.commands.shells import shell_argv, user_shell
    from codex_framework.config.user_config import UserConfig
    from codex_framework.contract.errors import (
        CodexError,
        CommandFailed,
        ConfigError,
        FatalToolError,
        InputRefused,
        ModelError,
        PluginError,
        RunError,
        SandboxError,
        ServiceError,
        StopTurn,
        ThreadError,
        ToolError,
        ToolRefused,
        TurnEnded,
    )
    from codex_framework.contract.hookspecs import hookimpl
    from codex_framework.contract.permissions.file_access import (
        FileAccess,
        NetworkMode,
        PathRule,
        Protection,
        WritableRoot,
    )
    from codex_framework.contract.permissions.network_rules import NetworkRules
    from codex_framework.contract.protocol.events import (
        Approval,
        ApprovalRequest,
        Closed,
        Event,
        EventMsg,
        Request,
        RequestResolvedEvent,
        TokenUsage,
        ToolApprovalRequestEvent,
    )
    from codex_framework.contract.protocol.items import (
        FunctionCall,
        FunctionCallOutput,
        InputImage,
        InputText,
        Message,
        OutputText,
        Reasoning,
        ResponseItem,
    )
    from codex_framework.contract.protocol.ops import Op
    from codex_framework.contract.protocol.permissions import AccessMode
    from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, ReviewDecision, SandboxPolicy
    from codex_framework.contract.roles.agents import RunResult
    from codex_framework.contract.roles.calls import CallView, OutputView, ToolCall, ToolOutput
    from codex_framework.contract.roles.client_wrapper import ClientWrapper
    from codex_framework.contract.roles.commands import CommandRequest, CommandResult
    from codex_framework.contract.roles.compactors import Compactor, ContextStatus
    from codex_framework.contract.roles.components import Component, ThreadComponent
    from codex_framework.contract.roles.constraints import Constraint
    from codex_framework.contract.roles.context import ContextSource, Fragment
    from codex_framework.contract.roles.environments import (
        Environment,
        EnvironmentEntry,
        EnvironmentFiles,
        EnvironmentInfo,
        EnvironmentSource,
    )
    from codex_framework.contract.roles.exec_commands import CommandOption, ExecCommand, ExecRequest
    from codex_framework.contract.roles.exec_options import ExecOption, ExecRun, ExecThread
    from codex_framework.contract.roles.facts import TurnFacts
    from codex_framework.contract.roles.interceptors import Interceptor, MessageView, UserInput
    from codex_framework.contract.roles.models import (
        AnsweredBy,
        Completed,
        ItemAdded,
        ItemDone,
        LeftOut,
        ModelCatalogue,
        ModelClient,
        ModelEvent,
        ModelInfo,
        ModelNotice,
        ModelPrices,
        ModelProvider,
        ModelRequest,
        ModelWarning,
        Prompt,
        ProviderInfo,
        RateLimits,
        ReasoningDelta,
        ReasoningPartAdded,
        TextDelta,
        ToolInputDelta,
    )
    from codex_framework.contract.roles.networks import NetworkGate, NetworkProxy, NetworkTarget, ProxyPorts
    from codex_framework.contract.roles.observers import (
        Measurement,
        Measurements,
        Notification,
        Notifier,
        Observer,
        Telemetry,
    )
    from codex_framework.contract.roles.ops import OpHandler, handles
    from codex_framework.contract.roles.outcomes import (
        Compaction,
        Limits,
        Outcome,
        RolledBack,
        SampleResult,
        Status,
        Usage,
    )
    from codex_framework.contract.roles.plugins import ConfigLayer, Plugin, PluginContext
    from codex_framework.contract.roles.policies import CommandPolicy, CommandVerdict, Verdict
    from codex_framework.contract.roles.reviewers import ApprovalReviewer
    from codex_framework.contract.roles.sandboxes import ChildProcess, Confinement, Launch, Sandbox, SandboxReport
    from codex_framework.contract.roles.scopes import ServiceKey, Span, Trace
    from codex_framework.contract.roles.setting_overrides import SettingsOverrides
    from codex_framework.contract.roles.settings import Settings
    from codex_framework.contract.roles.stores import StoredThread, ThreadMeta, ThreadRecorder, ThreadStore
    from codex_framework.contract.roles.tasks import Task, TaskContext
    from codex_framework.contract.roles.threads import KernelContext, ThreadClient, ThreadContext, TurnContext
    from codex_framework.contract.roles.tool_specs import (
        DeferredTool,
        FreeformFormat,
        FreeformSpec,
        FunctionSpec,
        NativeSpec,
        ToolNamespace,
        ToolSpec,
    )
    from codex_framework.contract.roles.tools import Tool, ToolContext
    from codex_framework.contract.value import Value
    from codex_framework.contract.version import PLUGIN_API, __version__
    from codex_framework.kernel import Kernel
    from codex_framework.one_turn import run, run_async
    from codex_framework.threads.thread import Thread
    from codex_framework.toolkit.agents import Agent
    from codex_framework.toolkit.arguments import Argument, arguments_schema, parse_arguments
    from codex_framework.toolkit.lazy_command import LazyCommand
    from codex_framework.toolkit.tool import freeform_tool, tool

_HOMES = {
    "codex_framework.commands.process.spawn": "Unconfined",
    "codex_framework.commands.shells": "shell_argv user_shell",
    "codex_framework.config.user_config": "UserConfig",
    "codex_framework.contract.errors": (
        "CodexError CommandFailed ConfigError FatalToolError InputRefused ModelError PluginError"
        " RunError SandboxError ServiceError StopTurn ThreadError ToolError ToolRefused TurnEnded"
    ),
    "codex_framework.contract.hookspecs": "hookimpl",
    "codex_framework.contract.permissions.file_access": "FileAccess NetworkMode PathRule Protection WritableRoot",
    "codex_framework.contract.permissions.network_rules": "NetworkRules",
    "codex_framework.contract.protocol.events": (
        "Approval ApprovalRequest Closed Event EventMsg Request RequestResolvedEvent TokenUsage ToolApprovalRequestEvent"
    ),
    "codex_framework.contract.protocol.items": (
        "FunctionCall FunctionCallOutput InputImage InputText Message OutputText Reasoning ResponseItem"
    ),
    "codex_framework.contract.protocol.ops": "Op",
    "codex_framework.contract.protocol.permissions": "AccessMode",
    "codex_framework.contract.protocol.policies": "ApprovalPolicy Decision ReviewDecision SandboxPolicy",
    "codex_framework.contract.roles.agents": "RunResult",
    "codex_framework.contract.roles.calls": "CallView OutputView ToolCall ToolOutput",
    "codex_framework.contract.roles.client_wrapper": "ClientWrapper",
    "codex_framework.contract.roles.commands": "CommandRequest CommandResult",
    "codex_framework.contract.roles.compactors": "Compactor ContextStatus",
    "codex_framework.contract.roles.components": "Component ThreadComponent",
    "codex_framework.contract.roles.constraints": "Constraint",
    "codex_framework.contract.roles.context": "ContextSource Fragment",
    "codex_framework.contract.roles.environments": "Environment EnvironmentEntry EnvironmentFiles EnvironmentInfo EnvironmentSource",
    "codex_framework.contract.roles.exec_commands": "CommandOption ExecCommand ExecRequest",
    "codex_framework.contract.roles.exec_options": "ExecOption ExecRun ExecThread",
    "codex_framework.contract.roles.facts": "TurnFacts",
    "codex_framework.contract.roles.interceptors": "Interceptor MessageView UserInput",
    "codex_framework.contract.roles.models": (
        "AnsweredBy Completed ItemAdded ItemDone LeftOut ModelCatalogue ModelClient ModelEvent ModelInfo ModelNotice"
        " ModelPrices ModelProvider ModelRequest ModelWarning Prompt ProviderInfo RateLimits ReasoningDelta"
        " ReasoningPartAdded TextDelta ToolInputDelta"
    ),
    "codex_framework.contract.roles.networks": "NetworkGate NetworkProxy NetworkTarget ProxyPorts",
    "codex_framework.contract.roles.observers": "Measurement Measurements Notification Notifier Observer Telemetry",
    "codex_framework.contract.roles.ops": "OpHandler handles",
    "codex_framework.contract.roles.outcomes": "Compaction Limits Outcome RolledBack SampleResult Status Usage",
    "codex_framework.contract.roles.plugins": "ConfigLayer Plugin PluginContext",
    "codex_framework.contract.roles.policies": "CommandPolicy CommandVerdict Verdict",
    "codex_framework.contract.roles.reviewers": "ApprovalReviewer",
    "codex_framework.contract.roles.sandboxes": "ChildProcess Confinement Launch Sandbox SandboxReport",
    "codex_framework.contract.roles.stores": "StoredThread ThreadMeta ThreadRecorder ThreadStore",
    "codex_framework.contract.roles.tasks": "Task TaskContext",
    "codex_framework.contract.roles.scopes": "ServiceKey Span Trace",
    "codex_framework.contract.roles.threads": "KernelContext ThreadClient ThreadContext TurnContext",
    "codex_framework.contract.roles.tool_specs": (
        "DeferredTool FreeformFormat FreeformSpec FunctionSpec NativeSpec ToolNamespace ToolSpec"
    ),
    "codex_framework.contract.roles.tools": "Tool ToolContext",
    "codex_framework.contract.roles.setting_overrides": "SettingsOverrides",
    "codex_framework.contract.roles.settings": "Settings",
    "codex_framework.contract.value": "Value",
    "codex_framework.contract.version": "PLUGIN_API __version__",
    "codex_framework.kernel": "Kernel",
    "codex_framework.one_turn": "run run_async",
    "codex_framework.threads.thread": "Thread",
    "codex_framework.toolkit.agents": "Agent",
    "codex_framework.toolkit.arguments": "Argument arguments_schema parse_arguments",
    "codex_framework.toolkit.lazy_command": "LazyCommand",
    "codex_framework.toolkit.tool": "freeform_tool tool",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "PLUGIN_API",
    "AccessMode",
    "Agent",
    "AnsweredBy",
    "Approval",
    "ApprovalPolicy",
    "ApprovalRequest",
    "ApprovalReviewer",
    "Argument",
    "CallView",
    "ChildProcess",
    "ClientWrapper",
    "Closed",
    "CodexError",
    "CommandFailed",
    "CommandOption",
    "CommandPolicy",
    "CommandRequest",
    "CommandResult",
    "CommandVerdict",
    "Compaction",
    "Compactor",
    "Completed",
    "Component",
    "ConfigError",
    "ConfigLayer",
    "Confinement",
    "Constraint",
    "ContextSource",
    "ContextStatus",
    "Decision",
    "DeferredTool",
    "Environment",
    "EnvironmentEntry",
    "EnvironmentFiles",
    "EnvironmentInfo",
    "EnvironmentSource",
    "Event",
    "EventMsg",
    "ExecCommand",
    "ExecOption",
    "ExecRequest",
    "ExecRun",
    "ExecThread",
    "FatalToolError",
    "FileAccess",
    "Fragment",
    "FreeformFormat",
    "FreeformSpec",
    "FunctionCall",
    "FunctionCallOutput",
    "FunctionSpec",
    "InputImage",
    "InputRefused",
    "InputText",
    "Interceptor",
    "ItemAdded",
    "ItemDone",
    "Kernel",
    "KernelContext",
    "Launch",
    "LazyCommand",
    "LeftOut",
    "Limits",
    "Measurement",
    "Measurements",
    "Message",
    "MessageView",
    "ModelCatalogue",
    "ModelClient",
    "ModelError",
    "ModelEvent",
    "ModelInfo",
    "ModelNotice",
    "ModelPrices",
    "ModelProvider",
    "ModelRequest",
    "ModelWarning",
    "NativeSpec",
    "NetworkGate",
    "NetworkMode",
    "NetworkProxy",
    "NetworkRules",
    "NetworkTarget",
    "Notification",
    "Notifier",
    "Observer",
    "Op",
    "OpHandler",
    "Outcome",
    "OutputText",
    "OutputView",
    "PathRule",
    "Plugin",
    "PluginContext",
    "PluginError",
    "Prompt",
    "Protection",
    "ProviderInfo",
    "ProxyPorts",
    "RateLimits",
    "Reasoning",
    "ReasoningDelta",
    "ReasoningPartAdded",
    "Request",
    "RequestResolvedEvent",
    "ResponseItem",
    "ReviewDecision",
    "RolledBack",
    "RunError",
    "RunResult",
    "SampleResult",
    "Sandbox",
    "SandboxError",
    "SandboxPolicy",
    "SandboxReport",
    "ServiceError",
    "ServiceKey",
    "Settings",
    "SettingsOverrides",
    "Span",
    "Status",
    "StopTurn",
    "StoredThread",
    "Task",
    "TaskContext",
    "Telemetry",
    "TextDelta",
    "Thread",
    "ThreadClient",
    "ThreadComponent",
    "ThreadContext",
    "ThreadError",
    "ThreadMeta",
    "ThreadRecorder",
    "ThreadStore",
    "TokenUsage",
    "Tool",
    "ToolApprovalRequestEvent",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolInputDelta",
    "ToolNamespace",
    "ToolOutput",
    "ToolRefused",
    "ToolSpec",
    "Trace",
    "TurnContext",
    "TurnEnded",
    "TurnFacts",
    "Unconfined",
    "Usage",
    "UserConfig",
    "UserInput",
    "Value",
    "Verdict",
    "WritableRoot",
    "__version__",
    "arguments_schema",
    "freeform_tool",
    "handles",
    "hookimpl",
    "parse_arguments",
    "run",
    "run_async",
    "shell_argv",
    "tool",
    "user_shell",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'codex_framework' has no attribute {name!r}")
    __import__(home)
    value = getattr(sys.modules[home], name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _OldPaths:
    """Finds moved modules by their old names. It is the last finder, so it is called only for missing modules."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> Any:
        if not name.startswith("codex_framework."):
            return None
        from codex_framework.old_paths import find_moved

        return find_moved(name)


sys.meta_path.append(_OldPaths)
