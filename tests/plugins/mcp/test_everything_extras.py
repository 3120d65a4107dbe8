"""Questions, resources, prompts, roots, sampling and log messages of the reference server ``server-everything``."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from pathlib import Path

import pytest

from codex_framework.testing import answer, call, say
from codex_plugin_mcp.client_lists import McpListPromptsResponseEvent, McpListToolsResponseEvent
from codex_plugin_mcp.ops import ListMcpPrompts, ListMcpTools, UseMcpPrompt
from codex_plugin_mcp.questions import ElicitationAnswer, ElicitationRequest

FOLDER = Path(os.environ.get("CODEX_MCP_SERVERS") or "/nowhere")
EVERYTHING = FOLDER / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(
    NODE is None or not EVERYTHING.exists(),
    reason="CODEX_MCP_SERVERS names no folder with @modelcontextprotocol/server-everything, or there is no node",
)


def config(*more):
    table = f'command={json.dumps(NODE)}, args=[{json.dumps(str(EVERYTHING))}, "stdio"], default_tools_approval_mode="approve"'
    return ['approval_policy="on-request"', f"mcp_servers.every={{{table}}}", *more]


def run(make_thread, story, *answers, more=()):
    async def main():
        async with make_thread(None, *answers, config=config(*more), attended=True) as thread, asyncio.timeout(60):
            return await story(thread)

    return asyncio.run(main())


def calls(make_thread, *wanted, answers=()):
    """Run calls in one turn, and return their outputs as texts, and the questions."""

    async def story(thread):
        await thread.turn("go", sum(wanted[1:], wanted[0]), say("done"))
        return [str(output) for output in thread.outputs], thread.seen

    return run(make_thread, story, *answers)


def test_a_form_is_answered_with_defaults(make_thread):
    given = ElicitationAnswer("accept", {"name": "Ann", "check": True})
    (output,), (request,) = calls(
        make_thread, call("mcp__every__trigger_elicitation_request"), answers=[answer(ElicitationRequest, given)]
    )
    assert request.server_name == "every"
    assert "name" in request.request.requested_schema["properties"]
    assert "Ann" in output
    assert request.problems == ()


def test_resources_are_listed_and_read(make_thread):
    outputs, _ = calls(
        make_thread,
        call("list_mcp_resources", server="every", call_id="1"),
        call("list_mcp_resource_templates", call_id="2"),
        call("read_mcp_resource", server="every", uri="demo://resource/dynamic/text/1", call_id="3"),
        call("read_mcp_resource", server="every", uri="demo://resource/dynamic/blob/1", call_id="4"),
    )
    resources, templates, text, blob = (json.loads(output) for output in outputs)
    assert resources["resources"][0]["server"] == "every"
    assert any("{" in template["uriTemplate"] for template in templates["resourceTemplates"])
    assert "text" in text["contents"][0]
    assert "blob" in blob["contents"][0]


def test_clients_see_lists_and_use_a_prompt(make_thread):
    async def story(thread):
        await thread.turn("go", say("ready"))
        await thread.client.submit(ListMcpTools())
        lists = await thread.until(McpListToolsResponseEvent)
        await thread.client.submit(ListMcpPrompts())
        prompts = await thread.until(McpListPromptsResponseEvent)
        thread.kernel.model.add(say("Hi!"))
        await thread.client.submit(UseMcpPrompt("every", "args-prompt", {"city": "Oslo", "state": "none"}))
        while len(thread.requests) < 2:
            await asyncio.sleep(0.01)
        await thread.client.settled()
        return lists, prompts, thread.history

    lists, prompts, history = run(make_thread, story)
    assert "mcp__every__echo" in lists.tools
    assert lists.auth_statuses == {"every": "unsupported"}
    assert lists.errors == {}
    assert lists.resources["every"]
    assert any(prompt["name"] == "args-prompt" for prompt in prompts.prompts["every"])
    assert any("Oslo" in str(item) for item in history)


def test_the_server_learns_the_folder_and_uses_the_model_once_the_user_agrees(make_thread, workspace):
    async def story(thread):
        sampled = call("mcp__every__trigger_sampling_request", prompt="Say hi", maxTokens=50, call_id="1")
        roots = call("mcp__every__get_roots_list", call_id="2")
        await thread.turn("go", sampled, say("The sampled hi."), roots, say("done"))
        return [str(output) for output in thread.outputs], thread.seen

    yes = answer(ElicitationRequest, ElicitationAnswer("accept"))
    (sampled, roots), (question,) = run(make_thread, story, yes, more=['framework.plugins.mcp.sampling=["every"]'])
    assert "The sampled hi." in sampled
    assert "Say hi" in question.request.message
    assert workspace.as_uri() in roots


def test_log_messages_reach_the_log(make_thread, caplog):
    async def story(thread):
        await thread.turn("go", call("mcp__every__toggle_simulated_logging"), say("done"))
        while not caplog.records:
            await asyncio.sleep(0.05)

    with caplog.at_level(logging.DEBUG, "codex_plugin_mcp.servers"):
        run(make_thread, story)
    assert caplog.records[0].getMessage().startswith("every")
