"""The names of ``codex_framework.testing`` are pinned."""

from __future__ import annotations

import subprocess
import sys

from codex_framework import testing

NAMES = """
CHAT MESSAGES RESPONSES Wire ModelServer
ConfinedRun ContractViolation Fault ItemsPrompt KernelFactory LeftBehind LoneTurn Offer Playbook PluginCheck
RecordedRequest Reply ResponsesServer Script ScriptedKernel ScriptedModel ScriptedThread ThreadFactory TurnRun
access_of answer ask call call_context check_agent check_change_recorder
check_command_policy check_compactor check_component check_constraint
check_context_source check_environment check_interceptor check_launcher
check_model_catalogue check_network_proxy check_notifier check_op_handler check_plugin
check_provider
check_reviewer check_sandbox check_task check_telemetry check_thread_store check_tool custom_call fail fault
local_shell model_request play_reply read_script reasoning reply run_confined say turn_facts
""".split()  # noqa: SIM905


def test_the_names_are_these_and_each_can_be_imported():
    assert sorted(testing.__all__) == sorted(NAMES)
    assert [name for name in NAMES if not hasattr(testing, name)] == []
    assert not hasattr(testing, "no_such_name")


def test_importing_the_package_imports_nothing_else_of_it():
    code = (
        "import codex_framework.testing, sys; print(sorted(m for m in sys.modules if m.startswith(('codex_', 'attr'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['codex_framework', 'codex_framework.testing']"
