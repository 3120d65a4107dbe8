"""``codex-framework mcp prompts|prompt|resources|resource`` with a real server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SERVER = r"""
import json, sys
CAPABILITIES = json.loads(sys.argv[1])
PROMPTS = [
    {"name": "greet", "description": "Greets.\nAnd more.", "arguments": [
        {"name": "who", "description": "Whom \x1b[2J", "required": True}, {"name": "tone"}]},
    {"name": "bare"},
]
RESOURCES = [{"uri": "demo://a", "name": "a", "mimeType": "text/plain", "description": "The first."}, {"uri": "demo://b", "name": "b"}]
TEMPLATES = [{"uriTemplate": "demo://{id}", "name": "any"}]
def answer(method, params):
    if method == "initialize":
        info = {"name": "s", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES, "serverInfo": info}
    if method == "tools/list":
        return {"tools": []}
    if method == "prompts/list":
        return {"prompts": PROMPTS}
    if method == "resources/list":
        return {"resources": RESOURCES}
    if method == "resources/templates/list":
        return {"resourceTemplates": TEMPLATES}
    if method == "prompts/get" and params["name"] == "greet":
        image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
        said = {"type": "text", "text": f"Greet {params['arguments']['who']}!\nNow."}
        return {"messages": [{"role": "user", "content": said}, {"role": "assistant", "content": image}]}
    if method == "resources/read" and params["uri"] == "demo://a":
        parts = [{"uri": "demo://a", "text": "the text"}, {"uri": "demo://a", "blob": "aGVsbG8=", "mimeType": "image/png"}]
        return {"contents": parts}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        error = {"error": {"code": -32602, "message": "there is no such \x1b[2Jthing"}}
        told = error if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)
"""


@pytest.fixture
def serve(home: Path, tmp_path: Path) -> Callable[..., None]:
    """Configure a server with these capabilities."""
    (tmp_path / "server.py").write_text(SERVER)

    def make(name: str, *capabilities: str) -> None:
        given = json.dumps({each: {} for each in capabilities})
        args = json.dumps([str(tmp_path / "server.py"), given])
        with (home / "config.toml").open("a") as file:
            file.write(f"[mcp_servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n")

    return make


def test_the_prompts_of_all_servers(mcp: Callable[..., Any], serve: Callable[..., None]) -> None:
    serve("one", "prompts")
    serve("two", "tools")
    ran = mcp("prompts")
    assert ran.out == (
        "one\n  greet: Greets.\n    who (required): Whom \\x1b[2J\n    tone\n  bare\n\ntwo\n  The server offers no prompts.\n"
    )
    assert ran.status == 0


def test_the_resources_of_one_server(mcp: Callable[..., Any], serve: Callable[..., None]) -> None:
    serve("one", "resources")
    assert mcp("resources", "one").out == (
        "one\n  demo://a (text/plain)\n    The first.\n  demo://b\n    b\n  demo://{id}\n    any\n"
    )
    (server,) = mcp("resources", "--json").json
    assert [each["uri"] for each in server["resources"]] == ["demo://a", "demo://b"]
    assert server["resourceTemplates"] == [{"uriTemplate": "demo://{id}", "name": "any"}]


def test_a_server_that_does_not_start_hides_nothing_of_the_others(
    mcp: Callable[..., Any], serve: Callable[..., None], home: Path
) -> None:
    serve("one", "prompts")
    with (home / "config.toml").open("a") as file:
        file.write('[mcp_servers.dead]\ncommand = "false"\n[mcp_servers.wrong]\ncommand = "x"\nsandbox = "none"\n')
    ran = mcp("prompts")
    assert ran.status == 1
    assert ran.out.startswith("dead (failed)\n  MCP client for `dead` failed to start")
    assert "greet: Greets." in ran.out
    assert ran.err.count("mcp_servers.wrong.sandbox") == 1
    assert "dead" not in ran.err
    assert "wrong" not in mcp("prompts", "one").err


def test_a_prompt_is_shown_with_its_roles(mcp: Callable[..., Any], serve: Callable[..., None]) -> None:
    serve("one", "prompts")
    ran = mcp("prompt", "one", "greet", "who=Ada=Eve")
    assert ran.out == "user:\n  Greet Ada=Eve!\n  Now.\nassistant:\n  [image: image/png, 6 bytes]\n"
    assert len(mcp("prompt", "one", "greet", "who=x", "--json").json["messages"]) == 2


def test_a_resource_is_read(mcp: Callable[..., Any], serve: Callable[..., None]) -> None:
    serve("one", "resources")
    assert mcp("resource", "one", "demo://a").out == "the text\n[resource: demo://a image/png, 6 bytes]\n"
    assert mcp("resource", "one", "demo://a", "--json").json["contents"][1]["blob"] == "aGVsbG8="


@pytest.mark.parametrize("words", [("prompt", "one", "none"), ("resource", "one", "demo://none")])
def test_what_a_server_refuses_is_one_line(
    mcp: Callable[..., Any], serve: Callable[..., None], words: tuple[str, ...]
) -> None:
    serve("one", "prompts", "resources")
    ran = mcp(*words)
    assert str(ran.error) == "the MCP server 'one': there is no such \\x1b[2Jthing"


def test_what_cannot_be_asked_is_named(mcp: Callable[..., Any], serve: Callable[..., None], home: Path) -> None:
    with (home / "config.toml").open("a") as file:
        file.write('[mcp_servers.dead]\ncommand = "false"\n[mcp_servers.off]\ncommand = "false"\nenabled = false\n')
    assert "failed to start" in str(mcp("resource", "dead", "demo://a").error)
    assert "is disabled" in str(mcp("resource", "off", "demo://a").error)
    assert "No MCP server named 'none' found." in str(mcp("prompts", "none").error)
    ran = mcp("prompt", "dead", "greet", "who")
    assert ran.status == 2
    assert "'who' is not in the form KEY=VALUE" in ran.err
