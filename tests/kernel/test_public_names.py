"""The public names are pinned: taking one away, or adding one by accident, shows here."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import codex_framework

NAMES = """
AccessMode NetworkGate NetworkMode NetworkProxy NetworkRules NetworkTarget PathRule Protection ProxyPorts ReviewFacts
ApprovalPolicy ApprovalReviewer Argument Cassette ChildProcess CodexError CommandFacts CommandFailed CommandPolicy
CommandRequest CommandResult CommandVerdict Completed ConfigError Confinement ContextFacts ContextSource Decision
Event EventMsg FatalToolError Fault FileAccess Fragment FreeformFormat FreeformSpec FunctionCall FunctionSpec
InputImage InputText Interceptor ItemAdded ItemDone Kernel Launch Measurement Message ModelClient ModelError
ModelEvent ModelInfo ModelProvider ModelRequest NativeSpec Notification Notifier Observer Op OutputText PluginError
ProviderInfo ReasoningDelta Reply ResponseItem ReviewDecision Sandbox SandboxError SandboxPolicy SandboxReport Script
StoredThread Telemetry TextDelta Thread ThreadError ThreadMeta ThreadRecorder ThreadStore Tool ToolCall ToolContext
ToolError ToolOutput ToolRefused ToolSpec TurnFacts TurnResult Unconfined Verdict WritableRoot __version__ freeform_tool hookimpl
parse_arguments play_reply read_script run shell_argv tool user_shell
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
        "import sys; from codex_framework.registry import load_registry; registry = load_registry({});"
        "print(sorted({'httpx', 'cattrs', 'tomlkit', 'click', 'importlib.metadata', 'tree_sitter', 'dataclasses',"
        " 'email'} & set(sys.modules)), any(report.name == 'shell' for report in registry.reports))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"
