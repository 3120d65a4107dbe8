"""A coding-agent kernel whose every capability is a plugin.

Everything that a plugin author or an embedding program needs is importable from here. Names are loaded at first use, so
``import codex_framework`` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codex_framework.arguments import Argument, parse_arguments
    from codex_framework.cassette import Cassette
    from codex_framework.errors import (
        CodexError,
        CommandFailed,
        ConfigError,
        FatalToolError,
        ModelError,
        PluginError,
        SandboxError,
        ThreadError,
        ToolError,
        ToolRefused,
    )
    from codex_framework.function_tool import freeform_tool, tool
    from codex_framework.hookspecs import hookimpl
    from codex_framework.kernel import Kernel, run
    from codex_framework.process.spawn import Unconfined
    from codex_framework.protocol.events import Event, EventMsg
    from codex_framework.protocol.items import (
        FunctionCall,
        InputImage,
        InputText,
        Message,
        OutputText,
        ResponseItem,
    )
    from codex_framework.protocol.ops import Op
    from codex_framework.protocol.permissions import AccessMode
    from codex_framework.protocol.policies import (
        ApprovalPolicy,
        Decision,
        ReviewDecision,
        SandboxPolicy,
    )
    from codex_framework.replies import Fault, Reply, Script, play_reply
    from codex_framework.roles.context import ContextFacts, ContextSource, Fragment
    from codex_framework.roles.deciders import (
        ApprovalReviewer,
        CommandFacts,
        CommandPolicy,
        CommandVerdict,
        Interceptor,
        ReviewFacts,
        Verdict,
    )
    from codex_framework.roles.networks import NetworkGate, NetworkProxy, NetworkRules, NetworkTarget, ProxyPorts
    from codex_framework.roles.observers import Measurement, Notification, Notifier, Observer, Telemetry
    from codex_framework.roles.providers import (
        Completed,
        ItemAdded,
        ItemDone,
        ModelClient,
        ModelEvent,
        ModelInfo,
        ModelProvider,
        ModelRequest,
        ProviderInfo,
        ReasoningDelta,
        TextDelta,
    )
    from codex_framework.roles.sandboxes import (
        ChildProcess,
        Confinement,
        FileAccess,
        Launch,
        NetworkMode,
        PathRule,
        Protection,
        Sandbox,
        SandboxReport,
        WritableRoot,
    )
    from codex_framework.roles.stores import StoredThread, ThreadMeta, ThreadRecorder, ThreadStore
    from codex_framework.roles.tools import (
        CommandRequest,
        CommandResult,
        FreeformFormat,
        FreeformSpec,
        FunctionSpec,
        NativeSpec,
        Tool,
        ToolCall,
        ToolContext,
        ToolOutput,
        ToolSpec,
        TurnFacts,
    )
    from codex_framework.scripts import read_script
    from codex_framework.shells import shell_argv, user_shell
    from codex_framework.thread import Thread, TurnResult

_HOMES = {
    "codex_framework.arguments": "Argument parse_arguments",
    "codex_framework.cassette": "Cassette",
    "codex_framework.errors": (
        "CodexError CommandFailed ConfigError FatalToolError ModelError PluginError SandboxError ThreadError ToolError"
        " ToolRefused"
    ),
    "codex_framework.hookspecs": "hookimpl",
    "codex_framework.kernel": "Kernel run",
    "codex_framework.process.spawn": "Unconfined",
    "codex_framework.protocol.events": "Event EventMsg",
    "codex_framework.protocol.items": "FunctionCall InputImage InputText Message OutputText ResponseItem",
    "codex_framework.protocol.ops": "Op",
    "codex_framework.protocol.permissions": "AccessMode",
    "codex_framework.protocol.policies": "ApprovalPolicy Decision ReviewDecision SandboxPolicy",
    "codex_framework.replies": "Fault Reply Script play_reply",
    "codex_framework.roles.context": "ContextFacts ContextSource Fragment",
    "codex_framework.roles.deciders": (
        "ApprovalReviewer CommandFacts CommandPolicy CommandVerdict Interceptor ReviewFacts Verdict"
    ),
    "codex_framework.roles.networks": "NetworkGate NetworkProxy NetworkRules NetworkTarget ProxyPorts",
    "codex_framework.roles.observers": "Measurement Notification Notifier Observer Telemetry",
    "codex_framework.roles.providers": (
        "Completed ItemAdded ItemDone ModelClient ModelEvent ModelInfo ModelProvider ModelRequest ProviderInfo"
        " ReasoningDelta TextDelta"
    ),
    "codex_framework.roles.sandboxes": (
        "ChildProcess Confinement FileAccess Launch NetworkMode PathRule Protection Sandbox SandboxReport WritableRoot"
    ),
    "codex_framework.roles.stores": "StoredThread ThreadMeta ThreadRecorder ThreadStore",
    "codex_framework.roles.tools": (
        "CommandRequest CommandResult FreeformFormat FreeformSpec FunctionSpec NativeSpec Tool ToolCall ToolContext"
        " ToolOutput ToolSpec TurnFacts"
    ),
    "codex_framework.shells": "shell_argv user_shell",
    "codex_framework.scripts": "read_script",
    "codex_framework.thread": "Thread TurnResult",
    "codex_framework.function_tool": "freeform_tool tool",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = [
    "AccessMode",
    "ApprovalPolicy",
    "ApprovalReviewer",
    "Argument",
    "Cassette",
    "ChildProcess",
    "CodexError",
    "CommandFacts",
    "CommandFailed",
    "CommandPolicy",
    "CommandRequest",
    "CommandResult",
    "CommandVerdict",
    "Completed",
    "ConfigError",
    "Confinement",
    "ContextFacts",
    "ContextSource",
    "Decision",
    "Event",
    "EventMsg",
    "FatalToolError",
    "Fault",
    "FileAccess",
    "Fragment",
    "FreeformFormat",
    "FreeformSpec",
    "FunctionCall",
    "FunctionSpec",
    "InputImage",
    "InputText",
    "Interceptor",
    "ItemAdded",
    "ItemDone",
    "Kernel",
    "Launch",
    "Measurement",
    "Message",
    "ModelClient",
    "ModelError",
    "ModelEvent",
    "ModelInfo",
    "ModelProvider",
    "ModelRequest",
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
    "OutputText",
    "PathRule",
    "PluginError",
    "Protection",
    "ProviderInfo",
    "ProxyPorts",
    "ReasoningDelta",
    "Reply",
    "ResponseItem",
    "ReviewDecision",
    "ReviewFacts",
    "Sandbox",
    "SandboxError",
    "SandboxPolicy",
    "SandboxReport",
    "Script",
    "StoredThread",
    "Telemetry",
    "TextDelta",
    "Thread",
    "ThreadError",
    "ThreadMeta",
    "ThreadRecorder",
    "ThreadStore",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "ToolRefused",
    "ToolSpec",
    "TurnFacts",
    "TurnResult",
    "Unconfined",
    "Verdict",
    "WritableRoot",
    "__version__",
    "freeform_tool",
    "hookimpl",
    "parse_arguments",
    "play_reply",
    "read_script",
    "run",
    "shell_argv",
    "tool",
    "user_shell",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'codex_framework' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
