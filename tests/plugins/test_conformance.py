"""Every object that a bundled plugin offers keeps to its role. A new plugin, or a new tool of an old one, comes in by itself."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ProviderInfo
from codex_framework.contract.hookspecs import GROUP, OFFERING
from codex_framework.loader.discovery import source_of
from codex_framework.loader.hook_checks import hook_problems
from codex_framework.loader.registry import load_registry
from codex_framework.loader.role_checks import role_problems
from codex_framework.testing import (
    Offer,
    ResponsesServer,
    call,
    check_agent,
    check_change_recorder,
    check_command_policy,
    check_compactor,
    check_component,
    check_constraint,
    check_context_source,
    check_interceptor,
    check_model_catalogue,
    check_network_proxy,
    check_op_handler,
    check_provider,
    check_sandbox,
    check_task,
    check_thread_store,
    check_tool,
    custom_call,
    reasoning,
    say,
)
from codex_framework.testing.conformance.author_mistakes import member_mistakes
from codex_plugin_compaction.request import Compact, Compacting
from codex_plugin_dynamic_tools.component import DynamicTools
from codex_plugin_goals.component import Goals
from codex_plugin_hooks.ops import ListHooks
from codex_plugin_landlock.sandbox import LandlockSandbox
from codex_plugin_mcp.component import Mcp
from codex_plugin_models.ops import ListModels
from codex_plugin_prompts.request import ListCustomPrompts
from codex_plugin_review import Review, ReviewRequest
from codex_plugin_review.targets import target_of
from codex_plugin_review.task import Reviewing
from codex_plugin_skills.request import ListSkills
from codex_plugin_sub_agents.component import SubAgents
from codex_plugin_undo import Undo
from codex_plugin_undo.component import UndoComponent
from codex_plugin_user_shell.request import RunUserShellCommand
from codex_plugin_user_shell.task import UserShell

BUNDLED = [point for point in importlib.metadata.entry_points(group=GROUP) if point.value.startswith("codex_plugin_")]
REGISTRY = load_registry({}, entry_points=BUNDLED)

PATCH = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n"
WORKING: dict[str, Any] = {
    "apply_patch": PATCH,
    "clock__curr_time": {},
    "clock__sleep": None,  # works only in a turn: tests/plugins/clock
    "exec": None,  # works only in a turn: tests/plugins/code_mode
    "exec_command": {"cmd": "sleep 0.2; echo hi", "yield_time_ms": 250},
    "grep_files": {"pattern": "roses"},
    "image_generation": None,  # run by the server of the model: tests/plugins/openai
    "list_dir": {"dir_path": "WORKSPACE"},
    "local_shell": '{"type": "exec", "command": ["sleep", "0.1"]}',
    "read_file": {"file_path": "WORKSPACE/poem.txt"},
    "request_permissions": None,  # works only where a person can be asked: tests/plugins/request_permissions
    "request_user_input": None,  # likewise: tests/plugins/request_user_input
    "request_user_input_async": None,  # works only in a turn: tests/plugins/request_user_input
    "send_message_to_user_async": None,  # likewise
    "shell": {"command": ["sleep", "0.1"]},
    "shell_command": {"command": "sleep 0.1"},
    "tool_search": None,  # works only in a turn: tests/plugins/tool_search
    "update_plan": {"plan": [{"step": "look", "status": "in_progress"}]},
    "view_image": {"path": "pixel.png"},
    "wait": None,  # works only after exec: tests/plugins/code_mode
    "web_search": None,  # run by the server of the model: tests/plugins/openai
    "write_stdin": None,  # works only after exec_command: tests/plugins/unified_exec cancels it
}
"""Arguments of a call that works, for each bundled tool."""

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


@pytest.fixture
def filled(workspace: Path) -> Path:
    (workspace / "poem.txt").write_text("roses are red\n")
    (workspace / "pixel.png").write_bytes(PIXEL)
    return workspace


def test_there_is_something_to_check():
    assert len(BUNDLED) >= 11
    assert [report.problems for report in REGISTRY.reports if report.problems] == []
    assert REGISTRY.tools.keys() == WORKING.keys(), "give a new tool arguments of a call that works"


@pytest.mark.parametrize("name", REGISTRY.tools)
def test_tool(name, filled):
    arguments = WORKING[name]
    if isinstance(arguments, dict):
        arguments = {
            key: value.replace("WORKSPACE", str(filled)) if isinstance(value, str) else value
            for key, value in arguments.items()
        }
    check_tool(REGISTRY.tools[name].tool, arguments, workspace=filled)


@pytest.mark.parametrize("sandbox", REGISTRY.sandboxes.values(), ids=list(REGISTRY.sandboxes))
def test_sandbox(sandbox):
    check_sandbox(sandbox)


@pytest.mark.slow
def test_sandbox_landlock_without_namespaces():
    check_sandbox(LandlockSandbox("landlock"))


@pytest.mark.parametrize("source", REGISTRY.context_sources, ids=lambda source: source.name)
def test_context_source(source, filled, codex_home):
    (filled / "AGENTS.md").write_text("Write British English.\n")
    check_context_source(source, cwd=filled, codex_home=codex_home)


def test_model_catalogues():
    for catalogue in REGISTRY.catalogues.values():
        for name in ("openai", "ollama"):
            check_model_catalogue(catalogue, ProviderInfo(id=name, base_url="http://127.0.0.1:9/v1"))


def test_command_policies():
    for policy in REGISTRY.command_policies:
        check_command_policy(policy)


@pytest.mark.parametrize("store", REGISTRY.thread_stores.values(), ids=list(REGISTRY.thread_stores))
def test_thread_store(store):
    check_thread_store(store)


@pytest.mark.parametrize("proxy", REGISTRY.network_proxies.values(), ids=list(REGISTRY.network_proxies))
def test_network_proxy(proxy):
    check_network_proxy(proxy)


@pytest.mark.slow
@pytest.mark.parametrize("agent", [offer.item for offer in REGISTRY.agents.values()], ids=list(REGISTRY.agents))
def test_agent(agent):
    check_agent(agent)


@pytest.mark.parametrize("source", [source_of(point) for point in BUNDLED], ids=lambda source: source.name)
def test_the_hooks_of_a_bundled_plugin_need_no_check_at_each_start(source):
    """The loader relies on it: it checks the hooks of other plugins only, and reads some declarations of bundled ones late."""
    assert source.bundled
    assert hook_problems(importlib.import_module(source.target)) == []


def test_the_objects_of_bundled_plugins_need_no_check_at_each_start():
    checked = 0
    for hook in OFFERING:
        for plugin in REGISTRY.plugins:
            for item in plugin.offers(hook.name) if hook.role and hook.name in plugin.hooks else ():
                assert role_problems(item, hook.role) == [], hook
                assert member_mistakes(item, hook.role) == [], hook
                checked += 1
    assert checked > 60


def test_every_role_that_a_bundled_plugin_plays_is_checked_here():
    """Add a test of the role, and the role to this list. Nothing is bundled today that watches (notifiers, telemetry, ...)."""
    checked = {
        "catalogues",
        "tools",
        "sandboxes",
        "context_sources",
        "command_policies",
        "thread_stores",
        "network_proxies",
    }
    checked |= {"agents", "providers", "components", "compactors", "constraints", "ops", "reviewers", "interceptors"}
    checked |= {"change_recorders"}
    declared = {"settings", "requires", "hooks", "events", "commands", "config_keys", "protected_paths"}
    assert {role for report in REGISTRY.reports for role in report.contributes} - declared <= checked


@pytest.fixture
def replayed(tmp_path: Path) -> ProviderInfo:
    script = tmp_path / "script.json"
    script.write_text('{"repeat_last": true, "responses": [{"say": "Hello!"}]}')
    return ProviderInfo(id="replay", wire_api="replay", options={"script": str(script)})


def test_provider_responses(responses_server: Callable[..., ResponsesServer]):
    everything = (
        reasoning("Hm", deltas=3)
        + say("Hello!", deltas=5, delta_delay_s=0.005)
        + call("look")
        + custom_call("write", "x")
    )
    server = responses_server([everything], repeat_last=True)
    check_provider(REGISTRY.providers["responses"], ProviderInfo(id="loopback", base_url=server.url))


def test_provider_replay(replayed):
    check_provider(REGISTRY.providers["replay"], replayed)


def test_every_provider_is_checked():
    assert REGISTRY.providers.keys() == {"responses", "replay", "chat"}  # the last one in tests/plugins/chat


@pytest.mark.slow
def test_component_dynamic_tools():
    check_component(DynamicTools)


@pytest.mark.slow
def test_component_mcp():
    check_component(lambda: Mcp({}))


@pytest.mark.slow
def test_component_goals():
    check_component(Goals)


@pytest.mark.slow
def test_component_sub_agents():
    check_component(SubAgents)


@pytest.mark.slow
def test_component_code_mode():
    check_component(lambda: REGISTRY.components["code_mode"].item)


@pytest.mark.slow
def test_component_undo(tmp_path):
    check_component(lambda: UndoComponent(tmp_path, {}))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["responses_prewarm", "work_modes"])
def test_other_components(name):
    check_component(lambda: REGISTRY.components[name].item)


def test_every_component_is_checked():
    names = {"code_mode", "dynamic_tools", "goals", "mcp", "responses_prewarm", "sub_agents", "undo", "work_modes"}
    assert REGISTRY.components.keys() == names


@pytest.mark.parametrize("offer", REGISTRY.constraints, ids=lambda offer: offer.plugin)
def test_constraints(offer):
    check_constraint(offer.item)


@pytest.mark.slow
def test_compactor_summary():
    assert REGISTRY.compactors.keys() == {"summary"}
    check_compactor(REGISTRY.compactors["summary"].item)


OPS = {
    "compact": (Compact(), [say("A summary.")]),
    "undo": (Undo(), []),
    "approve_guardian_denied_action": None,  # names a review of its thread: tests/plugins/guardian
    "review": (Review(ReviewRequest({"type": "custom", "instructions": "Look."})), [say("Fine.")]),
    "thread_rollback": None,  # starts no turn: tests/plugins/undo
    "run_user_shell_command": (RunUserShellCommand("sleep 0.05; echo hi"), []),
    "list_custom_prompts": (ListCustomPrompts(), []),
    "list_hooks": (ListHooks(), []),
    "list_skills": (ListSkills(), []),
    "list_models": (ListModels(), []),
    "configure_session": None,  # change settings or submit input: tests/plugins/older_ops
    "user_turn": None,
    "user_input_with_turn_context": None,
    "override_turn_context": None,
    "add_to_history": None,  # start no turns: tests/plugins/message_history
    "get_history_entry_request": None,
    "get_history_metadata": None,
    "dynamic_tool_response": None,  # answers a call that is open: tests/plugins/dynamic_tools
    "list_mcp_tools": None,  # answered in the background: tests/plugins/mcp
    "list_mcp_prompts": None,
    "use_mcp_prompt": None,
    "call_mcp_tool": None,
    "list_background_terminals": None,  # start no turns: tests/plugins/unified_exec
    "terminate_background_terminal": None,
    "read_mcp_resource": None,
    "login_mcp_server": None,
    "refresh_mcp_servers": None,  # starts nothing before a turn: tests/plugins/mcp
    "thread_goal_set": None,  # starts a turn only if there is something to pursue: tests/plugins/goals
    "thread_goal_clear": None,
    "set_work_mode": None,  # starts no turn: tests/plugins/work_modes
    "set_thread_memory_mode": None,  # starts no turn: tests/plugins/memory_mode
    "user_input_answer": None,  # likewise: tests/plugins/request_user_input
    "inter_agent_communication": None,  # names its thread: tests/plugins/sub_agents
    "realtime_conversation_start": None,  # start no turns: tests/plugins/realtime
    "realtime_conversation_audio": None,
    "realtime_conversation_text": None,
    "realtime_conversation_speech": None,
    "realtime_conversation_close": None,
    "realtime_conversation_list_voices": None,
    "resolve_elicitation": None,  # answers a question that is open: tests/plugins/mcp
}


@pytest.mark.slow
@pytest.mark.parametrize("tag", REGISTRY.ops)
def test_op_handler(tag):
    if OPS[tag] is not None:
        op, replies = OPS[tag]
        plugins = [Offer(compactors=[REGISTRY.compactors["summary"].item])]
        check_op_handler(REGISTRY.ops[tag].item, op, after_turn=tag == "compact", replies=replies, plugins=plugins)


@pytest.mark.slow
def test_task_user_shell():
    check_task(UserShell, "sleep 0.05; echo hi")


@pytest.mark.slow
def test_task_compacting():
    check_task(
        Compacting, replies=[say("A summary.")], plugins=[Offer(compactors=[REGISTRY.compactors["summary"].item])]
    )


@pytest.mark.slow
def test_task_reviewing():
    check_task(Reviewing, (target_of({"type": "custom", "instructions": "Look."}), None), replies=[say("Fine.")])


@pytest.mark.slow
@pytest.mark.parametrize("recorder", [offer.item for offer in REGISTRY.change_recorders], ids=lambda item: item.name)
def test_change_recorder(recorder):
    check_change_recorder(recorder)


@pytest.mark.parametrize("interceptor", [offer.item for offer in REGISTRY.interceptors], ids=lambda item: item.name)
def test_interceptor(interceptor):
    check_interceptor(interceptor)
