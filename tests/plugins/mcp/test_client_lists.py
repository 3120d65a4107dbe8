"""What clients see of servers: lists, changes of lists, and prompts as input."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
from pathlib import Path

import pytest

from codex_framework.contract.protocol.events import ErrorEvent, TurnCompleteEvent
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.testing import call, say
from codex_plugin_mcp.client_lists import (
    McpListPromptsResponseEvent,
    McpListToolsResponseEvent,
)
from codex_plugin_mcp.errors import McpError
from codex_plugin_mcp.events import McpListChangedEvent
from codex_plugin_mcp.logs import ServerLog, level_of
from codex_plugin_mcp.ops import ListMcpPrompts, ListMcpTools, UseMcpPrompt
from codex_plugin_mcp.prompts import read_prompt

SERVER = Path(__file__).parent / "answering_server.py"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def user(text):
    return {"role": "user", "content": {"type": "text", "text": text}}


ANSWERS = {
    "resources/list": {"resources": [{"uri": "a://1", "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{x}", "name": "t"}]},
    "prompts/list": {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]},
    "prompts/get greet": {"messages": [user("Say hello.")]},
    "prompts/get talk": {
        "messages": [
            user("What is 1+1?"),
            {"role": "assistant", "content": {"type": "text", "text": "2"}},
            user("And 2+2?"),
        ]
    },
    "prompts/get broken": {"messages": [{"role": "system", "content": {"type": "text", "text": "x"}}]},
}


def table(name="srv", **settings):
    arguments = json.dumps([str(SERVER), json.dumps({"answers": ANSWERS, **settings})])
    return f"mcp_servers.{name}={{command={json.dumps(sys.executable)}, args={arguments}}}"


def run(make_thread, story, config=None):
    async def main():
        async with make_thread(None, config=config or [table()], attended=True) as thread, asyncio.timeout(40):
            await thread.turn("go", say("ready"))
            return await story(thread)

    return asyncio.run(main())


def asked(op, kind):
    async def story(thread):
        await thread.client.submit(op)
        return to_wire(await thread.until(kind))

    return story


def test_clients_list_tools_resources_templates_and_how_servers_are_authorized(make_thread):
    found = run(make_thread, asked(ListMcpTools(), McpListToolsResponseEvent))
    assert found == {
        "type": "mcp_list_tools_response",
        "tools": {"mcp__srv__call": {"name": "call", "inputSchema": {"type": "object"}}},
        "resources": {"srv": [{"uri": "a://1", "name": "one"}]},
        "resource_templates": {"srv": [{"uriTemplate": "a://{x}", "name": "t"}]},
        "auth_statuses": {"srv": "unsupported"},
        "errors": {},
    }


def test_a_server_that_does_not_answer_hides_nothing_of_the_others(make_thread):
    answers = {"resources/list": {"code": -32000, "message": "out of order"}}
    config = [table(), table("bad", answers=answers), 'mcp_servers.gone={command="/nowhere/x"}']
    found = run(make_thread, asked(ListMcpTools(), McpListToolsResponseEvent), config)
    assert found["resources"]["srv"] == [{"uri": "a://1", "name": "one"}]
    assert found["errors"]["bad"] == "out of order"
    assert "/nowhere/x" in found["errors"]["gone"]


def test_without_servers_the_lists_are_empty(make_thread):
    found = run(make_thread, asked(ListMcpTools(), McpListToolsResponseEvent), ['model="x"'])
    assert (found["tools"], found["auth_statuses"]) == ({}, {})


def test_clients_list_prompts(make_thread):
    found = run(make_thread, asked(ListMcpPrompts(), McpListPromptsResponseEvent))
    assert (found["prompts"], found["errors"]) == ({"srv": ANSWERS["prompts/list"]["prompts"]}, {})


def test_a_changed_list_is_told_once_however_often_the_server_tells_it(make_thread):
    changed = {"method": "notifications/resources/list_changed"}
    more = {"method": "notifications/prompts/list_changed"}

    async def story(thread):
        first, second = await thread.until(McpListChangedEvent), await thread.until(McpListChangedEvent)
        await asyncio.sleep(0.3)
        count = sum(isinstance(event, McpListChangedEvent) for event in thread.events)
        return sorted([first.list, second.list]), first.server, count

    config = [table(send=[*[changed] * 50, more])]
    assert run(make_thread, story, config) == (["prompts", "resources"], "srv", 2)


def test_a_changed_list_of_tools_is_told_and_its_first_reading_is_not(make_thread):
    scripted = Path(__file__).parent / "scripted_server.py"
    arguments = json.dumps([str(scripted), json.dumps({"tools": [{"name": "grow"}]})])
    table = f'command={json.dumps(sys.executable)}, args={arguments}, default_tools_approval_mode="approve"'

    async def story(thread):
        await thread.turn("grow", call("mcp__srv__grow", name="added"), say("done"))
        changed = await thread.until(McpListChangedEvent)
        return changed, sum(isinstance(event, McpListChangedEvent) for event in thread.events)

    changed, count = run(make_thread, story, [f"mcp_servers.srv={{{table}}}"])
    assert (changed, count) == (McpListChangedEvent(server="srv", list="tools"), 1)


# Prompts as input


def prompted(make_thread, op):
    async def story(thread):
        thread.kernel.model.add(say("Hello!"))
        await thread.client.submit(op)
        await thread.until(TurnCompleteEvent)
        await thread.until(TurnCompleteEvent)
        return [(item.role, item.content[0].text) for item in thread.history[2:] if hasattr(item, "role")]

    return run(make_thread, story)


def test_a_prompt_starts_a_turn(make_thread):
    found = prompted(make_thread, UseMcpPrompt("srv", "greet", {"who": "Ann"}))
    assert found[-2:] == [("user", "Say hello."), ("assistant", "Hello!")]


def test_the_earlier_messages_of_a_prompt_are_part_of_the_conversation(make_thread):
    found = prompted(make_thread, UseMcpPrompt("srv", "talk"))
    assert found[-4:] == [("user", "What is 1+1?"), ("assistant", "2"), ("user", "And 2+2?"), ("assistant", "Hello!")]


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (UseMcpPrompt("other", "greet"), "unknown MCP server 'other'"),
        (UseMcpPrompt("srv", "absent"), "the prompt 'absent' of the MCP server 'srv' cannot be used: "),
        (
            UseMcpPrompt("srv", "broken"),
            "the prompt 'broken' of the MCP server 'srv' cannot be used: a message has neither",
        ),
    ],
)
def test_a_prompt_that_cannot_be_used_is_explained(make_thread, op, text):
    async def story(thread):
        await thread.client.submit(op)
        return (await thread.until(ErrorEvent)).message

    assert run(make_thread, story).startswith(text)


def test_contents_of_prompts_are_text_and_images():
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    shared = {"type": "resource", "resource": {"uri": "a://4", "blob": PNG, "mimeType": "image/png"}}
    forged = {"type": "resource", "resource": {"uri": "a://5", "blob": "aGk=", "mimeType": "image/png"}}
    text = {"type": "resource", "resource": {"uri": "a://1", "text": "x"}}
    blob = {"type": "resource", "resource": {"uri": "a://2", "blob": "aGk=", "mimeType": "application/pdf"}}
    link = {"type": "resource_link", "uri": "a://3", "name": "three"}
    parts = (image, text, blob, link, shared, forged)
    prompt = read_prompt({"messages": [{"role": "user", "content": part} for part in parts]})
    assert [getattr(item, "text", getattr(item, "image_url", None)) for item in prompt.input] == [
        f"data:image/png;base64,{PNG}",
        "[resource a://1]\nx",
        "[resource a://2: binary content left out]",
        "[resource a://3: three]",
        f"data:image/png;base64,{PNG}",
        "[resource a://5: binary content left out]",
    ]


@pytest.mark.parametrize(
    ("data", "kind", "why"),
    [
        ("aGk=", "image/png", "its data is not of the type image/png"),
        ("#", "image/gif", "its data is not base64"),
        ("PHN2Zz4=", "image/svg+xml,x", "its type 'image/svg+xml,x' is not PNG, JPEG, GIF or WebP"),
        ("PHN2Zz4=", ["image/png"], "its type \"['image/png']\" is not PNG, JPEG, GIF or WebP"),
    ],
)
def test_a_prompt_with_an_image_that_models_cannot_read_is_refused(data, kind, why):
    content = {"type": "image", "data": data, "mimeType": kind}
    with pytest.raises(McpError) as caught:
        read_prompt({"messages": [{"role": "user", "content": content}]})
    assert str(caught.value) == f"a message has an image that models cannot read: {why}"


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        [7],
        [{"role": "user"}],
        [{"role": "user", "content": {"type": "audio", "data": "x", "mimeType": "audio/wav"}}],
        [user("x"), {"role": "assistant", "content": {"type": "text", "text": "y"}}],
        [user("x")] * 201,
        [user("x" * 1_000_001)],
    ],
)
def test_messages_that_cannot_be_used_are_refused(messages):
    with pytest.raises(McpError):
        read_prompt({"messages": messages})


# Log messages


def test_log_messages_go_to_logging_at_their_level(caplog):
    log = ServerLog("srv")

    async def main():
        await log.message({"level": "error", "logger": "db", "data": "lost\x1b[31m\nconnection"})
        await log.message({"level": "notice", "data": {"a": 1}})
        await log.message({"level": "emergency", "data": None})
        await log.message({"level": "odd", "data": "x"})
        await log.message({})

    with caplog.at_level(logging.DEBUG, "codex_plugin_mcp.servers"):
        asyncio.run(main())
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "srv/db: lost connection"),
        ("INFO", 'srv: {"a": 1}'),
        ("CRITICAL", "srv: null"),
        ("INFO", "srv: x"),
        ("INFO", "srv: null"),
    ]


def test_a_flood_of_log_messages_is_cut_off(caplog):
    async def main():
        log = ServerLog("srv")
        for _ in range(500):
            await log.message({"level": "error", "data": "x"})

    with caplog.at_level(logging.DEBUG, "codex_plugin_mcp.servers"):
        asyncio.run(main())
    assert 50 <= len(caplog.records) <= 160


@pytest.mark.parametrize(
    ("level", "asked"), [("DEBUG", "debug"), ("INFO", "info"), ("WARNING", "warning"), ("ERROR", "error")]
)
def test_servers_are_asked_for_what_is_logged(caplog, level, asked):
    with caplog.at_level(level, "codex_plugin_mcp.servers"):
        assert level_of() == asked


def test_a_server_with_logging_is_asked_for_its_level(make_thread, tmp_path):
    capabilities = {"tools": {}, "logging": {}}
    log = tmp_path / "log"
    config = [table(capabilities=capabilities, log=str(log), answers={"logging/setLevel": {}})]

    async def story(thread):
        while "logging/setLevel" not in log.read_text():
            await asyncio.sleep(0.01)

    run(make_thread, story, config)
