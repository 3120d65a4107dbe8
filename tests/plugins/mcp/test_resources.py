"""The tools for resources: lists of one server and of all, cursors, templates, contents, and errors."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path

import pytest

from codex_framework import InputImage, InputText
from codex_framework.contract.protocol.events import ItemCompletedEvent
from codex_framework.testing import call, say

SERVER = Path(__file__).parent / "answering_server.py"
ONE = {"uri": "a://1", "name": "one", "title": "One", "mimeType": "text/plain", "size": 3}
TWO = {"uri": "a://2", "name": "two", "server": "forged"}
TEMPLATE = {"uriTemplate": "a://{x}", "name": "t", "description": "d"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
ANSWERS = {
    "resources/list": {"resources": [ONE], "nextCursor": "more"},
    "resources/list more": {"resources": [TWO]},
    "resources/templates/list": {"resourceTemplates": [TEMPLATE]},
    "resources/read a://1": {"contents": [{"uri": "a://1", "mimeType": "text/plain", "text": "hello"}]},
    "resources/read a://image": {"contents": [{"uri": "a://image", "mimeType": "image/png", "blob": PNG}]},
    "resources/read a://blob": {"contents": [{"uri": "a://blob", "blob": "aGk="}]},
    "resources/read a://forged": {"contents": [{"uri": "a://forged", "mimeType": "image/png", "blob": "aGk="}]},
    "resources/read a://huge": {"contents": [{"uri": "a://huge", "blob": base64.b64encode(bytes(9_000)).decode()}]},
    "resources/read a://bad": {"contents": [{"uri": "a://bad", "blob": "!"}]},
    "resources/read a://none": {"code": -32002, "message": "Resource not found", "data": {"uri": "a://none"}},
    "resources/read a://odd": {"contents": 7},
    "resources/read a://slow": {"sleep_s": 30, "contents": []},
}
NAMES = ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"]


def table(name="srv", **settings):
    arguments = json.dumps([str(SERVER), json.dumps({"answers": ANSWERS, **settings})])
    return f"mcp_servers.{name}={{command={json.dumps(sys.executable)}, args={arguments}, tool_timeout_sec=0.5}}"


def outputs(make_thread, *calls, config=None):
    """Run the calls in one turn, and return their outputs and the offered names."""

    async def main():
        async with make_thread(None, config=config or [table()]) as thread, asyncio.timeout(40):
            replies = sum(calls[1:], calls[0]) if calls else None
            await thread.turn("go", *([replies] if replies else []), say("done"))
            offered = [spec.name for spec in thread.requests[0].tools if spec.name in NAMES]
            return thread.outputs, offered

    return asyncio.run(main())


def one(make_thread, name, config=None, **arguments):
    (output,), _ = outputs(make_thread, call(name, **arguments), config=config)
    return output


@pytest.mark.parametrize("capabilities", [{"resources": {}, "tools": {}}, {"tools": {}}])
def test_the_tools_are_offered_with_any_server(make_thread, capabilities):
    assert outputs(make_thread, config=[table(capabilities=capabilities)])[1] == NAMES


def test_a_server_that_does_not_state_its_resources_is_asked_for_them(make_thread):
    mute = {"resources/list": {"code": -32601, "message": "no such method"}}
    unstated = table("unstated", capabilities={"tools": {}})
    config = [unstated, table("without", capabilities={"tools": {}}, answers=mute)]
    listed = json.loads(str(one(make_thread, "list_mcp_resources", config)))
    assert {item["server"] for item in listed["resources"]} == {"unstated"}
    assert "errors" not in listed


def test_a_server_with_resources_and_without_tools_has_them_in_the_first_turn(make_thread):
    assert outputs(make_thread, config=[table(capabilities={"resources": {}})])[1] == NAMES


def test_lists_are_as_in_codex(make_thread):
    mine = {"server": "srv"}
    results, _ = outputs(
        make_thread,
        call("list_mcp_resources", call_id="1"),
        call("list_mcp_resources", server="srv", call_id="2"),
        call("list_mcp_resources", server="srv", cursor="more", call_id="3"),
        call("list_mcp_resource_templates", call_id="4"),
        call("list_mcp_resource_templates", server="srv", call_id="5"),
    )
    two = {"server": "srv", "uri": "a://2", "name": "two"}
    assert [json.loads(str(result)) for result in results] == [
        {"resources": [{**mine, **ONE}, two]},
        {"server": "srv", "resources": [{**mine, **ONE}], "nextCursor": "more"},
        {"server": "srv", "resources": [two]},
        {"resourceTemplates": [{**mine, **TEMPLATE}]},
        {"server": "srv", "resourceTemplates": [{**mine, **TEMPLATE}]},
    ]
    assert results[1].startswith('{"server":"srv","resources":[{"server":"srv","uri":"a://1","name":"one"')


def test_resources_of_all_servers_are_listed_by_name_and_a_failure_hides_nothing(make_thread):
    broken = {"resources/list": {"code": -32000, "message": "out of order"}}
    config = [table("b"), table("a", answers=broken), table("none", capabilities={"tools": {}}, answers=broken)]
    listed = json.loads(str(one(make_thread, "list_mcp_resources", config)))
    assert [(item["server"], item["uri"]) for item in listed["resources"]] == [("b", "a://1"), ("b", "a://2")]
    assert listed["errors"] == {"a": "Mcp error: -32000: out of order"}


def test_clients_see_the_calls_as_calls_of_servers(make_thread):
    async def main():
        async with make_thread(None, config=[table()]) as thread, asyncio.timeout(40):
            asked = call("list_mcp_resources", call_id="1") + call("list_mcp_resources", cursor="x", call_id="2")
            asked += call("read_mcp_resource", server="srv", uri="a://1", call_id="3")
            asked += call("read_mcp_resource", server="nope", uri="a://1", call_id="4")
            await thread.turn("go", asked, say("done"))
            items = [event.item for event in thread.events if isinstance(event, ItemCompletedEvent)]
            return {item["id"]: item for item in items if item.get("type") == "McpToolCall"}

    items = asyncio.run(main())
    assert [(one["server"], one["tool"], one["status"]) for one in (items["1"], items["2"], items["3"])] == [
        ("codex", "list_mcp_resources", "completed"),
        ("codex", "list_mcp_resources", "failed"),
        ("srv", "read_mcp_resource", "completed"),
    ]
    assert items["2"]["error"] == {"message": "cursor can only be used when a server is specified"}
    assert json.loads(items["3"]["result"]["content"][0]["text"])["contents"][0]["text"] == "hello"
    assert "4" not in items


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("list_mcp_resources", {"cursor": "more"}, "cursor can only be used when a server is specified"),
        ("list_mcp_resources", {"server": "nope"}, "unknown MCP server 'nope' for the selected environment"),
        ("list_mcp_resource_templates", {"server": "nope"}, "unknown MCP server 'nope' for the selected environment"),
        ("list_mcp_resource_templates", {"cursor": "x"}, "cursor can only be used when a server is specified"),
        ("list_mcp_resources", {"server": 7}, "failed to parse function arguments: "),
        (
            "read_mcp_resource",
            {"server": "nope", "uri": "a://1"},
            "unknown MCP server 'nope' for the selected environment",
        ),
        ("read_mcp_resource", {"server": "srv"}, "failed to parse function arguments: missing field `uri`"),
        ("read_mcp_resource", {"server": "srv", "uri": " "}, "uri must be provided"),
        (
            "read_mcp_resource",
            {"server": "srv", "uri": "a://none"},
            'resources/read failed for `srv` (a://none): Mcp error: -32002: Resource not found({"uri": "a://none"})',
        ),
        (
            "read_mcp_resource",
            {"server": "srv", "uri": "a://odd"},
            "resources/read failed for `srv` (a://odd): its answer",
        ),
        (
            "read_mcp_resource",
            {"server": "srv", "uri": "a://slow"},
            "resources/read failed for `srv` (a://slow): no answer",
        ),
    ],
)
def test_what_fails_is_explained(make_thread, name, arguments, text):
    assert str(one(make_thread, name, **arguments)).startswith(text)


@pytest.mark.parametrize(
    ("uri", "content"),
    [
        ("a://1", {"uri": "a://1", "mimeType": "text/plain", "text": "hello"}),
        ("a://blob", {"uri": "a://blob", "blob": "aGk="}),
        ("a://forged", {"uri": "a://forged", "mimeType": "image/png", "blob": "aGk="}),
        ("a://huge", {"uri": "a://huge", "blob": "(9000 bytes of binary content left out)"}),
        ("a://bad", {"uri": "a://bad", "error": "the binary content is not valid base64"}),
    ],
)
def test_contents_are_passed_on_and_long_binary_ones_described(make_thread, uri, content):
    read = json.loads(str(one(make_thread, "read_mcp_resource", server="srv", uri=uri)))
    assert read == {"server": "srv", "uri": uri, "contents": [content]}


def test_an_image_is_an_image_for_the_model(make_thread):
    text, image = one(make_thread, "read_mcp_resource", server="srv", uri="a://image")
    assert isinstance(text, InputText)
    assert image == InputImage(f"data:image/png;base64,{PNG}")
    assert json.loads(text.text)["contents"] == [
        {"uri": "a://image", "mimeType": "image/png", "blob": "(image 1 below, 8 bytes)"}
    ]


def test_only_some_images_are_passed_on(make_thread):
    answers = {"resources/read": {"contents": [{"uri": "a://i", "mimeType": "image/png", "blob": PNG}] * 12}}
    text, *images = one(make_thread, "read_mcp_resource", [table(answers=answers)], server="srv", uri="a://i")
    assert len(images) == 10
    assert json.loads(text.text)["contents"][-1]["blob"] == PNG


def test_a_text_without_end_is_cut(make_thread):
    answers = {"resources/read": {"contents": [{"uri": "a://1", "text": "x" * 1_100_000}]}}
    read = one(make_thread, "read_mcp_resource", [table(answers=answers)], server="srv", uri="a://1")
    assert len(str(read)) < 100_000
