"""Tools for testing plugins, and programs built on the kernel.

- ``check_tool(my_tool)``, ``check_provider``, ``check_sandbox``, ``check_notifier``, ``check_telemetry``,
  ``check_context_source``, ``check_thread_store``, ``check_network_proxy``, ``check_environment``, ``check_launcher``,
  ``check_command_policy``, ``check_reviewer``: check that an object fulfils its role. ``check_plugin`` checks a whole plugin. Each
  takes one line in a test.
- ``plugin``: pytest fixtures, available when the package is installed: ``cassette``, ``codex_home``, ``workspace``, ``run_turn``,
  ``make_kernel``, ``model_server``, ``responses_server``,
  ``scripted_model``.
- ``ScriptedModel`` (a model in process), ``ModelServer`` (a real server on loopback, with faults; ``ResponsesServer`` has one API
  only), and short notations for their replies: ``say("hi") + call("exec_command", cmd="ls")``.
- ``Offer``: a plugin made from objects. ``call_context``: the context of a tool call, without a turn. ``model_request`` and
  ``ask``: a
  request to a provider without a kernel. ``run_confined`` and ``access_of``: a command in a sandbox. ``Playbook``: scripts for the
  turn
  machine.

The names are loaded at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codex_framework.testing.calls import call_context
    from codex_framework.testing.chat_wire import CHAT
    from codex_framework.testing.confined import ConfinedRun, access_of, run_confined
    from codex_framework.testing.conformance.agents import check_agent
    from codex_framework.testing.conformance.compactors import check_compactor
    from codex_framework.testing.conformance.components import check_component
    from codex_framework.testing.conformance.constraints import check_constraint
    from codex_framework.testing.conformance.context_sources import check_context_source
    from codex_framework.testing.conformance.environments import check_environment
    from codex_framework.testing.conformance.findings import ContractViolation
    from codex_framework.testing.conformance.interceptors import check_interceptor
    from codex_framework.testing.conformance.launchers import check_launcher
    from codex_framework.testing.conformance.model_catalogues import check_model_catalogue
    from codex_framework.testing.conformance.network_proxies import check_network_proxy
    from codex_framework.testing.conformance.op_handlers import check_op_handler
    from codex_framework.testing.conformance.plugins import PluginCheck, check_plugin
    from codex_framework.testing.conformance.policies import check_command_policy
    from codex_framework.testing.conformance.providers import check_provider
    from codex_framework.testing.conformance.reviewers import check_reviewer
    from codex_framework.testing.conformance.sandboxes import check_sandbox
    from codex_framework.testing.conformance.tasks import check_task
    from codex_framework.testing.conformance.thread_stores import check_thread_store
    from codex_framework.testing.conformance.tools import check_tool
    from codex_framework.testing.conformance.watchers import check_change_recorder, check_notifier, check_telemetry
    from codex_framework.testing.facts import turn_facts
    from codex_framework.testing.kernels import KernelFactory, ScriptedKernel, TurnRun
    from codex_framework.testing.leftovers import LeftBehind
    from codex_framework.testing.messages_wire import MESSAGES
    from codex_framework.testing.model import ScriptedModel
    from codex_framework.testing.offering import Offer
    from codex_framework.testing.playbook import Playbook
    from codex_framework.testing.replies import call, custom_call, fail, fault, local_shell, reasoning, reply, say
    from codex_framework.testing.requests import ItemsPrompt, ask, model_request
    from codex_framework.testing.script_files import read_script
    from codex_framework.testing.scripted import Fault, Reply, Script, play_reply
    from codex_framework.testing.server import ModelServer, RecordedRequest, ResponsesServer
    from codex_framework.testing.threads import ScriptedThread, ThreadFactory, answer
    from codex_framework.testing.turns import LoneTurn
    from codex_framework.testing.wire import RESPONSES, Wire

_HOMES = {
    "calls": "call_context",
    "chat_wire": "CHAT",
    "confined": "ConfinedRun access_of run_confined",
    "conformance.agents": "check_agent",
    "conformance.compactors": "check_compactor",
    "conformance.components": "check_component",
    "conformance.context_sources": "check_context_source",
    "conformance.environments": "check_environment",
    "conformance.findings": "ContractViolation",
    "conformance.interceptors": "check_interceptor",
    "conformance.launchers": "check_launcher",
    "conformance.model_catalogues": "check_model_catalogue",
    "conformance.network_proxies": "check_network_proxy",
    "conformance.op_handlers": "check_op_handler",
    "conformance.plugins": "PluginCheck check_plugin",
    "conformance.constraints": "check_constraint",
    "conformance.policies": "check_command_policy",
    "conformance.providers": "check_provider",
    "conformance.reviewers": "check_reviewer",
    "conformance.sandboxes": "check_sandbox",
    "conformance.tasks": "check_task",
    "conformance.thread_stores": "check_thread_store",
    "conformance.tools": "check_tool",
    "conformance.watchers": "check_change_recorder check_notifier check_telemetry",
    "facts": "turn_facts",
    "kernels": "KernelFactory ScriptedKernel TurnRun",
    "leftovers": "LeftBehind",
    "messages_wire": "MESSAGES",
    "model": "ScriptedModel",
    "offering": "Offer",
    "playbook": "Playbook",
    "replies": "call custom_call fail fault local_shell reasoning reply say",
    "requests": "ItemsPrompt ask model_request",
    "script_files": "read_script",
    "scripted": "Fault Reply Script play_reply",
    "server": "ModelServer RecordedRequest ResponsesServer",
    "threads": "ScriptedThread ThreadFactory answer",
    "turns": "LoneTurn",
    "wire": "RESPONSES Wire",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "CHAT",
    "MESSAGES",
    "RESPONSES",
    "ConfinedRun",
    "ContractViolation",
    "Fault",
    "ItemsPrompt",
    "KernelFactory",
    "LeftBehind",
    "LoneTurn",
    "ModelServer",
    "Offer",
    "Playbook",
    "PluginCheck",
    "RecordedRequest",
    "Reply",
    "ResponsesServer",
    "Script",
    "ScriptedKernel",
    "ScriptedModel",
    "ScriptedThread",
    "ThreadFactory",
    "TurnRun",
    "Wire",
    "access_of",
    "answer",
    "ask",
    "call",
    "call_context",
    "check_agent",
    "check_change_recorder",
    "check_command_policy",
    "check_compactor",
    "check_component",
    "check_constraint",
    "check_context_source",
    "check_environment",
    "check_interceptor",
    "check_launcher",
    "check_model_catalogue",
    "check_network_proxy",
    "check_notifier",
    "check_op_handler",
    "check_plugin",
    "check_provider",
    "check_reviewer",
    "check_sandbox",
    "check_task",
    "check_telemetry",
    "check_thread_store",
    "check_tool",
    "custom_call",
    "fail",
    "fault",
    "local_shell",
    "model_request",
    "play_reply",
    "read_script",
    "reasoning",
    "reply",
    "run_confined",
    "say",
    "turn_facts",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
