"""The public names are pinned: taking one away, or adding one by accident, shows here."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import codex_framework

NAMES = """
AnsweredBy LeftOut ModelNotice ModelWarning Prompt RateLimits ReasoningPartAdded ToolInputDelta FunctionCallOutput Reasoning TokenUsage
AccessMode Agent Approval ApprovalPolicy ApprovalRequest ApprovalReviewer Argument CallView ChildProcess ClientWrapper
Closed
CodexError CommandFailed CommandOption CommandPolicy CommandRequest CommandResult CommandVerdict Compaction Compactor Completed
Component ConfigError ConfigLayer Confinement Constraint ContextSource ContextStatus Decision DeferredTool Environment
EnvironmentEntry EnvironmentFiles EnvironmentInfo EnvironmentSource Event EventMsg
ExecCommand ExecOption ExecRequest ExecRun ExecThread FatalToolError
FileAccess
Fragment FreeformFormat FreeformSpec FunctionCall FunctionSpec InputImage InputRefused InputText Interceptor ItemAdded
ItemDone Kernel KernelContext Launch LazyCommand Limits Measurement Measurements Message MessageView
ModelCatalogue ModelClient ModelError
ModelEvent ModelInfo
ModelPrices ModelProvider ModelRequest NativeSpec NetworkGate NetworkMode NetworkProxy NetworkRules NetworkTarget Notification
Notifier Observer Op OpHandler Outcome OutputText OutputView PLUGIN_API PathRule Plugin PluginContext PluginError Protection
ProviderInfo
ProxyPorts ReasoningDelta Request RequestResolvedEvent ResponseItem ReviewDecision RolledBack RunError RunResult
SampleResult Sandbox SandboxError SandboxPolicy SandboxReport ServiceError ServiceKey Settings SettingsOverrides Span Status StopTurn
StoredThread Task TaskContext Telemetry TextDelta Thread ThreadClient ThreadComponent ThreadContext ThreadError
ThreadMeta ThreadRecorder ThreadStore Tool ToolApprovalRequestEvent ToolCall ToolContext ToolError ToolNamespace ToolOutput
ToolRefused ToolSpec Trace TurnContext TurnEnded TurnFacts Unconfined Usage UserConfig UserInput Value Verdict WritableRoot
__version__ arguments_schema freeform_tool handles hookimpl parse_arguments run run_async shell_argv tool user_shell
""".split()  # noqa: SIM905


def test_the_public_names_are_these_and_each_can_be_imported():
    assert sorted(codex_framework.__all__) == sorted(NAMES)
    assert [name for name in NAMES if not hasattr(codex_framework, name)] == []
    assert dir(codex_framework) == sorted(NAMES)


def test_no_module_hides_a_public_name():
    """Python sets an attribute of the package for each submodule that is imported; it must not be one of the names."""
    modules = {module.name for module in pkgutil.iter_modules(codex_framework.__path__)}
    assert modules & set(codex_framework.__all__) == set()


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(codex_framework, "no_such_name")


def test_importing_the_package_imports_nothing_else_of_it():
    code = "import codex_framework, sys; print([m for m in sys.modules if m.startswith(('codex_', 'attr', 'pluggy', 'httpx'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['codex_framework']"


def test_loading_plugins_imports_nothing_heavy():
    code = (
        "import sys; from codex_framework.loader.registry import load_registry; registry = load_registry({});"
        "print(sorted({'httpx', 'cattrs', 'tomlkit', 'click', 'importlib.metadata', 'importlib_metadata',"
        " 'packaging', 'tree_sitter', 'dataclasses',"
        " 'email'} & set(sys.modules)), any(report.name == 'shell' for report in registry.reports))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"
